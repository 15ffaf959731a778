// Step by step, as transformers computes them for each family.
#include "model/decoder_layer.h"

#include <ATen/ATen.h>

#include <cmath>
#include <utility>
#include <vector>

#include "ops/activation.h"
#include "ops/dropout.h"
#include "ops/gated_norm.h"
#include "ops/gated_rows.h"
#include "ops/join_heads.h"
#include "ops/linear/shared_input.h"
#include "ops/linear/split_columns.h"
#include "ops/quantized/fake_quantize.h"
#include "ops/short_convolution.h"

namespace fathom::model {
namespace {

using arch::LayerProgram;
using arch::Step;
using arch::StepKind;

// Adds in place of the branch, which nothing keeps. Under autocast the stream is wider than the branch: on the CPU an
// addition of two types would cast inside the operator anyway.
at::Tensor add_to_stream(const at::Tensor& branch_TD, const at::Tensor& stream_TD) {
  if (branch_TD.scalar_type() == stream_TD.scalar_type()) return branch_TD.add_(stream_TD);
  if (stream_TD.is_cuda()) return stream_TD + branch_TD;
  return branch_TD.to(stream_TD.scalar_type()).add_(stream_TD);
}

at::Tensor detached(const at::Tensor& x) { return x.defined() ? x.detach() : x; }

// What linear layers read of x.
at::Tensor as_input(const at::Tensor& x_TD, bool rounds) { return rounds ? ops::fake_quantize_tokens(x_TD) : x_TD; }

// What is kept anyway, by who made it or as it is: rounded again where it is asked for.
ops::LinearInput plain_input(const at::Tensor& x_TD, const LayerContext& context) {
  if (!context.rounds_inputs) return ops::LinearInput(x_TD);
  return {as_input(x_TD, true), [x_TD = x_TD.detach()] { return as_input(x_TD, true); }};
}

// One pass through a layer.
class Pass {
 public:
  Pass(const DecoderLayer& layer, const LayerInputs& inputs, const LayerContext& context, LayerState* state)
      : layer_(layer),
        program_(layer.program),
        inputs_(inputs),
        context_(context),
        state_(state),
        compute_(inputs.stream_TD.device(), layer.stored),
        values_(program_.values.size()) {
    values_[LayerProgram::kStream].tensor = inputs.stream_TD;
    values_[LayerProgram::kSource].tensor = inputs.source_TD;
  }

  at::Tensor run() {
    for (size_t number = 0; number < program_.steps.size(); ++number) {
      const Step& step = program_.steps[number];
      // The state has the keys and values of a source that is not given again.
      if (step.reads.front() == LayerProgram::kSource && !inputs_.source_TD.defined()) continue;
      if (step.module != nullptr) layer_.names.forward(step.module);
      run_step(step, layer_.weights[number]);
      if (step.backward_module != nullptr) {
        layer_.names.backward(tensor(step.makes.front()), step.backward_module);
      }
      if (!step.sharing.empty() && step.sharing.back() == number) shared_.reset();
      for (const size_t value : step.reads) {
        if (program_.values[value].last_read_by == number) values_[value] = {};
      }
    }
    return std::move(values_.back().tensor);
  }

 private:
  // A value while it is there; input: as linear layers read it, where who made it says how they get it again.
  struct Held {
    at::Tensor tensor;
    std::optional<ops::LinearInput> input;
  };

