// Step by step, with what of the layer's values needs gradients and what is there beside each operator.
#include "plan/estimate/layer_operators.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "arch/attention_by_scores.h"
#include "arch/layer_program.h"
#include "footprint/elementwise.h"
#include "footprint/experts.h"
#include "footprint/linear.h"
#include "plan/estimate/attention_operators.h"
#include "plan/estimate/delta_operators.h"
#include "plan/estimate/expert_operators.h"
#include "plan/estimate/layer_values.h"
#include "plan/estimate/linear_sizes.h"
#include "plan/estimate/parameter_gradients.h"

namespace fathom::plan {
namespace {

using arch::Branch;
using arch::LayerProgram;
using arch::Step;
using arch::StepKind;
using footprint::Tensors;

// What plans call the part of a layer with which a branch begins.
const char* first_part(const arch::LayerSpec& spec, Branch branch) {
  if (branch == Branch::kSource) return "queries, and a source's keys and values";
  if (branch == Branch::kFeedForward && spec.feed_forward.experts) return "the router";
  if (branch == Branch::kFeedForward) return spec.feed_forward.gated ? "gate and up" : "the up projection";
  return spec.mixes_by<arch::ShortConvolution>() ? "a convolution's parts" : "queries, keys and values";
}

class LayerOperators : LayerValues {
 public:
  explicit LayerOperators(const LayerSubject& subject)
      : LayerValues(subject),
        spec_(subject.spec),
        by_scores_(arch::attends_by_scores(subject.run.architecture, subject.gradients)),
        fake_codes_(subject.run.settings.fake_scheme) {}

  Operators take() {
    for (number_ = 0; number_ < program_.steps.size(); ++number_) {
      const Step& step = program_.steps[number_];
      if (number_ == 0 || program_.steps[number_ - 1].branch != step.branch) part_ = first_part(spec_, step.branch);
      const size_t before = operators_.size();
      take_step(step);
      for (size_t i = before; i < operators_.size(); ++i) add_what_is_there(operators_[i], step);
      const bool another_follows =
          number_ + 1 < program_.steps.size() && program_.steps[number_ + 1].branch != step.branch;
      if (step.kind == StepKind::kAdd && another_follows) end_branch(step);
    }
    return std::move(operators_);
  }

 private:
  // ---- steps.

  void take_step(const Step& step) {
    switch (step.kind) {
      case StepKind::kNorm:
        return norm(step);
      case StepKind::kRead:
        return read(step);
      case StepKind::kLinear:
        return linear(step);
      case StepKind::kSplit:
        return push_simple(step, footprint::split_footprint(step_, numbers_of(step.reads.front()), all_of(step.makes)));
      case StepKind::kJoinHeads:
        return push_simple(step, footprint::join_footprint(step_, numbers_of(step.makes.front()), all_of(step.reads)));
      case StepKind::kRowNorm:
        return norm_rows(step);
      case StepKind::kRotateQueries:
      case StepKind::kRotateKeys:
        return push_simple(step, footprint::rotary_footprint(step_, numbers_of(step.makes.front())));
      case StepKind::kAttend:
      case StepKind::kAttendSource:
        return attend(step);
      case StepKind::kConvolve:
        return convolve(step);
      case StepKind::kDelta:
        part_ = "the delta rule";
        return push_simple(step, delta_rule(subject_), gradients_of_delta(subject_));
      case StepKind::kGatedNorm:
        return gate_norm(step);
      case StepKind::kActivate:
        return activate(step);
      case StepKind::kExperts:
        return experts(step);
      case StepKind::kAddShared:
        part_ = "what is shared beside the experts";
        return push_simple(step, step.reads.size() == 2
                                     ? footprint::sum_footprint(step_, numbers_of(step.makes.front()))
                                     : footprint::gated_rows_footprint(step_, numbers_of(step.makes.front())));
      case StepKind::kDrop:
      case StepKind::kDropInside:
        return drop(step, step.kind == StepKind::kDrop ? part_ : "dropout");
      case StepKind::kScale:
        return push_simple(step, footprint::scale_footprint(step_, numbers_of(step.makes.front())));
      case StepKind::kAdd:
        return add(step);
      case StepKind::kScaleStream:
        return scale_stream(step);
    }
  }

