// The formulas and their names are those of key_head.cpp. Chunks divide a row of the batch, whichever documents are in
// it: what a document must not see of another has decayed to nothing.
#include "ops/delta/delta_operators.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

namespace fathom::ops {
namespace {

constexpr double kLeastSquare = 1e-6;

// What is computed of a batch before its states. Letters of shapes: N chunks, Y value heads of all rows (B * H), I the
// tokens of a chunk, E key_dim and D value_dim.
class Chunks {
 public:
  Chunks(const arch::GatedDelta& delta, const DeltaInputs& inputs, const DeltaTexts& texts)
      : delta_(delta),
        rows_(texts.positions_T.defined() ? 1 : std::ssize(texts.lengths)),
        length_(inputs.mixed_TD.size(0) / rows_),
        count_(divide_up(length_, kDeltaChunk)),
        type_(inputs.mixed_TD.scalar_type() == at::kDouble ? at::kDouble : at::kFloat) {
    const int64_t keys = delta.keys();
    const double scale = std::pow(static_cast<double>(delta.key_dim), -0.5);
    std::tie(unit_queries, query_norms) = unit(of_heads(inputs.mixed_TD.narrow(1, 0, keys), delta.key_heads));
    std::tie(unit_keys, key_norms) = unit(of_heads(inputs.mixed_TD.narrow(1, keys, keys), delta.key_heads));
    queries_NYIE = for_values(unit_queries * scale), keys_NYIE = for_values(unit_keys);
    values_NYID = of_heads(inputs.mixed_TD.narrow(1, 2 * keys, delta.values()), delta.value_heads);
    strengths_NYI1 = padded(inputs.strengths_TH.to(type_).sigmoid().unsqueeze(-1));
    inner_TH = inputs.decays_TH.to(type_) + inputs.biases_H.to(type_);
    rates_H = inputs.rates_H.to(type_).exp();
    logs_NYI1 = padded((at::softplus(inner_TH) * -rates_H).unsqueeze(-1));
    const at::Tensor totals_NYI1 = logs_NYI1.cumsum(2), last_NY11 = totals_NYI1.narrow(2, kDeltaChunk - 1, 1);
    decays_NYII = totals_NYI1 - totals_NYI1.transpose(2, 3);
    from_start_NYI1 = totals_NYI1.exp(), to_end_NYI1 = (last_NY11 - totals_NYI1).exp(), through_NY11 = last_NY11.exp();
    hide(texts);
    decays_NYII.exp_();
    lower_NYII = keys_NYIE.matmul(keys_NYIE.transpose(2, 3)).mul_(decays_NYII).mul_(strengths_NYI1).tril_(-1);
    scores_NYII = queries_NYIE.matmul(keys_NYIE.transpose(2, 3)).mul_(decays_NYII);
    inverse_NYII = inverse_of_unit_lower(lower_NYII);
    written_NYID = inverse_NYII.matmul(values_NYID * strengths_NYI1);
    reading_NYIE = inverse_NYII.matmul(keys_NYIE * (strengths_NYI1 * from_start_NYI1));
    leaving_NYIE = keys_NYIE * to_end_NYI1;
  }

  int64_t count() const { return count_; }
  at::ScalarType type() const { return type_; }
  std::vector<int64_t> state_sizes() const { return {rows_ * delta_.value_heads, delta_.key_dim, delta_.value_dim}; }

  // [T, heads * e] as chunks, and back, row after row; rows that fill the last chunk are zero.
  at::Tensor of_heads(const at::Tensor& x_TD, int64_t heads) const {
    return padded(x_TD.to(type_).unflatten(1, {heads, -1}));
  }
  at::Tensor to_rows(const at::Tensor& x_NYIE) const {
    const int64_t heads = x_NYIE.size(1) / rows_;
    const at::Tensor x = x_NYIE.unflatten(1, {rows_, heads}).permute({1, 0, 3, 2, 4}).flatten(1, 2);
    return x.narrow(1, 0, length_).reshape({rows_ * length_, heads * x_NYIE.size(3)}).contiguous();
  }
  // Those of the value heads that share a key head.
  at::Tensor sum_of_group(const at::Tensor& x_NYIE) const {
    return x_NYIE.unflatten(1, {x_NYIE.size(1) * delta_.key_heads / delta_.value_heads, -1}).sum(2);
  }

