// The parameters that follow from an architecture.
#include "arch/architecture.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "arch/layer_program.h"
#include "base/bytes.h"
#include "base/error.h"

namespace fathom::arch {
std::string Architecture::layer_prefix(int64_t layer) const {
  const int64_t first = encoder_layers();
  return (layer < first ? names().encoder_layers : names().layers) +
         std::to_string(layer < first ? layer : layer - first) + ".";
}

int64_t Architecture::widest_gate() const {
  int64_t widest = 0;
  for (const LayerSpec& layer : layers) {
    if (layer.feed_forward.gated && !layer.feed_forward.experts) widest = std::max(widest, layer.feed_forward.width);
  }
  return widest;
}

const Experts* Architecture::experts() const {
  for (const LayerSpec& layer : layers) {
    if (layer.feed_forward.experts) return &*layer.feed_forward.experts;
  }
  return nullptr;
}

const Attention& Architecture::attention() const {
  return std::find_if(layers.begin(), layers.end(), [](const LayerSpec& layer) { return layer.attends(); })
      ->attention();
}

std::vector<int64_t> Architecture::head_dims() const {
  std::set<int64_t> sizes;
  for (const LayerSpec& layer : layers) {
    if (layer.attends()) sizes.insert(layer.attention().head_dim);
  }
  return {sizes.begin(), sizes.end()};
}

bool Architecture::has_sinks() const {
  return std::any_of(layers.begin(), layers.end(),
                     [](const LayerSpec& layer) { return layer.attends() && layer.attention().sinks; });
}

int64_t Architecture::sliding_window() const {
  int64_t window = 0;
  for (const LayerSpec& layer : layers) window = layer.attends() ? std::max(window, layer.attention().window) : window;
  return window;
}

std::vector<Rotary> Architecture::rotaries() const {
  std::vector<Rotary> found;
  for (const LayerSpec& layer : layers) {
    if (!layer.attends()) continue;
    const std::optional<Rotary>& rotary = layer.attention().rotary;
    if (rotary && std::find(found.begin(), found.end(), *rotary) == found.end()) found.push_back(*rotary);
  }
  return found;
}

Architecture with_added_tokens(Architecture architecture, int64_t tokens) {
  architecture.added_tokens = checked_add(architecture.added_tokens, tokens, "added tokens");
  architecture.vocab_size = checked_add(architecture.vocab_size, tokens, "vocab_size");
  return architecture;
}

int64_t ParameterSpec::elements() const {
  int64_t count = 1;
  for (int64_t size : shape) count = checked_multiply(count, size, name);
  return count;
}

namespace {

// Appends the parameters of a stack of layers, its norm behind them.
class Specs {
 public:
  explicit Specs(const Architecture& architecture) : architecture_(architecture) {}

  // narrows: as Step has it. The bias, where there is one, has a number for each row.
  void add(const std::string& module, std::vector<int64_t> shape, Role role, int64_t layer = ParameterSpec::kNoLayer,
           bool bias = false, int64_t narrows = 1) {
    const int64_t rows = shape.front();
    const double std = initial_std(role, shape.back(), narrows);
    specs_.push_back({module + ".weight", std::move(shape), role, layer, std});
    if (bias) specs_.push_back({module + ".bias", {rows}, Role::kBias, layer});
  }
  void add_layers(int64_t first, int64_t end, const char* norm) {
    for (int64_t number = first; number < end; ++number) {
      const LayerSpec& layer = architecture_.layers[static_cast<size_t>(number)];
      const LayerProgram program = layer_program(architecture_, layer);
      for (const Step& step : program.steps) {
        add_step(step, program, number);
        const bool ends_mixer = step.kind == StepKind::kAdd && step.branch == Branch::kMixer;
        if (ends_mixer && number == first && architecture_.relative) {
          add(architecture_.layer_prefix(number) + architecture_.names().relative_bias,
              {architecture_.relative->buckets, layer.attention().heads}, Role::kRelativeBias);
        }
      }
    }
    add(norm, {architecture_.hidden_size}, Role::kNorm, ParameterSpec::kNoLayer, architecture_.biased_norms);
  }
  std::vector<ParameterSpec> take() { return std::move(specs_); }

 private:
  // Where initializer_range is T5's initializer_factor, by the width that a matrix reads.
  double initial_std(Role role, int64_t width, int64_t narrows) const {
    const bool by_width = architecture_.encoder && role != Role::kEmbedding && role != Role::kHead;
    if (role == Role::kRelativeBias) width = architecture_.hidden_size;
    const int64_t divisor = checked_multiply(by_width ? width : 1, narrows, "initial weights");
    return architecture_.initializer_range / std::sqrt(static_cast<double>(divisor));
  }
  void add_step(const Step& step, const LayerProgram& program, int64_t number) {
    const LayerSpec& layer = architecture_.layers[static_cast<size_t>(number)];
    const auto width = [&](const std::vector<size_t>& values) { return program.values[values.front()].width; };
    const auto add_its = [&](std::vector<int64_t> shape, Role role) {
      add(architecture_.layer_prefix(number) + step.module, std::move(shape), role, number, step.bias, step.narrows);
    };
    if (step.kind == StepKind::kNorm || step.kind == StepKind::kRowNorm) {
      if (step.weighed) add_its({width(step.makes) / step.groups}, Role::kNorm);
    } else if (step.kind == StepKind::kLinear) {
      add_its({width(step.makes), width(step.reads)}, Role::kProjection);
    } else if (step.kind == StepKind::kAttend && layer.attention().sinks) {
      specs_.push_back({architecture_.layer_prefix(number) + layer.names().attention.sinks,
                        {layer.attention().heads},
                        Role::kSink,
                        number,
                        architecture_.initializer_range});
    } else if (step.kind == StepKind::kConvolve) {
      add_its({width(step.makes), std::get<ShortConvolution>(layer.mixer).taps}, Role::kConvolution);
    } else if (step.kind == StepKind::kDelta) {
      add_delta(std::get<GatedDelta>(layer.mixer), layer.names().delta, number);
    } else if (step.kind == StepKind::kGatedNorm) {
      add_its({width(step.makes) / step.groups}, Role::kGateNorm);
    } else if (step.kind == StepKind::kScaleStream) {
      specs_.push_back({architecture_.layer_prefix(number) + step.module, {1}, Role::kLayerScalar, number});
    } else if (step.kind == StepKind::kExperts) {
      add_experts(layer.feed_forward, layer.names().feed_forward, number);
    }
  }

