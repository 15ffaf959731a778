// The steps of each branch, as transformers orders them for each family.
#include "arch/layer_program.h"

#include <map>
#include <optional>
#include <utility>

namespace fathom::arch {
namespace {

class Builder {
 public:
  Builder(const Architecture& architecture, const LayerSpec& spec)
      : architecture_(architecture), spec_(spec), names_(spec.names()), width_(architecture.hidden_size) {
    program_.values = {{width_}, {width_, /*of_source=*/true}};
  }

  LayerProgram take() {
    if (spec_.attends()) attend();
    if (spec_.mixes_by<ShortConvolution>()) convolve();
    if (const auto* delta = std::get_if<GatedDelta>(&spec_.mixer)) correct_state(*delta);
    if (spec_.cross) attend_to_source();
    feed_forward();
    if (spec_.scalar) stream_ = made_of(stream_, {.kind = StepKind::kScaleStream, .module = names_.scalar});
    std::map<std::pair<size_t, Branch>, std::vector<size_t>> projections;  // by what they read
    const auto its = [&](const Step& step) -> auto& { return projections[{step.reads.front(), step.branch}]; };
    for (size_t number = 0; number < program_.steps.size(); ++number) {
      const Step& step = program_.steps[number];
      for (const size_t value : step.makes) program_.values[value].made_by = number;
      for (const size_t value : step.reads) program_.values[value].last_read_by = number;
      if (step.kind == StepKind::kLinear) its(step).push_back(number);
    }
    for (Step& step : program_.steps) {
      if (step.kind == StepKind::kLinear) step.sharing = its(step);
    }
    return std::move(program_);
  }

 private:
  void attend() {
    const Attention& its = spec_.attention();
    const AttentionNames& names = names_.attention;
    branch_ = Branch::kMixer;
    const size_t x = read(names);
    size_t queries = 0, keys = 0, values = 0;
    std::optional<size_t> gate;
    if (its.latent) {
      return finish_attention(StepKind::kAttend, names, latent_heads(x, its, *its.latent, names));
    }
    if (its.fused) {
      const size_t all = linear(x, names.fused, its.queries() + 2 * its.keys(), its.input_bias);
      queries = value(its.queries()), keys = value(its.keys()), values = value(its.keys());
      split(all, {queries, keys, values});
      queries = normed_and_rotated(queries, names.query_norm, its.heads, StepKind::kRotateQueries);
      keys = normed_and_rotated(keys, names.key_norm, its.key_value_heads, StepKind::kRotateKeys);
    } else {
      queries = linear(x, names.query, (its.output_gate ? 2 : 1) * its.queries(), its.input_bias,
                       its.scaled ? 1 : its.head_dim);
      if (its.output_gate) {
        const size_t both = std::exchange(queries, value(its.queries()));
        gate = value(its.queries());
        split(both, {queries, *gate}, its.heads);
      }
      queries = normed_and_rotated(queries, names.query_norm, its.heads, StepKind::kRotateQueries);
      const size_t made = linear(x, names.key, its.keys(), its.input_bias);
      keys = normed_and_rotated(made, names.key_norm, its.key_value_heads, StepKind::kRotateKeys);
      values = its.keys_are_values ? made : linear(x, names.value, its.keys(), its.input_bias);
    }
    if (its.value_norm) {
      values = made_of(
          values,
          {.kind = StepKind::kRowNorm, .module = names.value_norm, .weighed = false, .groups = its.key_value_heads});
    }
    finish_attention(StepKind::kAttend, names, {queries, keys, values}, gate);
  }