  void run_step(const Step& step, const StepWeights& weights) {
    switch (step.kind) {
      case StepKind::kNorm:
        return make(step, normed_input(values_[step.reads.front()].tensor, weights.norm));
      case StepKind::kRead:
        return make(step, plain_input(read(step).to(compute_.dtype()), context_));
      case StepKind::kLinear:
        return make(step, ops::linear(input_of(step), weights.linear, compute_, context_.training));
      case StepKind::kSplit:
        return split(step);
      case StepKind::kRowNorm:
        return make(step, normed(step, weights.norm));
      case StepKind::kRotateQueries:
      case StepKind::kRotateKeys: {
        const ops::Turns& turns = context_.turns.at(*layer_.rotary);
        const bool queries = step.kind == StepKind::kRotateQueries;
        return make(step, ops::rotate(heads_of(read(step), step.groups), queries ? turns.queries : turns.keys,
                                      turns.interleaved));
      }
      case StepKind::kJoinHeads:
        return make(step, ops::join_heads(read(step), step.reads.size() > 1 ? read(step, 1) : at::Tensor(), step.groups,
                                          program_.values[step.makes.front()].width / step.groups));
      case StepKind::kAttend: {
        const int64_t of_keys = attention().key_value_heads;
        return make(step, attend(heads_of(read(step, 0), attention().heads), heads_of(read(step, 1), of_keys),
                                 heads_of(read(step, 2), of_keys), weights.sinks_H));
      }
      case StepKind::kAttendSource:
        return make(step, attend_to_source(step));
      case StepKind::kConvolve:
        return convolve(step, weights.taps_DJ);
      case StepKind::kDelta:
        return make(step, answers(step, weights.delta));
      case StepKind::kGatedNorm:
        return gate_norm(step, weights.norm.weight_D);
      case StepKind::kActivate:
        return activate(step);
      case StepKind::kExperts:
        return make(step, run_experts(*weights.experts, linear_input(step.reads.front()), layer_.names,
                                      context_.balance, compute_));
      case StepKind::kAddShared:
        if (step.reads.size() == 2) return make(step, read(step, 0).add_(read(step, 1)));
        return make(step, read(step, 0).add_(ops::gated_rows(read(step, 1), read(step, 2))));
      case StepKind::kDrop:
        return make(step, ops::dropout(read(step), context_.dropout));
      case StepKind::kDropInside:
        if (context_.inner_dropout > 0) {
          return make(step, ops::LinearInput(ops::dropout(read(step), context_.inner_dropout)));
        }
        values_[step.makes.front()] = std::move(values_[step.reads.front()]);
        return;
      case StepKind::kScale:
        return make(step, read(step).mul_(layer_.spec.added_scale));
      case StepKind::kAdd:
        return make(step, add_to_stream(read(step, 0), read(step, 1)));
      case StepKind::kScaleStream:
        return make(step, read(step).mul_(weights.scalar));
    }
  }

  // ---- values.

  const at::Tensor& tensor(size_t value) const {
    return values_[value].input ? values_[value].input->tensor() : values_[value].tensor;
  }
  const at::Tensor& read(const Step& step, size_t index = 0) const { return tensor(step.reads[index]); }
  void make(const Step& step, at::Tensor made) { values_[step.makes.front()].tensor = std::move(made); }
  void make(const Step& step, ops::LinearInput made) { values_[step.makes.front()].input = std::move(made); }
  const ops::LinearInput& linear_input(size_t value) {
    Held& held = values_[value];
    if (!held.input) held.input = plain_input(held.tensor, context_);
    return *held.input;
  }
  // What a projection reads: those of its branch that read the same share it.
  const ops::LinearInput& input_of(const Step& step) {
    const ops::LinearInput& input = linear_input(step.reads.front());
    if (step.sharing.size() < 2) return input;
    if (!shared_) {
      std::vector<const ops::Linear*> linears;
      linears.reserve(step.sharing.size());
      for (const size_t reader : step.sharing) linears.push_back(&layer_.weights[reader].linear);
      shared_ = ops::shared(input, linears, compute_, context_.training);
    }
    return *shared_;
  }
  at::Tensor heads_of(const at::Tensor& x, int64_t number) const {
    return x.dim() == 4 ? x : x.view({context_.rows, x.size(0) / context_.rows, number, -1});
  }
  const arch::Attention& attention() const { return layer_.spec.attention(); }
  footprint::AttentionKernel kernel() const { return context_.kernels->at(attention().head_dim); }

  // ---- steps.

