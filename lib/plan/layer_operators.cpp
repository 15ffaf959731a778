// Operator by operator, with what of the stream and of its branches needs gradients.
#include "plan/layer_operators.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "arch/attention_by_scores.h"
#include "arch/precision.h"
#include "arch/storage_schemes.h"
#include "footprint/attention.h"
#include "footprint/biased_attention.h"
#include "footprint/elementwise.h"
#include "footprint/experts.h"
#include "footprint/linear.h"
#include "plan/expert_operators.h"
#include "plan/parameter_gradients.h"

namespace fathom::plan {
namespace {

using arch::ParameterRow;
using arch::Role;
using footprint::StepSizes;
using footprint::Tensors;

constexpr const char* kStream = "the sum that runs through the layers; lib/model/decoder_layer.cpp";

footprint::AttentionKernel kernel_of(const Target& target) {
  for (const auto kernel : {footprint::AttentionKernel::kMath, footprint::AttentionKernel::kMemoryEfficient}) {
    if (target.attention_kernel == footprint::kernel_name(kernel)) return kernel;
  }
  return footprint::AttentionKernel::kFlash;
}

class LayerOperators {
 public:
  explicit LayerOperators(const LayerSubject& subject)
      : subject_(subject),
        spec_(subject.spec),
        step_(subject.step),
        width_(subject.architecture.hidden_size),
        before_(spec_.norms_before()),
        biased_(arch::attends_by_scores(subject.architecture, subject.gradients)),
        drops_(subject.gradients && subject.architecture.dropout > 0),
        drops_inside_(subject.gradients && subject.architecture.inner_dropout > 0),
        fake_codes_(arch::fake_scheme(subject.architecture, subject.run)),
        stream_needs_(subject.input_needs_gradient) {}

  Operators take() {
    const arch::LayerNames names = spec_.names();
    attend(names.attention);
    if (spec_.parallel && shared_needs_) await_feed_forward();
    end_branch(subject_.input_needs_gradient);
    const bool attended = stream_needs_;
    if (spec_.cross) {
      attend_to_source(names.cross);
      end_branch(attended);
    }
    feed_forward(names.feed_forward);
    return std::move(operators_);
  }

 private:
  // ---- parts.

  void attend(const arch::AttentionNames& names) {
    constexpr const char* kHeads = "queries, keys and values";
    const arch::Attention& attention = spec_.attention;
    const int64_t queries = attention.queries(), keys = attention.keys();
    if (attention.fused) {
      begin_branch(kHeads, names.norm_before, {names.fused});
      linear(step_, kHeads, names.fused, before_);
      split(kHeads, queries + 2 * keys);
      turn(kHeads, names.query_norm, queries, attention.heads, waiting("gradients of keys and values", 2 * keys));
      turn(kHeads, names.key_norm, keys, attention.key_value_heads,
           waiting("gradients of queries and values", queries + keys));
    } else {
      begin_branch(kHeads, names.norm_before, {names.query, names.key, names.value});
      linear(step_, kHeads, names.query, before_).waiting = of_input();
      turn(kHeads, names.query_norm, queries, attention.heads, of_input());
      Tensors wait = of_input();
      wait.push_back(waiting("gradient of queries", queries).front());
      linear(step_, kHeads, names.key, before_).waiting = wait;
      turn(kHeads, names.key_norm, keys, attention.key_value_heads, wait);
      linear(step_, kHeads, names.value, before_).waiting = waiting("gradients of queries and keys", queries + keys);
    }
    if (biased_) {
      attention_by_scores(queries_of_a_row(), /*by_distance=*/true);
    } else {
      fused_attention(names);
    }
    finish_attention("attention's output projection", names, {width_, queries, 2 * keys});
  }

  // The backward pass of a parallel feed-forward part comes first, and what it leaves for the norm that both read
  // waits.
  void await_feed_forward() {
    for (Operator& each : std::span(operators_).subspan(1)) {
      each.waiting.push_back({"gradient of the feed-forward part's input", footprint::kGradientSource,
                              step_.wide(width_, step_.compute_bytes)});
    }
  }

  void attend_to_source(const arch::AttentionNames& names) {
    constexpr const char* kHeads = "queries, and a source's keys and values";
    const int64_t queries = spec_.attention.queries(), keys = spec_.attention.keys();
    begin_branch(kHeads, names.norm_before, {names.query});
    linear(step_, kHeads, names.query, before_);
    const bool stream_reads = std::exchange(branch_needs_, subject_.source_needs_gradient);
    linear(subject_.source, kHeads, names.key, false).waiting = waiting("gradient of queries", queries);
    Tensors wait = waiting("gradient of queries", queries);
    wait.push_back({"gradient of keys", footprint::kGradientSource, subject_.source.wide(keys, step_.compute_bytes)});
    for (Operator& each : operators_) each.follows_source = true;
    linear(subject_.source, kHeads, names.value, false).waiting = wait;
    branch_needs_ = stream_reads || subject_.source_needs_gradient;
    attention_by_scores(subject_.batch.source_length, /*by_distance=*/false);
    finish_attention("cross-attention's output projection", names, {width_, queries});
  }