  void norm(const Step& step) {
    const size_t stream = step.reads.front(), x = step.makes.front();
    push(footprint::norm_footprint(step_, numbers_of(x), subject_.run.architecture.centred_norms),
         gradients_of(subject_.rows, step.module));
    round(x);
    const bool needs = known(stream).needs_gradient || !operators_.back().gradients.empty();
    known(x) = {needs, !needs && readers_.keep(x), /*made_again=*/needs};
    operators_.back().keeps_stream = known(stream).is_kept = needs;
    if (!needs) keep_output_alone(operators_.back().footprint, x, "output of a norm");
    const int64_t sums = needs ? readers_.gradients(x) - 1 : 0;
    operators_.back().footprint.backward_work.bytes += 3 * sums * value_of(wide(x));
  }

  void norm_rows(const Step& step) {
    const size_t rows = step.reads.front();
    footprint::Footprint its = footprint::row_norm_footprint(step_, numbers_of(rows), step.groups);
    if (known(rows).is_kept) its.kept.erase(its.kept.begin());  // by another norm
    push_simple(step, std::move(its));
    known(rows).is_kept = known(step.makes.front()).needs_gradient;
  }

  // As it is, or cast; what rounds it keeps that, or where nobody asks for its gradient the rounded.
  void read(const Step& step) {
    const size_t stream = step.reads.front(), x = step.makes.front();
    const bool needs = known(stream).needs_gradient, rounds_again = rounds_ && needs;
    known(x) = {needs, readers_.keep(x) && !rounds_again, /*made_again=*/rounds_again};
    if (!readers_.keep(x)) return;
    push({kept_alone(x, "residual stream, read by projections"), {}, {}});
    round(x);
    operators_.back().keeps_stream = known(stream).is_kept = is_stream_itself(x) || (!step_.casts() && needs);
  }

  void linear(const Step& step) {
    const size_t x = step.reads.front(), made = step.makes.front();
    const Known its = known(x);
    footprint::LinearSizes sizes = reader_of(x, step.module);
    sizes.adds_to_gradient = !fake_codes_ && step.sharing.back() != number_;
    sizes.met_by_gate = its.needs_gradient && meets_gate(x);
    sizes.input_is_made = stays_made(x);
    sizes.rounds_input_again = rounds_ && sizes.makes_input_again && step.sharing.back() == number_;
    push(footprint::linear_footprint(step_of(x), sizes), gradients_of(subject_.rows, step.module));
    Operator& operator_ = operators_.back();
    if (readers_.cast_before(step, number_)) {
      operator_.footprint.forward.front().push_back(
          {"adapters' input, cast", kLayer, step_of(x).wide(numbers_of(x), step_.adapter_bytes)});
    }
    if (x == LayerProgram::kSource) {
      if (step.sharing.front() == number_) {
        for (Operator& each : operators_) each.follows_source = true;
      }
      operator_.follows_source = fake_codes_ && step.sharing.back() != number_;
    }
    // Fused kernels keep it themselves, where it is what they made.
    const bool attended = made_by(x, StepKind::kAttend) || made_by(x, StepKind::kAttendSource);
    if (attended && its.is_kept && (by_scores_ || output_is_apart(subject_))) {
      operator_.footprint.kept.push_back({"output of attention", kLayer, wide(x)});
    }
    known(made).needs_gradient = its.needs_gradient || sizes.keeps_input();
  }