  // The norm of the stream for the layers that read it, which have it computed again: the norm keeps the stream anyway.
  // The stream becomes what the branch is added to.
  ops::LinearInput normed_input(at::Tensor& stream_TD, const ops::NormWeights& weights) const {
    const auto again = [settings = context_.norm, dtype = compute_.dtype(), rounds = context_.rounds_inputs,
                        x_TD = stream_TD.detach(),
                        its = ops::NormWeights{detached(weights.weight_D), detached(weights.bias_D)}] {
      return as_input(ops::norm(x_TD, its, settings, dtype), rounds);
    };
    ops::NormedStream both = ops::norm_of_stream(stream_TD, weights, context_.norm, compute_.dtype());
    stream_TD = std::move(both.stream_TD);
    return {as_input(both.normed_TD, context_.rounds_inputs), again};
  }
  // What is added to the stream becomes the sum in place, which a view would have to copy.
  at::Tensor normed(const Step& step, const ops::NormWeights& weights) const {
    const at::Tensor& x = read(step);
    const int64_t width = program_.values[step.makes.front()].width / step.groups;
    ops::NormSettings settings = context_.norm;
    settings.eps = step.eps.value_or(settings.eps);
    if (x.dim() == 2 && x.size(1) == width) return ops::norm(x, weights, settings, x.scalar_type());
    const at::Tensor rows = x.view({-1, width});
    return ops::norm(rows, weights, settings, x.scalar_type()).view(x.sizes());
  }
  void split(const Step& step) {
    std::vector<at::Tensor> made = ops::split_columns(read(step), step.groups, step.parts);
    for (size_t i = 0; i < made.size(); ++i) values_[step.makes[i]].tensor = std::move(made[i]);
  }

  // How self-attention weighs its pairs where it makes their scores.
  ops::Scores scores() const {
    ops::Scores scores{inputs_.by_distance_HN, context_.hidden_BS};
    if (!inputs_.by_distance_HN.defined()) {
      scores.by_distance_HN = attention().window > 0 ? context_.causal_in_window_HN : context_.causal_HN;
    }
    if (attention().scaled) scores.scale = 1 / std::sqrt(static_cast<double>(attention().head_dim));
    scores.softcap = attention().softcap;
    return scores;
  }
  // [T, H * E]
  at::Tensor attend(const at::Tensor& q_BSHE, const at::Tensor& k_BSKE, const at::Tensor& v_BSKE,
                    const at::Tensor& sinks_H) const {
    const int64_t length = q_BSHE.size(1);
    const auto by_scores = [&](const at::Tensor& keys_BSKE, const at::Tensor& values_BSKE) {
      return ops::biased_attention(q_BSHE, keys_BSKE, values_BSKE, scores(), context_.dropout);
    };
    at::Tensor attended_BSD;
    if (state_ != nullptr) {
      const auto with_new = [&](const at::Tensor& all_BKCE, const at::Tensor& new_BSKE) {
        all_BKCE.narrow(2, context_.seen, length).copy_(new_BSKE.transpose(1, 2));
        return all_BKCE.narrow(2, 0, context_.seen + length);
      };
      const at::Tensor keys_BKSE = with_new(state_->kept[0], k_BSKE), values_BKSE = with_new(state_->kept[1], v_BSKE);
      attended_BSD = context_.by_scores
                         ? by_scores(keys_BKSE.transpose(1, 2), values_BKSE.transpose(1, 2))
                         : ops::cached_attention(q_BSHE, keys_BKSE, values_BKSE, kernel(), attention().window, sinks_H);
    } else if (context_.by_scores) {
      attended_BSD = by_scores(k_BSKE, v_BSKE);
    } else {
      attended_BSD = ops::causal_attention(q_BSHE, k_BSKE, v_BSKE, kernel(), context_.documents.get(),
                                           attention().window, sinks_H);
    }
    return attended_BSD.view({context_.rows * length, attention().queries()});
  }
  // The same with the keys and values of a source, or those that the state has of it.
  at::Tensor attend_to_source(const Step& step) {
    const at::Tensor q_BTHE = heads_of(read(step, 0), attention().heads);
    at::Tensor k_BSKE, v_BSKE;
    if (inputs_.source_TD.defined()) {
      k_BSKE = heads_of(read(step, 1), attention().key_value_heads);
      v_BSKE = heads_of(read(step, 2), attention().key_value_heads);
      if (state_ != nullptr) state_->source_keys_BSKE = k_BSKE, state_->source_values_BSKE = v_BSKE;
    } else {
      k_BSKE = state_->source_keys_BSKE, v_BSKE = state_->source_values_BSKE;
    }
    return ops::biased_attention(q_BTHE, k_BSKE, v_BSKE, {{}, context_.source_hidden_BS}, context_.dropout)
        .view({context_.rows * q_BTHE.size(1), attention().queries()});
  }

