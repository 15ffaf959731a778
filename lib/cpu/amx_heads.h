// Causal attention of one thread's share in AMX's tiles: flash attention's forward and backward passes (Dao 2023, arXiv
// 2307.08691) over blocks of queries and keys. For CPUs with AMX and AVX512_BF16.
#pragma once

#include <cstdint>

#include "cpu/amx_scratch.h"
#include "cpu/amx_tiles.h"
#include "cpu/attention_shares.h"

#ifdef FATHOM_AMX

namespace fathom::cpu::amx {

// BF16 numbers of tokens' heads: those of one head lie side by side.
struct Heads {
  uint16_t* data = nullptr;
  int64_t token_stride = 0, head_stride = 0;
  uint16_t* at(int64_t token, int64_t head) const { return data + token * token_stride + head * head_stride; }
};

struct Attention {
  int64_t heads = 0, key_heads = 0, head_size = 0;
  Heads queries, keys, values, out;
  float* logsumexp_TH = nullptr;                         // of base 2, of the scaled scores
  Heads grad_out, grad_queries, grad_keys, grad_values;  // of the backward pass
};

// Writes out and logsumexp of the stretch's queries.
void attend(const Attention& attention, const AttentionStretch& stretch, const ForwardScratch& scratch);

// Writes the gradient of the stretch's queries, and into `sums` what they add to the gradients of the document's keys
// and values up to the last of them.
void attend_backward(const Attention& attention, const AttentionStretch& stretch, const BackwardScratch& scratch,
                     const KeySums& sums);
// `sums` grow by those of an earlier stretch of the same document and head.
void add_sums(const Attention& attention, const AttentionStretch& earlier, const KeySums& of_earlier,
              const KeySums& sums);
// Writes the gradients of all keys and values that the stretch's document has for its head.
void write_sums(const Attention& attention, const AttentionStretch& stretch, const KeySums& sums);

}  // namespace fathom::cpu::amx

#endif