  // Queries, keys and values.
  std::vector<size_t> latent_heads(size_t x, const Attention& its, const LatentHeads& latent,
                                   const AttentionNames& names) {
    const auto normed = [&](size_t row, const char* name) {
      return made_of(row, {.kind = StepKind::kRowNorm, .module = name, .eps = latent.norm_eps});
    };
    const char* made_by = names.query;
    size_t asked = x;
    if (latent.query_rank > 0) {
      asked = normed(linear(x, names.query_down, latent.query_rank, its.input_bias), names.query_down_norm);
      made_by = names.query_up;
    }
    const size_t queries = linear(asked, made_by, its.queries(), /*bias=*/false);
    const size_t both = linear(x, names.latent, latent.rank + latent.turned, its.input_bias);
    const size_t row = value(latent.rank), turned = value(latent.turned);
    split(both, {row, turned});
    const int64_t still = its.head_dim - latent.turned;
    const size_t heads =
        linear(normed(row, names.latent_norm), names.latent_up, its.heads * (still + latent.value_dim), /*bias=*/false);
    const size_t front = value(its.heads * still), values = value(its.answers());
    split(heads, {front, values}, its.heads);
    return {rotated(queries, StepKind::kRotateQueries, its.heads),
            rotated(joined({front, turned}), StepKind::kRotateKeys, its.heads),
            its.answers() < its.keys() ? joined({values}) : values};
  }

  void attend_to_source() {
    const Attention& its = spec_.attention();
    const AttentionNames& names = names_.cross;
    branch_ = Branch::kSource;
    const size_t queries =
        linear(read(names), names.query, its.queries(), its.input_bias, its.scaled ? 1 : its.head_dim);
    const size_t keys = linear(LayerProgram::kSource, names.key, its.keys(), its.input_bias);
    const size_t values = linear(LayerProgram::kSource, names.value, its.keys(), its.input_bias);
    finish_attention(StepKind::kAttendSource, names, {queries, keys, values});
  }

  void convolve() {
    const ConvolutionNames& names = names_.convolution;
    branch_ = Branch::kMixer;
    const size_t parts = linear(read(names), names.input, 3 * width_, /*bias=*/false), made = value(width_);
    push({.kind = StepKind::kConvolve,
          .reads = {parts},
          .makes = {made},
          .module = names.convolution,
          .backward_module = names.convolution});
    add_to_stream(linear(made, names.output, width_, /*bias=*/false), nullptr, names.output);
  }

  void correct_state(const GatedDelta& its) {
    const DeltaNames& names = names_.delta;
    branch_ = Branch::kMixer;
    const size_t x = read(names);
    const int64_t mixed_width = 2 * its.keys() + its.values();
    size_t mixed = 0, gate = 0, strengths = 0, decays = 0;
    if (names.fused != nullptr) {
      const size_t all = linear(x, names.fused, mixed_width + its.values(), /*bias=*/false);
      const size_t both = linear(x, names.fused_scalars, 2 * its.value_heads, /*bias=*/false);
      const int64_t of_group = its.value_heads / its.key_heads, values = of_group * its.value_dim;
      mixed = value(mixed_width), gate = value(its.values());
      split(all, {mixed, gate}, its.key_heads, {{its.key_dim, its.key_dim, values}, {values}});
      strengths = value(its.value_heads), decays = value(its.value_heads);
      split(both, {strengths, decays}, its.key_heads);
    } else {
      mixed = linear(x, names.mixed, mixed_width, /*bias=*/false);
      gate = linear(x, names.gate, its.values(), /*bias=*/false);
      strengths = linear(x, names.strength, its.value_heads, /*bias=*/false);
      decays = linear(x, names.decay, its.value_heads, /*bias=*/false);
    }
    const size_t answers = value(its.values()), gated = value(its.values());
    push({.kind = StepKind::kDelta,
          .reads = {mixed, strengths, decays},
          .makes = {answers},
          .module = names.module,
          .backward_module = names.module});
    push({.kind = StepKind::kGatedNorm,
          .reads = {answers, gate},
          .makes = {gated},
          .module = names.norm,
          .backward_module = names.norm,
          .groups = its.value_heads});
    add_to_stream(linear(gated, names.output, width_, /*bias=*/false), nullptr, names.output);
  }