  // What the states of a gated delta rule answer.
  at::Tensor answers(const Step& step, const ops::DeltaWeights& weights) const {
    const auto& delta = std::get<arch::GatedDelta>(layer_.spec.mixer);
    const at::Tensor &mixed_TD = read(step, 0), &strengths_TH = read(step, 1), &decays_TH = read(step, 2);
    if (state_ != nullptr) {
      return ops::gated_delta_after(delta, mixed_TD, strengths_TH, decays_TH, weights, state_->kept,
                                    context_.seen == 0);
    }
    return ops::gated_delta(delta, mixed_TD, strengths_TH, decays_TH, weights, mixed_TD.size(0) / context_.rows,
                            context_.documents.get());
  }

  // What is normalised and gated, with how to make it again from what is kept.
  void gate_norm(const Step& step, const at::Tensor& weight_D) {
    const bool rounds = context_.rounds_inputs;
    const auto made = [eps = context_.norm.eps](const at::Tensor& x, const at::Tensor& gate, const at::Tensor& weight) {
      return ops::gated_norm(x, gate, weight, eps);
    };
    make(step, ops::LinearInput(as_input(made(read(step, 0), read(step, 1), weight_D), rounds),
                                [made, rounds, x = detached(read(step, 0)), gate = detached(read(step, 1)),
                                 weight = detached(weight_D)] { return as_input(made(x, gate, weight), rounds); }));
  }

  // What a convolution makes of its parts, likewise with how to make it again.
  void convolve(const Step& step, const at::Tensor& taps_DJ) {
    const at::Tensor parts_TD = read(step);
    if (state_ != nullptr) {
      return make(step, ops::convolved_after(parts_TD, taps_DJ, state_->kept.front(), context_.seen == 0));
    }
    const bool rounds = context_.rounds_inputs;
    const auto made = [length = parts_TD.size(0) / context_.rows, documents = context_.documents](
                          const at::Tensor& parts, const at::Tensor& taps) {
      return ops::gated_convolution(parts, taps, length, documents.get());
    };
    make(step, ops::LinearInput(as_input(made(parts_TD, taps_DJ), rounds),
                                [made, rounds, parts = detached(parts_TD), taps = detached(taps_DJ)] {
                                  return as_input(made(parts, taps), rounds);
                                }));
  }

  // What is activated, with how to make it again from what is kept.
  void activate(const Step& step) {
    const Activation activation = step.activation;
    const at::Tensor up_TF = read(step, step.reads.size() - 1);
    const at::Tensor gate_TF = step.reads.size() > 1 ? read(step) : at::Tensor();
    const bool rounds = context_.rounds_inputs, drops = context_.inner_dropout > 0;
    if (gate_TF.defined() && !rounds && !drops) return make(step, ops::gated_input(activation, gate_TF, up_TF));
    const auto made = [activation](const at::Tensor& gate, const at::Tensor& up) {
      return gate.defined() ? ops::gated(activation, gate, up) : ops::activated(activation, up);
    };
    if (drops) return make(step, as_input(made(gate_TF, up_TF), rounds));
    make(step, ops::LinearInput(as_input(made(gate_TF, up_TF), rounds),
                                [made, rounds, gate = detached(gate_TF), up = detached(up_TF)] {
                                  return as_input(made(gate, up), rounds);
                                }));
  }

  const DecoderLayer& layer_;
  const LayerProgram& program_;
  const LayerInputs& inputs_;
  const LayerContext& context_;
  LayerState* state_;
  const ops::ComputeScope compute_;
  std::vector<Held> values_;
  std::optional<ops::LinearInput> shared_;
};

}  // namespace

at::Tensor run_layer(const DecoderLayer& layer, const LayerInputs& inputs, const LayerContext& context,
                     LayerState* state) {
  return Pass(layer, inputs, context, state).run();
}

}  // namespace fathom::model