  void attend(const Step& step) {
    const size_t made = step.makes.front();
    const bool of_source = step.kind == StepKind::kAttendSource;
    Tensors of_sinks = of_source ? Tensors() : gradients_of_sinks(subject_);
    known(made) = {any_needs_gradient(step) || !of_sinks.empty(), readers_.keep(made)};
    const bool differentiated = known(made).needs_gradient;
    part_ = "attention";
    if (of_source || by_scores_) {
      const int64_t keys = of_source ? subject_.batch.source_length : step_.tokens / subject_.batch.rows;
      push(scores_attention(subject_, keys, /*by_distance=*/!of_source, differentiated));
    } else {
      push(kernel_attention(subject_, differentiated, known(made).is_kept), std::move(of_sinks));
    }
    operators_.back().is_attention = true;
    part_ = of_source ? "cross-attention's output projection" : "attention's output projection";
  }

  void convolve(const Step& step) {
    const bool packed = !subject_.batch.document_lengths.empty();
    part_ = "the convolution";
    push_made_again(step, footprint::convolution_footprint(step_, numbers_of(step.makes.front()), packed),
                    gradients_of(subject_.rows, step.module), "output of a convolution");
    part_ = "the convolution's output projection";
  }

  void gate_norm(const Step& step) {
    part_ = "the gated norm";
    push_made_again(step, footprint::gated_norm_footprint(step_, numbers_of(step.makes.front())),
                    gradients_of(subject_.rows, step.module), "output of a gated norm");
    part_ = "the delta rule's output projection";
  }

  void activate(const Step& step) {
    const int64_t inner = numbers_of(step.makes.front());
    const bool of_attention = step.branch == Branch::kMixer;
    part_ = of_attention ? "attention's gate" : "the gate";
    footprint::Footprint its = step.reads.size() > 1 ? footprint::gate_footprint(step_, inner, step.activation)
                                                     : footprint::activation_footprint(step_, inner);
    // What fused kernels made, they keep themselves.
    if (of_attention && !by_scores_ && !output_is_apart(subject_)) its.kept.front().product.front().count = 1;
    push_made_again(step, std::move(its), {}, "output of the gate");
    part_ = of_attention ? "attention's output projection" : "the down projection";
  }

  // The router, its choice, and two products.
  void experts(const Step& step) {
    const size_t x = step.reads.front(), made = step.makes.front();
    const arch::FeedForwardNames names = spec_.names().feed_forward;
    const footprint::LinearSizes router = reader_of(x, names.router);
    footprint::ExpertSizes sizes =
        expert_sizes(spec_.feed_forward, numbers_of(x), subject_.rows, subject_.run.gathered_casts);
    sizes.makes_input_again = known(x).made_again;
    sizes.input_needs_gradient = known(x).needs_gradient;
    const bool differentiated =
        known(x).needs_gradient || router.keeps_input() || sizes.gate_up.keeps_input() || sizes.down.keeps_input();
    const auto stack = [&](const char* which) { return gradients_of_stack(subject_.rows, names.experts, which); };
    const auto push_beside_input = [&](footprint::Footprint footprint, Tensors gradients) {
      if (!differentiated) footprint.kept.clear(), footprint.backward.clear();
      push(std::move(footprint), std::move(gradients));
      if (subject_.gradients && known(x).is_kept) return;
      for (Tensors& moment : operators_.back().footprint.forward) moment.push_back(input_of_branch(x));
    };
    const Tensors of_input = {gradient_of_value(x)};
    push(footprint::linear_footprint(step_, router), gradients_of(subject_.rows, names.router));
    operators_.back().waiting = of_input;
    push_beside_input(footprint::routing_footprint(step_, sizes), {});
    operators_.back().waiting = of_input;
    part_ = "the experts";
    push_beside_input(footprint::expert_gate_up_footprint(step_, sizes), stack(".gate_up_proj"));
    operators_.back().made_with = stack(".down_proj");
    push_beside_input(footprint::expert_down_footprint(step_, sizes), stack(".down_proj"));
    known(made).needs_gradient = differentiated;
  }