  void finish_attention(StepKind kind, const AttentionNames& names, std::vector<size_t> heads,
                        std::optional<size_t> gate = std::nullopt) {
    size_t attended = value(spec_.attention().queries());
    push({.kind = kind,
          .reads = std::move(heads),
          .makes = {attended},
          .module = names.module,
          .backward_module = names.module});
    if (spec_.attention().answers() < spec_.attention().queries()) {
      const size_t all = std::exchange(attended, value(spec_.attention().answers()));
      split(all, {attended}, spec_.attention().heads);
    }
    if (gate) {
      const size_t gated = value(spec_.attention().queries());
      push({.kind = StepKind::kActivate,
            .reads = {*gate, attended},
            .makes = {gated},
            .backward_module = names.module,
            .activation = Activation::kSigmoid});
      attended = gated;
    }
    const size_t made = linear(attended, names.output, width_, spec_.attention().output_bias, branch_narrows());
    add_to_stream(made, names.norm_after, names.output);
  }

  void feed_forward() {
    const FeedForward& its = spec_.feed_forward;
    const FeedForwardNames& names = names_.feed_forward;
    branch_ = Branch::kFeedForward;
    const size_t x = spec_.parallel ? program_.steps.front().makes.front() : read(names);
    if (its.experts) {
      size_t made = value(width_);
      const bool shares = its.experts->shared_width > 0;
      push({.kind = StepKind::kExperts,
            .reads = {x},
            .makes = {made},
            .module = names.router,
            .backward_module = shares ? names.experts : nullptr});
      if (shares) made = with_shared(x, made, names);
      return add_to_stream(made, names.norm_after, names.experts);
    }
    std::vector<size_t> inner;
    if (its.fused) {
      const size_t both = linear(x, names.fused, 2 * its.width, its.bias);
      inner = {value(its.width), value(its.width)};
      split(both, inner);
    } else {
      if (its.gated) inner.push_back(linear(x, names.gate, its.width, its.bias));
      inner.push_back(linear(x, names.up, its.width, its.bias));
    }
    const bool drops = architecture_.inner_dropout > 0;
    size_t activated = value(its.width);
    push({.kind = StepKind::kActivate,
          .reads = std::move(inner),
          .makes = {activated},
          .module = names.activation,
          .backward_module = drops ? nullptr : names.module,
          .activation = its.activation});
    if (drops) activated = made_of(activated, {.kind = StepKind::kDropInside, .backward_module = names.module});
    const size_t made = linear(activated, names.down, width_, its.bias, branch_narrows());
    add_to_stream(made, names.norm_after, names.down);
  }

  // What experts made, and what every token has of the part beside them.
  size_t with_shared(size_t x, size_t made, const FeedForwardNames& names) {
    const int64_t width = spec_.feed_forward.experts->shared_width;
    const size_t gate = linear(x, names.shared_gate, width, /*bias=*/false);
    const size_t up = linear(x, names.shared_up, width, /*bias=*/false);
    std::optional<size_t> weight;
    if (spec_.feed_forward.experts->shared_gated) weight = linear(x, names.shared_weight, 1, /*bias=*/false);
    const size_t activated = value(width), sum = value(width_);
    push({.kind = StepKind::kActivate,
          .reads = {gate, up},
          .makes = {activated},
          .module = names.shared_activation,
          .backward_module = names.shared,
          .activation = spec_.feed_forward.activation});
    const size_t shared = linear(activated, names.shared_down, width_, /*bias=*/false);
    std::vector<size_t> parts = {made, shared};
    if (weight) parts.push_back(*weight);
    push({.kind = StepKind::kAddShared, .reads = std::move(parts), .makes = {sum}, .backward_module = names.shared});
    return sum;
  }

