// The letters that end a tensor's name and say its shape, as in `queries_BSHE`. Digits are sizes, but E2 is half of E.
//   B  batch rows; blocks of a quantized matrix
//   C  rows of a chunk of logits; positions of a cache; in AMX's tiles keys at once, or columns of a panel
//   D  hidden size; of a matrix its columns, of a linear layer the width of its input
//   E  elements of one head
//   F  feed-forward size
//   G  groups of a matrix's row that share a step size; key heads of all batch rows
//   H  query heads
//   J  taps of a convolution
//   K  key/value heads; numbers of a quantized block; of a product the side that is summed over
//   L  layers, in comments
//   M  rows of a product
//   N  of a matrix its rows, of a linear layer the width of its output; rows that have a target; queries of a key head
//   Q  in AMX's tiles queries at once
//   R  rank of an adapter; rows of a part of a matrix; query heads of a key head
//   S  sequence positions
//   T  tokens = B*S
//   V  vocabulary
#pragma once
