// The letters that end a tensor's name and say its shape, as in `queries_BHSE`.
//   B batch rows          S sequence positions     T tokens = B*S         V vocabulary
//   D hidden size         H query heads            K key/value heads      E elements of one head
//   F feed-forward size   R rank of an adapter     L layers
#pragma once