  // The stream, as the branch reads it.
  template <typename Names>
  size_t read(const Names& names) {
    if (!spec_.norms_before()) return made_of(stream_, {.kind = StepKind::kRead, .module = names.module});
    return made_of(stream_, {.kind = StepKind::kNorm, .module = names.norm_before, .bias = architecture_.biased_norms});
  }

  void add_to_stream(size_t made, const char* norm_after, const char* backward_module) {
    if (architecture_.dropout > 0) made = made_of(made, {.kind = StepKind::kDrop});
    if (spec_.norms_after()) {
      made = made_of(made, {.kind = StepKind::kRowNorm, .module = norm_after, .bias = architecture_.biased_norms});
    }
    if (spec_.added_scale != 1) made = made_of(made, {.kind = StepKind::kScale});
    const size_t sum = value(width_);
    push({.kind = StepKind::kAdd, .reads = {made, stream_}, .makes = {sum}, .backward_module = backward_module});
    stream_ = sum;
  }

  size_t normed_and_rotated(size_t heads, const char* norm, int64_t number, StepKind rotation) {
    if (spec_.attention().norms_turned) return head_norm(rotated(heads, rotation, number), norm, number);
    return rotated(head_norm(heads, norm, number), rotation, number);
  }
  size_t head_norm(size_t heads, const char* name, int64_t number) {
    if (spec_.attention().query_key_norm == QueryKeyNorm::kNone) return heads;
    const bool each = spec_.attention().query_key_norm == QueryKeyNorm::kEachHead;
    return made_of(heads, {.kind = StepKind::kRowNorm, .module = name, .groups = each ? number : 1});
  }
  size_t rotated(size_t heads, StepKind kind, int64_t number) {
    return spec_.attention().rotary ? made_of(heads, {.kind = kind, .groups = number}) : heads;
  }
  // As wide as keys are.
  size_t joined(std::vector<size_t> parts) {
    const size_t made = value(spec_.attention().keys());
    push({.kind = StepKind::kJoinHeads, .reads = std::move(parts), .makes = {made}, .groups = spec_.attention().heads});
    return made;
  }
  size_t linear(size_t read, const char* name, int64_t width, bool bias, int64_t narrows = 1) {
    const size_t made = value(width, program_.values[read].of_source);
    push({.kind = StepKind::kLinear,
          .reads = {read},
          .makes = {made},
          .module = name,
          .bias = bias,
          .narrows = narrows});
    return made;
  }
  // GPT-2's: the stream is a sum of two branches a layer.
  int64_t branch_narrows() const { return spec_.naming == Naming::kGpt2 ? 2 * architecture_.num_hidden_layers() : 1; }

  // parts: as Step has them; empty: each value is one.
  void split(size_t all, std::vector<size_t> made, int64_t groups = 1, std::vector<std::vector<int64_t>> parts = {}) {
    if (parts.empty()) {
      for (const size_t each : made) parts.push_back({program_.values[each].width / groups});
    }
    push({.kind = StepKind::kSplit,
          .reads = {all},
          .makes = std::move(made),
          .groups = groups,
          .parts = std::move(parts)});
  }

  // A value as wide as the one that the step reads.
  size_t made_of(size_t read, Step step) {
    step.reads = {read};
    step.makes = {value(program_.values[read].width, program_.values[read].of_source)};
    push(std::move(step));
    return program_.steps.back().makes.front();
  }
  size_t value(int64_t width, bool of_source = false) {
    program_.values.push_back({width, of_source});
    return program_.values.size() - 1;
  }
  void push(Step step) {
    step.branch = branch_;
    program_.steps.push_back(std::move(step));
  }

  const Architecture& architecture_;
  const LayerSpec& spec_;
  const LayerNames names_;
  const int64_t width_;
  LayerProgram program_;
  Branch branch_ = Branch::kMixer;
  size_t stream_ = LayerProgram::kStream;
};

}  // namespace

LayerProgram layer_program(const Architecture& architecture, const LayerSpec& spec) {
  return Builder(architecture, spec).take();
}

}  // namespace fathom::arch