  void feed_forward(const arch::FeedForwardNames& names) {
    if (spec_.feed_forward.experts) return experts(names);
    constexpr const char *kGate = "gate and up", *kUp = "the up projection", *kDown = "the down projection";
    const int64_t inner = spec_.feed_forward.width;
    const bool gated = spec_.feed_forward.gated;
    if (spec_.feed_forward.fused) {
      begin_branch(kGate, names.norm_before, {names.fused});
      linear(step_, kGate, names.fused, before_);
      split(kGate, 2 * inner);
    } else if (gated) {
      begin_branch(kGate, names.norm_before, {names.gate, names.up});
      linear(step_, kGate, names.gate, before_).waiting = of_input();
      linear(step_, kGate, names.up, before_).waiting = waiting("gradient of the gate", inner);
    } else {
      begin_branch(kUp, names.norm_before, {names.up});
      linear(step_, kUp, names.up, before_);
    }
    operators_.push_back({"the gate",
                          gated ? footprint::gate_footprint(step_, inner, spec_.feed_forward.activation)
                                : footprint::activation_footprint(step_, inner),
                          {},
                          {}});
    if (!made_needs_) keep_output_alone("output of the gate", inner, {names.down});
    alive({width_}, 1);
    if (drops_inside_) {
      drop("dropout", inner);
      if (keeps_input(names.down)) {
        operators_.back().footprint.kept.push_back(
            {"what is left by dropout", kStream, step_.wide(inner, step_.compute_bytes)});
      }
    }
    branch_needs_ = std::exchange(made_needs_, false);
    linear(step_, kDown, names.down, !drops_inside_);
    alive({width_}, 1);
    add_to_stream(kDown, names.norm_after);
  }

  // The rows of both stacks are read by their module's name; what reads the norm is the first.
  void experts(const arch::FeedForwardNames& names) {
    constexpr const char *kRouting = "the router", *kExperts = "the experts";
    begin_branch(kRouting, names.norm_before, {names.router, names.experts});
    linear(step_, kRouting, names.router, before_).waiting = of_input();
    alive({width_}, 1);
    footprint::ExpertSizes sizes = expert_sizes(spec_.feed_forward, width_, subject_.rows);
    sizes.makes_input_again = before_;
    sizes.input_needs_gradient = branch_needs_;
    const bool differentiated = made_needs_ || sizes.gate_up.keeps_input() || sizes.down.keeps_input();
    const auto push = [&](const char* part, footprint::Footprint footprint, Tensors gradients, bool keeps) {
      if (!keeps) footprint.kept.clear();
      operators_.push_back({part, std::move(footprint), std::move(gradients), {}});
      alive({width_}, 1);
    };
    const auto stack = [&](const char* which) { return gradients_of_stack(subject_.rows, names.experts, which); };
    push(kRouting, footprint::routing_footprint(step_, sizes), {}, differentiated);
    operators_.back().waiting = of_input();
    push(kExperts, footprint::expert_gate_up_footprint(step_, sizes), stack(".gate_up_proj"), differentiated);
    operators_.back().made_with = stack(".down_proj");
    push(kExperts, footprint::expert_down_footprint(step_, sizes), stack(".down_proj"), differentiated);
    made_needs_ = differentiated;
    add_to_stream(kExperts, names.norm_after);
  }

  // needs: whether what the branch read needs a gradient, else that of the stream goes no further than its output.
  void end_branch(bool needs) {
    for (; ended_ < operators_.size(); ++ended_) {
      operators_[ended_].another_follows = true;
      if (!needs) operators_[ended_].takes_stream_gradient = true;
    }
  }

  // ---- operators.

  Operator& linear(const StepSizes& step, const char* part, const char* module, bool again) {
    footprint::LinearSizes sizes = sizes_of(module);
    sizes.makes_input_again = again;
    sizes.input_needs_gradient = branch_needs_;
    made_needs_ = made_needs_ || branch_needs_ || sizes.keeps_input();
    return operators_.emplace_back(
        Operator{part, footprint::linear_footprint(step, sizes), gradients_of(subject_.rows, module), {}});
  }

  // Norms and positions of heads.
  void turn(const char* part, const char* norm, int64_t numbers, int64_t count, const Tensors& wait) {
    const arch::Attention& attention = spec_.attention;
    if (attention.query_key_norm != arch::QueryKeyNorm::kNone) {
      row_norm(part, norm, numbers, attention.query_key_norm == arch::QueryKeyNorm::kEachHead ? count : 1, wait);
    }
    if (attention.rotary) operators_.push_back({part, footprint::rotary_footprint(step_, numbers), {}, wait});
  }