  // States before each chunk and behind the last; written_NYID becomes corrected by them.
  at::Tensor run(const at::Tensor& first) {
    std::vector<int64_t> sizes = state_sizes();
    sizes.insert(sizes.begin(), count_ + 1);
    at::Tensor states_NYED = at::empty(sizes, values_NYID.options());
    first.defined() ? states_NYED.select(0, 0).copy_(first.view(state_sizes())) : states_NYED.select(0, 0).zero_();
    for (int64_t chunk = 0; chunk < count_; ++chunk) {
      const at::Tensor before = states_NYED.select(0, chunk);
      at::Tensor after = states_NYED.select(0, chunk + 1), written = written_NYID.select(0, chunk);
      written.baddbmm_(reading_NYIE.select(0, chunk), before, 1, -1);
      at::mul_out(after, before, through_NY11.select(0, chunk));
      after.baddbmm_(leaving_NYIE.select(0, chunk).transpose(1, 2), written);
    }
    return states_NYED;
  }

  at::Tensor unit_queries, query_norms, unit_keys, key_norms;  // of key heads
  at::Tensor queries_NYIE, keys_NYIE, values_NYID, strengths_NYI1, logs_NYI1, inner_TH, rates_H;
  at::Tensor decays_NYII, from_start_NYI1, to_end_NYI1, through_NY11;
  at::Tensor lower_NYII, scores_NYII, inverse_NYII, written_NYID, reading_NYIE, leaving_NYIE;

 private:
  at::Tensor padded(const at::Tensor& x_THE) const {
    const at::Tensor x =
        at::constant_pad_nd(x_THE.unflatten(0, {rows_, length_}), {0, 0, 0, 0, 0, count_ * kDeltaChunk - length_});
    return x.unflatten(1, {count_, kDeltaChunk})
        .permute({1, 0, 3, 2, 4})
        .reshape({count_, rows_ * x.size(2), kDeltaChunk, x.size(3)});
  }
  // Each with numbers of its own, unless there are as many key heads.
  at::Tensor for_values(const at::Tensor& x_NYIE) const {
    const int64_t group = delta_.value_heads / delta_.key_heads;
    return x_NYIE.unsqueeze(2).expand({-1, -1, group, -1, -1}).flatten(1, 2).contiguous();
  }
  static std::pair<at::Tensor, at::Tensor> unit(const at::Tensor& x_NYIE) {
    at::Tensor norms = (x_NYIE * x_NYIE).sum(at::IntArrayRef{-1}, true).add_(kLeastSquare).rsqrt_();
    return {x_NYIE * norms, norms};
  }
  // Sums of decays' logarithms become those of what is seen alone: of tokens before in the same document.
  void hide(const DeltaTexts& texts) {
    constexpr double kNothing = -std::numeric_limits<double>::infinity();
    const auto options = decays_NYII.options().dtype(at::kBool);
    const at::Tensor future_II = at::ones({kDeltaChunk, kDeltaChunk}, options).triu_(1);
    decays_NYII.masked_fill_(future_II, kNothing);
    if (!texts.positions_T.defined()) return;
    const at::Tensor document_T = texts.positions_T.eq(0).cumsum(0);
    const at::Tensor document_N1I1 =
        at::constant_pad_nd(document_T, {0, count_ * kDeltaChunk - length_}).view({count_, 1, kDeltaChunk, 1});
    const at::Tensor last_N111 = document_N1I1.narrow(2, kDeltaChunk - 1, 1);
    const at::Tensor before_N111 = at::constant_pad_nd(last_N111.narrow(0, 0, count_ - 1), {0, 0, 0, 0, 0, 0, 1, 0});
    decays_NYII.masked_fill_(document_N1I1.ne(document_N1I1.transpose(2, 3)), kNothing);
    from_start_NYI1.masked_fill_(document_N1I1.ne(before_N111), 0);
    to_end_NYI1.masked_fill_(document_N1I1.ne(last_N111), 0);
    through_NY11 = through_NY11.masked_fill(before_N111.ne(last_N111), 0);
  }
  // (I + lower)^-1, blocks on the diagonal first: that of [[P, 0], [L, Q]] has -Q^-1 L P^-1 below them.
  static at::Tensor inverse_of_unit_lower(const at::Tensor& lower_NYII) {
    at::Tensor inverse_NYII = at::eye(kDeltaChunk, lower_NYII.options()).expand_as(lower_NYII).contiguous();
    for (int64_t side = 1; side < kDeltaChunk; side *= 2) {
      const auto blocks = [&](const at::Tensor& x, int64_t row, int64_t column) {
        const at::Tensor pairs = x.flatten(0, 1).unflatten(2, {-1, 2 * side}).unflatten(1, {-1, 2 * side});
        return pairs.diagonal(0, 1, 3).permute({0, 3, 1, 2}).narrow(2, row, side).narrow(3, column, side);
      };
      const at::Tensor below = blocks(inverse_NYII, side, side).matmul(blocks(lower_NYII, side, 0));
      blocks(inverse_NYII, side, 0).copy_(below.matmul(blocks(inverse_NYII, 0, 0)).neg_());
    }
    return inverse_NYII;
  }

