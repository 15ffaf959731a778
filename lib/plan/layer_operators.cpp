// Operator by operator, with what of the stream and of its branches needs gradients.
#include "plan/layer_operators.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "arch/attention_by_scores.h"
#include "footprint/elementwise.h"
#include "footprint/experts.h"
#include "footprint/linear.h"
#include "plan/attention_operators.h"
#include "plan/expert_operators.h"
#include "plan/parameter_gradients.h"

namespace fathom::plan {
namespace {

using arch::ParameterRow;
using arch::Role;
using footprint::StepSizes;
using footprint::Tensors;

constexpr const char* kStream = "the sum that runs through the layers; lib/model/decoder_layer.cpp";

class LayerOperators {
 public:
  explicit LayerOperators(const LayerSubject& subject)
      : subject_(subject),
        spec_(subject.spec),
        step_(subject.step),
        width_(subject.run.architecture.hidden_size),
        before_(spec_.norms_before()),
        by_scores_(arch::attends_by_scores(subject.run.architecture, subject.gradients)),
        drops_(subject.gradients && subject.run.architecture.dropout > 0),
        drops_inside_(subject.gradients && subject.run.architecture.inner_dropout > 0),
        fake_codes_(subject.run.settings.fake_scheme),
        casts_(subject.run.gathered_casts),
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
      reader(kHeads, names.fused);
      split(kHeads, queries + 2 * keys);
      alive(/*input=*/true);
      turn(kHeads, names.query_norm, attention.heads, waiting("gradients of keys and values", 2 * keys));
      turn(kHeads, names.key_norm, attention.key_value_heads,
           waiting("gradients of queries and values", queries + keys));
    } else {
      begin_branch(kHeads, names.norm_before, {names.query, names.key, names.value});
      reader(kHeads, names.query, kAdds).waiting = of_input();
      turn(kHeads, names.query_norm, attention.heads, of_input());
      Tensors wait = of_input();
      wait.push_back(waiting("gradient of queries", queries).front());
      reader(kHeads, names.key, kAdds).waiting = wait;
      turn(kHeads, names.key_norm, attention.key_value_heads, wait);
      reader(kHeads, names.value).waiting = waiting("gradients of queries and keys", queries + keys);
      casts_input_ = false;  // the three share it alone
    }
    if (by_scores_) {
      push_attention(scores_attention(subject_, step_.tokens / subject_.batch.rows, /*by_distance=*/true, made_needs_));
    } else {
      push_attention(kernel_attention(subject_, made_needs_, keeps_input(names.output)));
    }
    finish_attention("attention's output projection", names);
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
    reader(kHeads, names.query);
    const bool stream_reads = std::exchange(branch_needs_, subject_.source_needs_gradient);
    for (Operator& each : operators_) each.follows_source = true;
    const auto of_source = [&](const char* what, int64_t numbers) {
      Tensors wait = waiting("gradient of queries", queries);
      wait.push_back({what, footprint::kGradientSource, subject_.source.wide(numbers, step_.compute_bytes)});
      return wait;
    };
    Operator& of_keys = linear(subject_.source, kHeads, names.key, false, false, kAdds);
    of_keys.follows_source = fake_codes_.has_value();
    of_keys.waiting = fake_codes_ ? waiting("gradient of queries", queries) : of_source("gradient of a source", width_);
    linear(subject_.source, kHeads, names.value, false, false).waiting = of_source("gradient of keys", keys);
    branch_needs_ = stream_reads || subject_.source_needs_gradient;
    push_attention(scores_attention(subject_, subject_.batch.source_length, /*by_distance=*/false, made_needs_));
    finish_attention("cross-attention's output projection", names);
  }

  void feed_forward(const arch::FeedForwardNames& names) {
    if (spec_.feed_forward.experts) return experts(names);
    constexpr const char *kGate = "gate and up", *kUp = "the up projection", *kDown = "the down projection";
    const int64_t inner = spec_.feed_forward.width;
    const bool gated = spec_.feed_forward.gated;
    if (spec_.feed_forward.fused) {
      begin_branch(kGate, names.norm_before, {names.fused});
      reader(kGate, names.fused);
      split(kGate, 2 * inner);
      alive(/*input=*/true);
    } else if (gated) {
      begin_branch(kGate, names.norm_before, {names.gate, names.up});
      reader(kGate, names.gate, kAdds).waiting = of_input();
      reader(kGate, names.up).waiting = waiting("gradient of the gate", inner);
    } else {
      begin_branch(kUp, names.norm_before, {names.up});
      reader(kUp, names.up);
    }
    const Activation activation = spec_.feed_forward.activation;
    const bool met = gated && step_.cuda && !drops_inside_ && footprint::gate_by_kernel(step_, activation);
    footprint::Footprint gate =
        gated ? footprint::gate_footprint(step_, inner, activation) : footprint::activation_footprint(step_, inner);
    operators_.push_back({"the gate", std::move(gate), {}, {}});
    if (!made_needs_) keep_output_alone("output of the gate", inner, {names.down});
    alive(/*input=*/false);
    if (drops_inside_) {
      drop("dropout", inner);
      if (keeps_input(names.down)) {
        operators_.back().footprint.kept.push_back(
            {"what is left by dropout", kStream, step_.wide(inner, step_.compute_bytes)});
      }
    }
    const bool made_needed = branch_needs_ = std::exchange(made_needs_, false);
    linear(step_, kDown, names.down, !drops_inside_, !made_needed && keeps_input(names.down), false, met);
    add_to_stream(kDown, names.norm_after);
  }