  void drop(const char* part, int64_t numbers) {
    Operator& each = operators_.emplace_back(Operator{part, footprint::dropout_footprint(step_, numbers), {}, {}});
    each.lasting = std::exchange(each.footprint.kept, {});
  }

  void split(const char* part, int64_t numbers) {
    operators_.push_back({part, footprint::split_footprint(step_, numbers), {}, {}});
  }

  void row_norm(const char* part, const char* module, int64_t numbers, int64_t groups, Tensors wait) {
    operators_.push_back({part, footprint::row_norm_footprint(step_, numbers, groups),
                          gradients_of(subject_.rows, module), std::move(wait)});
  }

  // The stream as linear layers read it: through a norm, or as it is, which a layer that is trained keeps.
  // A parallel feed-forward part reads what attention read.
  void begin_branch(const char* part, const char* norm, std::initializer_list<const char*> readers) {
    made_needs_ = false;
    if (norm == nullptr && before_) {
      branch_needs_ = shared_needs_;
      return;
    }
    branch_needs_ = stream_needs_;
    casts_input_ =
        step_.adapter_bytes != step_.compute_bytes && !fake_codes_ &&
        std::any_of(readers.begin(), readers.end(), [this](const char* each) { return sizes_of(each).adapted; });
    if (before_) {
      operators_.push_back({part,
                            footprint::norm_footprint(step_, width_, subject_.architecture.centred_norms),
                            gradients_of(subject_.rows, norm),
                            {}});
      branch_needs_ = shared_needs_ = branch_needs_ || !operators_.back().gradients.empty();
      operators_.back().keeps_stream = branch_needs_;
      if (!branch_needs_) keep_output_alone("output of a norm", width_, readers);
      // The gradients of the readers' inputs add up.
      const auto sums = branch_needs_ ? static_cast<int64_t>(readers.size()) - 1 : 0;
      operators_.back().footprint.backward_work.bytes += 3 * sums * value_of(step_.wide(width_, step_.compute_bytes));
    } else if (any_keeps_input(readers)) {
      operators_.push_back(
          {part,
           {{{"residual stream, read by projections", kStream, step_.wide(width_, step_.compute_bytes)}}, {}, {}},
           {},
           {}});
      operators_.back().keeps_stream = !step_.casts();
    }
  }

  // Of an operator that no gradient asks for, which its readers keep if they need it.
  void keep_output_alone(const char* what, int64_t width, std::initializer_list<const char*> readers) {
    operators_.back().footprint.kept =
        any_keeps_input(readers) ? Tensors{{what, kStream, step_.wide(width, step_.compute_bytes)}} : Tensors();
  }

  void fused_attention(const arch::AttentionNames& names) {
    footprint::AttentionSizes sizes = {kernel_of(subject_.target), subject_.batch.rows,
                                       subject_.batch.document_lengths};
    sizes.packed = !sizes.lengths.empty();
    if (!sizes.packed) sizes.lengths.assign(static_cast<size_t>(subject_.batch.rows), subject_.batch.length);
    sizes.heads = spec_.attention.heads;
    sizes.key_heads = spec_.attention.key_value_heads;
    sizes.head_size = spec_.attention.head_dim;
    sizes.window = spec_.attention.window;
    sizes.amx = subject_.target.amx && !step_.cuda && sizes.kernel == footprint::AttentionKernel::kFlash &&
                arch::precision_of(subject_.architecture, subject_.run).computed == DType::kBF16;
    sizes.threads = subject_.target.threads;
    sizes.wide_tiles = subject_.target.compute_capability == "8.0" || subject_.target.compute_capability == "9.0" ||
                       subject_.target.compute_capability.starts_with("10.");
    sizes.output_is_kept = keeps_input(names.output) && sizes.kernel != footprint::AttentionKernel::kMath;
    sizes.differentiated = made_needs_;
    push_attention(footprint::attention_footprint(step_, sizes), 0);
  }

  int64_t queries_of_a_row() const { return step_.tokens / subject_.batch.rows; }

  void attention_by_scores(int64_t keys, bool by_distance) {
    footprint::BiasedAttentionSizes sizes;
    sizes.rows = subject_.batch.rows;
    sizes.heads = spec_.attention.heads;
    sizes.key_heads = spec_.attention.key_value_heads;
    sizes.head_size = spec_.attention.head_dim;
    sizes.queries = queries_of_a_row();
    sizes.keys = keys;
    sizes.by_distance = by_distance;
    sizes.trains_bias = by_distance && subject_.gradients && subject_.run.method == config::Method::kFull &&
                        subject_.architecture.relative.has_value();
    sizes.dropout = drops_;
    sizes.capped = by_distance && spec_.attention.softcap > 0;
    sizes.differentiated = made_needs_;
    push_attention(footprint::biased_attention_footprint(step_, sizes), by_distance ? 0 : 1);
  }