  const arch::GatedDelta& delta_;
  int64_t rows_, length_, count_;
  at::ScalarType type_;
};

// Sums of what comes behind in the chunk, itself included.
at::Tensor sums_behind(const at::Tensor& x_NYI1) {
  return at::ones({kDeltaChunk, kDeltaChunk}, x_NYI1.options()).triu_().matmul(x_NYI1);
}
at::Tensor along_row(const at::Tensor& a, const at::Tensor& b) { return (a * b).sum(at::IntArrayRef{-1}, true); }

}  // namespace

at::Tensor delta_by_operators(const arch::GatedDelta& delta, const DeltaInputs& inputs, const DeltaTexts& texts,
                              const at::Tensor& states) {
  Chunks chunks(delta, inputs, texts);
  const at::Tensor all_NYED = chunks.run(states);
  if (states.defined()) states.copy_(all_NYED.select(0, chunks.count()).view(states.sizes()));
  const at::Tensor before_NYED = all_NYED.narrow(0, 0, chunks.count());
  const at::Tensor read_NYID = chunks.queries_NYIE.mul_(chunks.from_start_NYI1).matmul(before_NYED);
  return chunks.to_rows(read_NYID.add_(chunks.scores_NYII.matmul(chunks.written_NYID)))
      .to(inputs.mixed_TD.scalar_type());
}

at::Tensor delta_step_by_operators(const arch::GatedDelta& delta, const DeltaInputs& inputs, const at::Tensor& states) {
  const at::ScalarType type = states.scalar_type();
  const int64_t batch = states.size(0), keys = delta.keys();
  const auto of_heads = [&](int64_t first, int64_t heads, int64_t size) {
    const at::Tensor x = inputs.mixed_TD.narrow(1, first, heads * size).to(type).view({batch, heads, 1, 1, size});
    return x.expand({-1, -1, delta.value_heads / heads, -1, -1}).reshape({batch * delta.value_heads, 1, size});
  };
  const auto unit = [](const at::Tensor& x) {
    return x * (x * x).sum(at::IntArrayRef{-1}, true).add_(kLeastSquare).rsqrt_();
  };
  const at::Tensor queries_Y1E =
      unit(of_heads(0, delta.key_heads, delta.key_dim)).mul_(std::pow(static_cast<double>(delta.key_dim), -0.5));
  const at::Tensor keys_Y1E = unit(of_heads(keys, delta.key_heads, delta.key_dim));
  const at::Tensor values_Y1D = of_heads(2 * keys, delta.value_heads, delta.value_dim);
  const at::Tensor inner_TH = inputs.decays_TH.to(type) + inputs.biases_H;
  const at::Tensor decays = at::softplus(inner_TH).mul_(inputs.rates_H.exp()).neg_().exp_();
  at::Tensor states_YED = states.view({batch * delta.value_heads, delta.key_dim, delta.value_dim});
  states_YED.mul_(decays.view({-1, 1, 1}));
  const at::Tensor written = at::baddbmm(values_Y1D, keys_Y1E, states_YED, 1, -1)
                                 .mul_(inputs.strengths_TH.to(type).sigmoid().view({-1, 1, 1}));
  states_YED.baddbmm_(keys_Y1E.transpose(1, 2), written);
  return queries_Y1E.bmm(states_YED).view({batch, delta.values()}).to(inputs.mixed_TD.scalar_type());
}

struct OfStates {
  at::Tensor written_NYID, after_NYED;  // gradients of what is written, and of the states behind each chunk
};

// From the last chunk to the first.
static OfStates gradients_of_states(const Chunks& chunks, const at::Tensor& of_answers_NYID) {
  at::Tensor of_written_NYID = chunks.scores_NYII.transpose(2, 3).matmul(of_answers_NYID);
  const at::Tensor of_states_NYED =
      (chunks.queries_NYIE * chunks.from_start_NYI1).transpose(2, 3).matmul(of_answers_NYID);
  const at::Tensor of_after_NYED = at::empty_like(of_states_NYED);
  for (int64_t chunk = chunks.count() - 1; chunk >= 0; --chunk) {
    at::Tensor after = of_after_NYED.select(0, chunk), written = of_written_NYID.select(0, chunk);
    if (chunk + 1 == chunks.count()) {
      after.zero_();
    } else {
      at::Tensor before = of_states_NYED.select(0, chunk + 1);
      before.baddbmm_(chunks.reading_NYIE.select(0, chunk + 1).transpose(1, 2), of_written_NYID.select(0, chunk + 1), 1,
                      -1);
      at::add_out(after, before, of_after_NYED.select(0, chunk + 1) * chunks.through_NY11.select(0, chunk + 1));
    }
    written.baddbmm_(chunks.leaving_NYIE.select(0, chunk), after);
  }
  return {of_written_NYID, of_after_NYED};
}

DeltaGradients delta_by_operators_backward(const arch::GatedDelta& delta, const DeltaInputs& inputs,
                                           const DeltaTexts& texts, const at::Tensor& grad_TD) {
  Chunks chunks(delta, inputs, texts);
  const at::Tensor states_NYED = chunks.run({});
  const at::Tensor before_NYED = states_NYED.narrow(0, 0, chunks.count());
  const at::Tensor after_NYED = states_NYED.narrow(0, 1, chunks.count());
  const at::Tensor &keys_NYIE = chunks.keys_NYIE, &queries_NYIE = chunks.queries_NYIE;
  const at::Tensor of_answers_NYID = chunks.of_heads(grad_TD, delta.value_heads);
  auto [of_written_NYID, of_after_NYED] = gradients_of_states(chunks, of_answers_NYID);
  const at::Tensor of_sums_NYID = chunks.inverse_NYII.transpose(2, 3).matmul(of_written_NYID);
  of_written_NYID.reset();
  at::Tensor of_scores_NYII = of_answers_NYID.matmul(chunks.written_NYID.transpose(2, 3));
  at::Tensor of_lower_NYII = of_sums_NYID.matmul(chunks.written_NYID.transpose(2, 3)).neg_();
  at::Tensor pairs_NYII = of_lower_NYII * chunks.lower_NYII;
  at::Tensor by_reading_NYI1 = pairs_NYII.sum(at::IntArrayRef{-1}, true);
  pairs_NYII.add_((of_scores_NYII * chunks.scores_NYII).tril_(-1));
  at::Tensor of_totals_NYI1 =
      pairs_NYII.sum(at::IntArrayRef{-1}, true).sub_(pairs_NYII.sum(at::IntArrayRef{-2}, true).transpose(2, 3));
  pairs_NYII.reset();
  of_scores_NYII.mul_(chunks.decays_NYII);
  of_lower_NYII.mul_(chunks.decays_NYII).mul_(chunks.strengths_NYI1).tril_(-1);
  const at::Tensor of_values_NYID = of_sums_NYID * chunks.strengths_NYI1;
  at::Tensor of_queries_NYIE = of_answers_NYID.matmul(before_NYED.transpose(2, 3)).mul_(chunks.from_start_NYI1);
  at::Tensor reading_NYIE = of_values_NYID.matmul(before_NYED.transpose(2, 3)).mul_(chunks.from_start_NYI1).neg_();
  at::Tensor writing_NYIE = chunks.written_NYID.matmul(of_after_NYED.transpose(2, 3)).mul_(chunks.to_end_NYI1);
  const at::Tensor along_keys_NYI1 = along_row(keys_NYIE, reading_NYIE);
  by_reading_NYI1.add_(along_keys_NYI1);
  of_totals_NYI1.add_(along_keys_NYI1)
      .add_(along_row(queries_NYIE, of_queries_NYIE))
      .sub_(along_row(keys_NYIE, writing_NYIE));
  of_queries_NYIE.add_(of_scores_NYII.matmul(keys_NYIE));
  reading_NYIE.add_(of_lower_NYII.matmul(keys_NYIE));
  writing_NYIE.add_(of_scores_NYII.transpose(2, 3).matmul(queries_NYIE));
  writing_NYIE.add_(of_lower_NYII.transpose(2, 3).matmul(keys_NYIE));

  const at::Tensor of_strengths_NYI1 =
      along_row(chunks.values_NYID, of_values_NYID).add_(by_reading_NYI1).mul_(1 - chunks.strengths_NYI1);
  of_totals_NYI1.select(2, kDeltaChunk - 1)
      .add_((after_NYED * of_after_NYED).sum(at::IntArrayRef{-2, -1}).unsqueeze(-1));
  const at::Tensor of_logs_NYI1 = sums_behind(of_totals_NYI1);
  const at::Tensor of_inner_TH = chunks.to_rows(of_logs_NYI1) * chunks.inner_TH.sigmoid().mul_(-chunks.rates_H);

  const auto of_unit = [&](const at::Tensor& grad_NYIE, const at::Tensor& unit, const at::Tensor& norms) {
    const at::Tensor sum = chunks.sum_of_group(grad_NYIE);
    return chunks.to_rows((sum - unit * along_row(unit, sum)).mul_(norms));
  };
  of_queries_NYIE.mul_(std::pow(static_cast<double>(delta.key_dim), -0.5));
  const at::Tensor of_mixed_TD = at::cat(
      {of_unit(of_queries_NYIE, chunks.unit_queries, chunks.query_norms),
       of_unit(reading_NYIE.add_(writing_NYIE), chunks.unit_keys, chunks.key_norms), chunks.to_rows(of_values_NYID)},
      1);
  return {of_mixed_TD.to(inputs.mixed_TD.scalar_type()),
          chunks.to_rows(of_strengths_NYI1).to(inputs.strengths_TH.scalar_type()),
          of_inner_TH.to(inputs.decays_TH.scalar_type()), chunks.to_rows(of_logs_NYI1 * chunks.logs_NYI1).sum(0),
          of_inner_TH.sum(0)};
}

}  // namespace fathom::ops