  void add_delta(const GatedDelta& delta, const DeltaNames& names, int64_t number) {
    const std::string prefix = architecture_.layer_prefix(number);
    add(prefix + names.convolution, {2 * delta.keys() + delta.values(), delta.taps}, Role::kConvolution, number);
    specs_.push_back({prefix + names.decay_rate, {delta.value_heads}, Role::kDecayRate, number});
    specs_.push_back({prefix + names.decay_bias, {delta.value_heads}, Role::kDecayBias, number});
  }

  void add_experts(const FeedForward& feed_forward, const FeedForwardNames& names, int64_t number) {
    const std::string prefix = architecture_.layer_prefix(number);
    const int64_t count = feed_forward.experts->count, width = architecture_.hidden_size, inner = feed_forward.width;
    const bool biased = feed_forward.experts->biased;
    add(prefix + names.router, {count, width}, Role::kRouter, number);
    if (biased) {
      const double std = architecture_.initializer_range;
      specs_.push_back({prefix + names.router + ".bias", {count}, Role::kExpertBias, number, std});
    }
    if (feed_forward.experts->scores.corrected) {
      specs_.push_back({prefix + names.correction, {count}, Role::kCorrection, number});
    }
    const auto add_stack = [&](const char* its, int64_t rows, int64_t columns) {
      const std::string name = prefix + names.experts + its;
      rows = checked_multiply(count, rows, name);
      specs_.push_back(
          {name, {rows, columns}, Role::kExperts, number, initial_std(Role::kExperts, columns, 1), /*experts=*/count});
      if (biased) specs_.push_back({name + "_bias", {rows}, Role::kExpertBias, number, 0, /*experts=*/count});
    };
    add_stack(".gate_up_proj", checked_multiply(2, inner, prefix), width);
    add_stack(".down_proj", width, inner);
  }

  const Architecture& architecture_;
  std::vector<ParameterSpec> specs_;
};

}  // namespace

std::vector<ParameterSpec> parameter_specs(const Architecture& architecture) {
  const std::vector<int64_t> by_token = {architecture.vocab_size, architecture.hidden_size};
  const ModelNames names = architecture.names();
  Specs specs(architecture);
  specs.add(names.embedding, by_token, Role::kEmbedding);
  if (architecture.learned_positions) {
    specs.add(names.positions, {architecture.max_position_embeddings, architecture.hidden_size}, Role::kPositions);
  }
  if (architecture.encoder) specs.add_layers(0, architecture.encoder_layers(), names.encoder_norm);
  specs.add_layers(architecture.encoder_layers(), architecture.num_hidden_layers(), names.norm);
  if (!architecture.tie_word_embeddings) specs.add(names.head, by_token, Role::kHead);
  return specs.take();
}

int64_t unit_of(const ParameterSpec& spec, const Architecture& architecture) {
  if (spec.layer != ParameterSpec::kNoLayer) return spec.layer + 1;
  const bool last = spec.role == Role::kHead || spec.module() == architecture.names().norm;
  return last ? architecture.num_hidden_layers() + 1 : 0;
}

std::vector<KeptTensor> kept_while_generating(const Architecture& architecture, const LayerSpec& layer, int64_t batch,
                                              int64_t capacity) {
  if (const auto* convolution = std::get_if<ShortConvolution>(&layer.mixer)) {
    return {{{batch, convolution->taps - 1, architecture.hidden_size}}};
  }
  if (const auto* delta = std::get_if<GatedDelta>(&layer.mixer)) {
    return {{{batch, delta->taps - 1, 2 * delta->keys() + delta->values()}},
            {{batch, delta->value_heads, delta->key_dim, delta->value_dim}, /*in_fp32=*/true}};
  }
  const Attention& attention = layer.attention();
  return std::vector(2, KeptTensor{{batch, attention.key_value_heads, capacity, attention.head_dim}});
}

namespace {

// of_experts: how many of a layer's experts count.
int64_t count_parameters(const Architecture& architecture, int64_t Experts::*of_experts) {
  int64_t count = 0;
  for (const ParameterSpec& spec : parameter_specs(architecture)) {
    int64_t elements = spec.elements();
    if (spec.experts > 1) {
      const Experts& experts = *architecture.layers[static_cast<size_t>(spec.layer)].feed_forward.experts;
      elements = elements / experts.count * (experts.*of_experts);
    }
    count = checked_add(count, elements, "number of parameters");
  }
  return count;
}

}  // namespace

int64_t parameter_count(const Architecture& architecture) { return count_parameters(architecture, &Experts::count); }

int64_t active_parameter_count(const Architecture& architecture) {
  return count_parameters(architecture, &Experts::per_token);
}

}  // namespace fathom::arch