  // The rows of both stacks are read by their module's name; what reads the norm is the first.
  void experts(const arch::FeedForwardNames& names) {
    constexpr const char *kRouting = "the router", *kExperts = "the experts";
    begin_branch(kRouting, names.norm_before, {names.router, names.experts}, /*apart=*/true);
    reader(kRouting, names.router).waiting = of_input();
    footprint::ExpertSizes sizes = expert_sizes(spec_.feed_forward, width_, subject_.rows, casts_);
    sizes.makes_input_again = before_;
    sizes.input_needs_gradient = branch_needs_;
    const bool differentiated = made_needs_ || sizes.gate_up.keeps_input() || sizes.down.keeps_input();
    const auto push = [&](const char* part, footprint::Footprint footprint, Tensors gradients, bool keeps) {
      if (!keeps) footprint.kept.clear();
      operators_.push_back({part, std::move(footprint), std::move(gradients), {}});
      alive(/*input=*/true);
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
    attended_ = true;
    for (; ended_ < operators_.size(); ++ended_) {
      operators_[ended_].another_follows = true;
      if (!needs) operators_[ended_].takes_stream_gradient = true;
    }
  }

  // ---- operators.

  // Of a linear layer: that its backward pass adds to the gradient that another has made of what both read.
  static constexpr bool kAdds = true;

  // A linear layer that reads what the branch reads.
  Operator& reader(const char* part, const char* module, bool adds = false) {
    Operator& made = linear(step_, part, module, before_, keeps_input_alone_, adds);
    if (casts_input_) made.footprint.forward.front().push_back(cast_of_input());
    const bool casts = step_.adapter_bytes != step_.compute_bytes && !fake_codes_;
    casts_input_ = casts_input_ || (casts && sizes_of(module).adapted);
    return made;
  }

  // input_is_kept: while the layer runs forward, by what made it.
  Operator& linear(const StepSizes& step, const char* part, const char* module, bool again, bool input_is_kept,
                   bool adds = false, bool met = false) {
    footprint::LinearSizes sizes = sizes_of(module);
    sizes.met_by_gate = met && branch_needs_;
    sizes.makes_input_again = again;
    sizes.input_is_kept = subject_.gradients && input_is_kept;
    sizes.input_needs_gradient = branch_needs_;
    sizes.adds_to_gradient = adds && !fake_codes_;
    made_needs_ = made_needs_ || branch_needs_ || sizes.keeps_input();
    operators_.push_back({part, footprint::linear_footprint(step, sizes), gradients_of(subject_.rows, module), {}});
    alive(/*input=*/false);  // which it counts itself
    return operators_.back();
  }

  // Norms and positions of so many heads, which the last linear layer made.
  void turn(const char* part, const char* norm, int64_t heads, const Tensors& wait) {
    const arch::Attention& attention = spec_.attention;
    const int64_t numbers = heads * attention.head_dim;
    const bool needs = !operators_.back().footprint.backward.empty();
    const auto keep_nothing = [this] {
      operators_.back().footprint.kept = {}, operators_.back().footprint.backward = {};
    };
    if (attention.query_key_norm != arch::QueryKeyNorm::kNone) {
      row_norm(part, norm, numbers, attention.query_key_norm == arch::QueryKeyNorm::kEachHead ? heads : 1, wait);
      if (!needs && operators_.back().gradients.empty()) keep_nothing();
    }
    if (!attention.rotary) return;
    const bool turned_needs = !operators_.back().footprint.backward.empty();
    operators_.push_back({part, footprint::rotary_footprint(step_, numbers), {}, wait});
    if (!turned_needs) keep_nothing();
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
  // apart: they make their gradients of it apart, which add up.
  void begin_branch(const char* part, const char* norm, std::initializer_list<const char*> readers,
                    bool apart = false) {
    made_needs_ = false;
    if (norm == nullptr && before_) {
      branch_needs_ = shared_needs_;
      return;
    }
    branch_needs_ = stream_needs_;
    keeps_input_alone_ = casts_input_ = false;
    if (before_) {
      operators_.push_back({part,
                            footprint::norm_footprint(step_, width_, subject_.run.architecture.centred_norms),
                            gradients_of(subject_.rows, norm),
                            {}});
      branch_needs_ = shared_needs_ = branch_needs_ || !operators_.back().gradients.empty();
      operators_.back().keeps_stream = branch_needs_;
      if (!branch_needs_) keep_output_alone("output of a norm", width_, readers);
      keeps_input_alone_ = !branch_needs_ && any_keeps_input(readers);
      const auto sums = branch_needs_ && (apart || fake_codes_) ? static_cast<int64_t>(readers.size()) - 1 : 0;
      operators_.back().footprint.backward_work.bytes += 3 * sums * value_of(step_.wide(width_, step_.compute_bytes));
    } else if (any_keeps_input(readers)) {
      operators_.push_back(
          {part,
           {{{"residual stream, read by projections", kStream, step_.wide(width_, step_.compute_bytes)}}, {}, {}},
           {},
           {}});
      operators_.back().keeps_stream = !step_.casts();
      keeps_input_alone_ = true;
    }
    keeps_stream_ = !operators_.empty() && operators_.back().keeps_stream;
  }

  // Of an operator that no gradient asks for, which its readers keep if they need it.
  void keep_output_alone(const char* what, int64_t width, std::initializer_list<const char*> readers) {
    operators_.back().footprint.kept =
        any_keeps_input(readers) ? Tensors{{what, kStream, step_.wide(width, step_.compute_bytes)}} : Tensors();
  }

  void push_attention(footprint::Footprint footprint) {
    operators_.push_back({"attention", std::move(footprint), {}, {}});
    operators_.back().is_attention = true;
    alive(/*input=*/spec_.parallel);
    branch_needs_ = std::exchange(made_needs_, false);
  }

  void finish_attention(const char* part, const arch::AttentionNames& names) {
    Operator& made = linear(step_, part, names.output, false, keeps_input(names.output));
    // Fused kernels keep it themselves.
    if (keeps_input(names.output) && (by_scores_ || kernel_of(subject_.target) == footprint::AttentionKernel::kMath)) {
      made.footprint.kept.push_back(
          {"output of attention", kStream, step_.wide(spec_.attention.queries(), step_.compute_bytes)});
    }
    if (spec_.parallel) alive(/*input=*/true);
    add_to_stream(part, names.norm_after);
  }

  void add_to_stream(const char* part, const char* norm) {
    stream_needs_ = stream_needs_ || made_needs_;
    const bool scales = spec_.added_scale != 1;
    operators_.back().takes_stream_gradient = !spec_.norms_after() && !step_.casts() && !drops_ && !scales;
    if (drops_) drop(part, width_);
    if (spec_.norms_after()) row_norm(part, norm, width_, 1, {});
    if (scales) operators_.push_back({part, footprint::scale_footprint(step_, width_), {}, {}});
    // The sum takes the place of what is added, or of its cast.
    const int64_t cast = step_.casts() ? step_.stored_bytes : 0;
    operators_.push_back(
        {part,
         {{},
          {{{"what is added to the residual stream", kStream, step_.wide(width_, step_.compute_bytes + cast)}}},
          {}},
         {},
         {}});
    operators_.back().footprint.forward_work.bytes = operators_.back().footprint.backward_work.bytes =
        value_of(step_.wide(width_, 3 * step_.stored_bytes + (step_.casts() ? step_.compute_bytes + cast : 0)));
    alive(/*input=*/false);
  }

  // What is there besides while the last operator runs forward, also where no backward pass wants it: the stream behind
  // attention, unless it is kept, and what the branch reads until all that read it have run.
  void alive(bool input) {
    for (Tensors& moment : operators_.back().footprint.forward) {
      const auto add = [&](const char* what, int64_t bytes) {
        moment.push_back({what, kStream, step_.wide(width_, bytes)});
      };
      if (attended_ && !(subject_.gradients && keeps_stream_)) {
        add("residual stream, after attention", step_.stored_bytes);
      }
      if (!input) continue;
      if (!(subject_.gradients && keeps_input_alone_)) add("input of a branch", step_.compute_bytes);
      if (casts_input_) moment.push_back(cast_of_input());
    }
  }
  footprint::Bytes cast_of_input() const {
    return {"adapters' input, cast", kStream, step_.wide(width_, step_.adapter_bytes)};
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
      sizes.comes_cast = casts_.have(*row);
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
  const bool before_, by_scores_, drops_, drops_inside_;
  const std::optional<quant::Scheme> fake_codes_;
  const arch::Casts casts_;  // that come as such
  // Whether the stream, what linear layers read of it, and what they make of that need gradients.
  bool stream_needs_, branch_needs_ = false, made_needs_ = false, shared_needs_ = false;
  // Of a branch: its norm keeps the stream, or what its linear layers read is kept itself; it was cast for adapters.
  bool keeps_stream_ = false, keeps_input_alone_ = false, casts_input_ = false;
  bool attended_ = false;  // the stream is there as the layer read it and as attention left it
  Operators operators_;
  size_t ended_ = 0;  // operators of branches that are whole
};

}  // namespace

Operators layer_operators(const LayerSubject& subject) { return LayerOperators(subject).take(); }

}  // namespace fathom::plan