  // In training alone.
  void drop(const Step& step, const char* part) {
    const size_t read = step.reads.front(), made = step.makes.front();
    known(made) = known(read);
    if (!subject_.gradients) return;
    push(footprint::dropout_footprint(step_, numbers_of(made)));
    Operator& each = operators_.back();
    each.part = part;
    each.lasting = std::exchange(each.footprint.kept, kept_alone(made, "what is left by dropout"));
    known(made) = {known(read).needs_gradient, !each.footprint.kept.empty()};
  }

  // The sum takes the place of what is added, or of its cast.
  void add(const Step& step) {
    const size_t added = step.reads[0], stream = step.reads[1], sum = step.makes.front();
    const bool is_product =
        made_by(added, StepKind::kLinear) || made_by(added, StepKind::kExperts) || made_by(added, StepKind::kAddShared);
    operators_.back().takes_stream_gradient = is_product && !step_.casts();
    const int64_t width = numbers_of(sum), cast = step_.casts() ? step_.stored_bytes : 0;
    push({{}, {{{"what is added to the residual stream", kLayer, step_.wide(width, step_.compute_bytes + cast)}}}, {}});
    footprint::Footprint& its = operators_.back().footprint;
    its.forward_work.bytes = its.backward_work.bytes =
        value_of(step_.wide(width, 3 * step_.stored_bytes + (step_.casts() ? step_.compute_bytes + cast : 0)));
    known(sum).needs_gradient = known(added).needs_gradient || known(stream).needs_gradient;
  }

  // In place: its backward pass makes the gradient of the sum beside that of what the layer makes.
  void scale_stream(const Step& step) {
    part_ = "the layer's scalar";
    push_simple(step, footprint::stream_scale_footprint(step_, numbers_of(step.makes.front())));
    operators_.back().takes_stream_gradient = true;
  }

  // Where the stream that the branch read needs no gradient, that of the sum goes no further than its output.
  void end_branch(const Step& add) {
    const bool needs = known(add.reads[1]).needs_gradient;
    for (; ended_ < operators_.size(); ++ended_) {
      operators_[ended_].another_follows = !(spec_.parallel && needs);  // whose gradients join before the stream's
      if (!needs) operators_[ended_].takes_stream_gradient = true;
    }
  }

  // ---- operators.

  void push(footprint::Footprint footprint, Tensors gradients = {}) {
    operators_.push_back({part_, std::move(footprint), std::move(gradients), {}});
  }
  // Of a step with one operator, which nobody runs backward where nothing needs a gradient.
  void push_simple(const Step& step, footprint::Footprint footprint) {
    push_simple(step, std::move(footprint),
                step.module != nullptr ? gradients_of(subject_.rows, step.module) : Tensors());
  }
  void push_simple(const Step& step, footprint::Footprint footprint, Tensors gradients) {
    const bool needs = any_needs_gradient(step) || !gradients.empty();
    if (!needs) footprint.kept = {}, footprint.backward = {};
    for (const size_t made : step.makes) {
      known(made) = {needs, readers_.keep(made)};
      for (footprint::Bytes& each : kept_alone(made, "what projections read"))
        footprint.kept.push_back(std::move(each));
    }
    push(std::move(footprint), std::move(gradients));
  }

