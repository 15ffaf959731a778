// A layer as the list of its steps, each with what it reads and what it makes. The model runs the list, the estimate
// goes through it forward and backward, and the names and shapes of a layer's parameters are those of its steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "arch/architecture.h"

namespace fathom::arch {

enum class StepKind {
  kNorm,           // of the stream, for the branch that reads it
  kRead,           // the stream as it is, for the branch that reads it
  kLinear,         // a projection
  kSplit,          // a fused projection's columns: of each of `groups` parts of a row the `parts` of what it makes
  kJoinHeads,      // makes heads of two parts, the second of which is one head's, for all; or of one, and zeros
  kRowNorm,        // of each of `groups` parts of a row by itself
  kRotateQueries,  // by their positions
  kRotateKeys,
  kAttend,        // reads queries, keys and values
  kAttendSource,  // likewise, the keys and values of what an encoder made
  kConvolve,      // reads the three parts of a ShortConvolution, one beside the other
  kDelta,         // reads queries, keys and values of a GatedDelta, one beside the other, strengths and decays
  kGatedNorm,     // reads rows, each of `groups` parts of which is normalised by itself, and the gate of all
  kActivate,      // reads the gate and what it weighs, or this alone
  kExperts,       // a router, and what those make that it chooses
  kAddShared,    // reads what experts made, what is shared makes, and a number of each token that gates it, where there
                 // is one
  kDrop,         // Architecture::dropout
  kDropInside,   // Architecture::inner_dropout
  kScale,        // LayerSpec::added_scale
  kAdd,          // reads what a branch made, and the stream that it is added to
  kScaleStream,  // by LayerSpec::scalar
};

// What reads the stream and adds to it.
enum class Branch { kMixer, kSource, kFeedForward };

// The first value that a step reads is what its weights multiply; only kJoinHeads, kAttend, kAttendSource, kDelta,
// kGatedNorm, kActivate, kAddShared and kAdd read more.
struct Step {
  StepKind kind = StepKind::kLinear;
  Branch branch = Branch::kMixer;
  std::vector<size_t> reads = {}, makes = {};  // values, by their number
  // Within the layer ("self_attn.q_proj"): whose parameters it has, or which part of the model it is; of experts, their
  // router. Null: it counts to the step before.
  const char* module = nullptr;
  // What runs backward from where the gradient of what it makes is there; null: what ran so before.
  const char* backward_module = nullptr;
  // Of a kLinear: the projections of its branch that read what it reads, itself among them, in their order.
  std::vector<size_t> sharing = {};
  bool bias = false;    // beside its weight
  bool weighed = true;  // a kRowNorm has a weight
  int64_t groups = 1;   // of a kRowNorm, kGatedNorm, kSplit or kJoinHeads; the heads of a kRotateQueries or kRotateKeys
  std::optional<double> eps = std::nullopt;  // of a kRowNorm; unset: Architecture::norm_eps
  // Of a kSplit: of each value that it makes, the widths of the parts of a group that lie one behind the other in it.
  std::vector<std::vector<int64_t>> parts = {};
  Activation activation = Activation::kSilu;  // of a kActivate
  int64_t narrows = 1;                        // of a kLinear: what the variance of its first weights is divided by
};

struct Value {
  static constexpr size_t kNone = static_cast<size_t>(-1);  // what is given is made by none, what is made read by none

  int64_t width = 0;            // numbers of a token
  bool of_source = false;       // a token of what the encoder made, not of the stream
  size_t made_by = kNone;       // a step, by its number
  size_t last_read_by = kNone;  // likewise
};

struct LayerProgram {
  static constexpr size_t kStream = 0, kSource = 1;  // the values that are given

  std::vector<Step> steps;
  std::vector<Value> values;  // the last one is what the layer makes

  bool is_given(size_t value) const { return value == kStream || value == kSource; }
};

// Of a layer with this spec: sizes that layers share are the architecture's.
LayerProgram layer_program(const Architecture& architecture, const LayerSpec& spec);

}  // namespace fathom::arch