  // streams: that are there besides the layer's input.
  void push_attention(footprint::Footprint footprint, int64_t streams) {
    operators_.push_back({"attention", std::move(footprint), {}, {}});
    operators_.back().is_attention = true;
    alive({width_}, streams);
    for (Tensors& moment : operators_.back().footprint.forward) {
      if (casts_input_) moment.push_back({"adapters' input, cast", kStream, step_.wide(width_, step_.adapter_bytes)});
    }
    branch_needs_ = std::exchange(made_needs_, false);
  }

  void finish_attention(const char* part, const arch::AttentionNames& names, std::initializer_list<int64_t> widths) {
    Operator& made = linear(step_, part, names.output, false);
    // Fused kernels keep it themselves.
    if (keeps_input(names.output) && (biased_ || kernel_of(subject_.target) == footprint::AttentionKernel::kMath)) {
      made.footprint.kept.push_back(
          {"output of attention", kStream, step_.wide(spec_.attention.queries(), step_.compute_bytes)});
    }
    alive(widths, 0);
    add_to_stream(part, names.norm_after);
  }

  void add_to_stream(const char* part, const char* norm) {
    stream_needs_ = stream_needs_ || made_needs_;
    const bool scales = spec_.added_scale != 1;
    operators_.back().takes_stream_gradient = !spec_.norms_after() && !step_.casts() && !drops_ && !scales;
    if (drops_) drop(part, width_);
    if (spec_.norms_after()) row_norm(part, norm, width_, 1, {});
    if (scales) operators_.push_back({part, footprint::scale_footprint(step_, width_), {}, {}});
    const Product each =
        step_.wide(width_, 3 * step_.stored_bytes + (step_.casts() ? step_.compute_bytes + step_.stored_bytes : 0));
    operators_.push_back({part, {{}, {{{"residual stream and what is added", kStream, each}}}, {}}, {}, {}});
    operators_.back().footprint.forward_work.bytes = operators_.back().footprint.backward_work.bytes = value_of(each);
  }

  // Values of a branch, and the stream beside them, stay until it ends, also where no backward pass wants them.
  void alive(std::initializer_list<int64_t> widths, int64_t streams) {
    for (Tensors& moment : operators_.back().footprint.forward) {
      for (const int64_t numbers : widths) {
        moment.push_back({"values of a branch", kStream, step_.wide(numbers, step_.compute_bytes)});
      }
      if (streams > 0)
        moment.push_back({"residual stream, after attention", kStream, step_.wide(width_, step_.stored_bytes)});
    }
  }

  // ---- what they are made of.

  footprint::LinearSizes sizes_of(std::string_view module) const {
    footprint::LinearSizes sizes;
    for (const ParameterRow* row : subject_.rows) {
      const Role role = row->spec.role;
      const bool reads = role == Role::kProjection || role == Role::kRouter ||
                         (role == Role::kExperts && row->spec.name.ends_with(".gate_up_proj"));
      if (!reads || !belongs_to(*row, module)) continue;
      sizes.out = row->spec.shape[0];
      sizes.in = row->spec.shape[1];
      sizes.trained = row->trained;
      sizes.adapted = row->adapted();
      sizes.codes = row->codes;
      sizes.fake_codes = fake_codes_;
    }
    return sizes;
  }
  bool keeps_input(std::string_view module) const { return sizes_of(module).keeps_input(); }
  bool any_keeps_input(std::initializer_list<const char*> modules) const {
    return std::any_of(modules.begin(), modules.end(), [this](const char* each) { return keeps_input(each); });
  }
  Tensors waiting(const char* what, int64_t numbers) const {
    return {{what, footprint::kGradientSource, step_.wide(numbers, step_.compute_bytes)}};
  }
  Tensors of_input() const { return waiting("gradient of the layers' input", width_); }

  const LayerSubject& subject_;
  const arch::LayerSpec& spec_;
  const StepSizes& step_;
  const int64_t width_;
  const bool before_, biased_, drops_, drops_inside_;
  const std::optional<quant::Scheme> fake_codes_;
  // Whether the stream, what linear layers read of it, and what they make of that need gradients.
  bool stream_needs_, branch_needs_ = false, made_needs_ = false, shared_needs_ = false;
  bool casts_input_ = false;  // of a branch, once for all its adapters
  Operators operators_;
  size_t ended_ = 0;  // operators of branches that are whole
};

}  // namespace

Operators layer_operators(const LayerSubject& subject) { return LayerOperators(subject).take(); }

}  // namespace fathom::plan
