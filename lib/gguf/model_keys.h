// An architecture in llama.cpp's words: which of its own it is, the keys that describe it, the names of its tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "arch/architecture.h"
#include "weights/gguf_writer.h"

namespace fathom::gguf {

// How llama.cpp's graph of an architecture has layers with a sliding window beside others.
enum class WindowedLayers {
  kIgnored,     // it reads no window: such layers see everything
  kOwnTheta,    // they turn heads by a theta of their own, never stretched
  kSameTheta,   // by the theta of the others, never stretched
  kSameRotary,  // as the others, if these turn any
};

// How it scales what the head makes.
enum class HeadScale { kNever, kDivides, kMultiplies };

// What llama.cpp's graph of an architecture can do that families differ in.
struct LlamaCppArchitecture {
  std::string_view family;          // "MistralForCausalLM"
  std::string_view name;            // "llama"
  bool rotates_neighbours = false;  // rotary positions turn values 2i and 2i + 1 of a head; else i and i + E/2
  // Which stretches of rotary positions it computes.
  bool linear = true, yarn = true;
  bool llama3 = false;                       // it reads rope_freqs.weight
  bool longrope = false;                     // it reads rope_factors_long.weight and rope_factors_short.weight
  bool yarn_turns = false;                   // YaRN's borders are keys; else 32 and 1
  bool output_bias = false;                  // of attention's output and of the feed-forward part
  bool free_head_size = false;               // queries may be wider or narrower than the stream
  bool grouped_keys = true;                  // several heads may share keys and values
  bool needs_head = false;                   // a tied head stands in the file as a tensor of its own
  bool needs_tied_head = false;              // the head is the embedding
  bool multipliers = false;                  // Granite's, of the embedding, of scores and of what is added
  HeadScale head_scale = HeadScale::kNever;  // else the head's own numbers are scaled
  WindowedLayers windows = WindowedLayers::kIgnored;
  int64_t full_attention_every = 0;  // where it reads a window, the last of so many layers sees everything
  std::optional<bool> normalised_experts = std::nullopt;  // whether their weights add up to one; unset: it has none
};

// Throws Error, beginning with `where`, for a family that llama.cpp has no architecture for, naming those that it has,
// and for what its architecture does otherwise. Warns of sliding windows where llama.cpp does not read them.
const LlamaCppArchitecture& llama_cpp_architecture(const arch::Architecture& model, const std::string& where);

// "llama.block_count" and so on. vocabulary: rows of the embedding in the file.
weights::GgufKeys model_keys(const arch::Architecture& model, const LlamaCppArchitecture& target, int64_t vocabulary);

// How heads are turned in the layers that see everything; else in those that turn them at all.
arch::Rotary rotary_of(const arch::Architecture& model);
// Of layers with a sliding window; unset where none turns heads.
std::optional<arch::Rotary> windowed_rotary_of(const arch::Architecture& model);

// "blk.3.attn_q.weight" of a parameter, but for experts.
std::string tensor_name(const arch::ParameterSpec& spec, const arch::Architecture& model);

// A tensor of the file: all of a parameter, or of each expert's rows so many from the first on.
struct FileTensor {
  std::string name;            // "blk.3.ffn_up_exps.weight"
  std::vector<int64_t> shape;  // (rows, columns), of experts (experts, rows, columns)
  int64_t first = 0, rows = 0;
};
// What a parameter becomes: one tensor, or two where experts' gate and up projections lie one below the other.
std::vector<FileTensor> file_tensors(const arch::ParameterSpec& spec, const arch::Architecture& model);

// How many heads the rows of a query's or key's matrix or bias are, where llama.cpp rotates neighbours and the model
// does not, so that they change places (row_in_pairs); 0 for every other parameter.
int64_t heads_in_pairs(const arch::ParameterSpec& spec, const arch::Architecture& model,
                       const LlamaCppArchitecture& target);
// Which row of a matrix of so many, in so many heads, comes to stand in row `row`: within each head the halves take
// turns.
int64_t row_in_pairs(int64_t row, int64_t rows, int64_t heads);

// Numbers by which frequencies of rotary positions are divided, as a tensor of the file.
struct RopeFactors {
  std::string name;  // "rope_freqs.weight"
  std::vector<float> factors;
};
// Where positions are stretched as Llama 3's: one; by LongRoPE: those beyond the original positions, and those within.
std::vector<RopeFactors> rope_factors(const arch::Architecture& model);

}  // namespace fathom::gguf
