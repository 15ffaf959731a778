// An architecture in llama.cpp's words: which of its own it is, the keys that describe it, the names of its tensors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "arch/architecture.h"
#include "weights/gguf_writer.h"

namespace fathom::gguf {

// What llama.cpp's graph of an architecture can do that families differ in.
struct LlamaCppArchitecture {
  std::string_view family;  // "MistralForCausalLM"
  std::string_view name;    // "llama"
  bool rotates_neighbours;  // rotary positions turn values 2i and 2i + 1 of a head; else i and i + E/2, as fathom does
  bool stretches;           // it reads rope_freqs.weight
  bool output_bias;         // of attention's output and of the feed-forward part
  bool free_head_size;      // queries may be wider or narrower than the stream
  bool needs_head;          // a tied head stands in the file as a tensor of its own, as scaled ones do everywhere
};

// Throws Error, beginning with `where`, for a family that llama.cpp has no architecture for, naming those that it has,
// and for what its architecture does otherwise. Warns of sliding windows, which llama.cpp does not read there.
const LlamaCppArchitecture& llama_cpp_architecture(const arch::Architecture& model, const std::string& where);

// "llama.block_count" and so on. vocabulary: rows of the embedding in the file.
weights::GgufKeys model_keys(const arch::Architecture& model, const LlamaCppArchitecture& target, int64_t vocabulary);

// "blk.3.attn_q.weight" of a parameter.
std::string tensor_name(const arch::ParameterSpec& spec, const arch::Architecture& model);

// How many heads the rows of a query's or key's matrix or bias are, where llama.cpp rotates neighbours, so that they
// change places (row_in_pairs); 0 for every other parameter.
int64_t heads_in_pairs(const arch::ParameterSpec& spec, const arch::Architecture& model,
                       const LlamaCppArchitecture& target);
// Which row of a matrix of so many, in so many heads, comes to stand in row `row`: within each head the halves take
// turns.
int64_t row_in_pairs(int64_t row, int64_t rows, int64_t heads);

// By how much each frequency of the rotary positions is divided, where they are stretched: rope_freqs.weight.
std::vector<float> rope_factors(const arch::Architecture& model);

}  // namespace fathom::gguf