  // Of a step whose output is made again for who reads it, from what its operator keeps.
  void push_made_again(const Step& step, footprint::Footprint footprint, Tensors gradients, const char* output) {
    const size_t made = step.makes.front();
    const bool needs = any_needs_gradient(step) || !gradients.empty();
    known(made) = {needs, !needs && readers_.keep(made), /*made_again=*/needs};
    if (!needs) keep_output_alone(footprint, made, output);
    push(std::move(footprint), std::move(gradients));
    round(made);
  }
  // Of the operator that made the value, as linear layers read it: the last moment of its forward pass.
  void round(size_t made) {
    if (!rounds_) return;
    std::vector<Tensors>& forward = operators_.back().footprint.forward;
    Tensors moment = forward.empty() ? Tensors() : forward.back();
    for (footprint::Bytes& each : footprint::rounded_input(step_, numbers_of(made))) moment.push_back(each);
    forward.push_back(std::move(moment));
  }
  // Of what nobody runs backward.
  void keep_output_alone(footprint::Footprint& footprint, size_t made, const char* output) const {
    footprint.kept = kept_alone(made, output);
    footprint.backward.clear();
  }

  // Beside an operator of a step: forward the values that were made before and are read after it, but those that are
  // kept, the stream that a sum is added to, and what the step itself rounds; backward the gradients of such values,
  // which who reads them after has made. The stream's is not the layer's.
  void add_what_is_there(Operator& each, const Step& step) const {
    for (size_t value = 0; value < program_.values.size(); ++value) {
      const arch::Value& its = program_.values[value];
      const bool given = program_.is_given(value), was_made = given || its.made_by < number_;
      const bool is_read_later = was_made && its.last_read_by != arch::Value::kNone && its.last_read_by > number_;
      const bool reads = std::find(step.reads.begin(), step.reads.end(), value) != step.reads.end();
      const bool stays = reads && (step.kind == StepKind::kAdd ? is_stream(value) : readers_.round(value));
      if (!given && !is_stream_itself(value) && (stays || (is_read_later && !reads)) &&
          !(subject_.gradients && known(value).is_kept)) {
        for (Tensors& moment : each.footprint.forward) moment.push_back(alive(value));
      }
      if (!is_read_later || is_stream(value) || !known(value).needs_gradient) continue;
      if (value == LayerProgram::kSource && fake_codes_) continue;  // each of its readers makes its own
      const auto made = static_cast<size_t>(readers_.branches_behind(value, number_));
      each.waiting.insert(each.waiting.end(), made, gradient_of_value(value));
    }
    const size_t input = program_.steps.front().makes.front();
    if (stays_made(input)) {
      each.waiting.push_back({"input of both branches, made again", kLayer,
                              step_.wide(numbers_of(input), readers_.bytes_made_again(input))});
    }
  }

  bool stays_made(size_t value) const {
    const bool is_cast = known(value).is_kept && readers_.bytes_made_again(value) != step_.compute_bytes;
    return (known(value).made_again || is_cast) && readers_.want_still(value, number_);
  }
  // Whether the kernel that makes the gradients of gate and up makes their product again, too.
  bool meets_gate(size_t value) const {
    if (!step_.cuda || !made_by(value, StepKind::kActivate)) return false;
    const Step& its = program_.steps[program_.values[value].made_by];
    return its.reads.size() > 1 && footprint::gate_by_kernel(step_, its.activation);
  }

  // Of a linear layer that reads the value.
  footprint::LinearSizes reader_of(size_t value, std::string_view module) const {
    footprint::LinearSizes sizes = linear_sizes(subject_, module);
    sizes.makes_input_again = known(value).made_again || readers_.round(value);
    sizes.input_is_kept =
        is_stream_itself(value) || (subject_.gradients && known(value).is_kept && !readers_.round(value));
    sizes.rounds_what_is_kept = readers_.round(value) || made_by(value, StepKind::kRead);
    sizes.input_needs_gradient = known(value).needs_gradient;
    return sizes;
  }

  const arch::LayerSpec& spec_;
  const bool by_scores_;
  const std::optional<quant::Scheme> fake_codes_;
  Operators operators_;
  size_t number_ = 0;  // of the step at hand
  const char* part_ = "";
  size_t ended_ = 0;  // operators of branches that are whole
};

}  // namespace

Operators layer_operators(const LayerSubject& subject) { return LayerOperators(subject).take(); }

}  // namespace fathom::plan
