// The chunked form of the gated delta rule (Yang et al. 2024, arXiv 2412.06464, section 3.3) and its gradients.
//
// Of a chunk of n tokens, with S the state before it, c the sums of the logarithms of decays within it, b the
// strengths, Q, K and V its rows, and D[i, j] = e^(c_i - c_j) for j <= i, else 0:
//   A = the part below the diagonal of b K K^T * D        V' = (I + A)^-1 b (V - e^c K S)
//   O = e^c Q S + (Q K^T * D) V'                          S' = e^(c_n) S + (e^(c_n - c) K)^T V'
// V' is what tokens write: their values, corrected by what the state and the tokens before hold for their keys.
//
// A token's key is there twice, as it reads (with e^c) and as it writes (with e^-c), and so is its gradient. What c_i
// scales gives its gradient: q_i . dq_i + k_i . dk_i (reading) - k_i . dk_i (writing), and of c_n that and S' . dS';
// likewise b_i db_i = v_i . dv_i + k_i . dk_i (reading). What pairs of tokens of the chunk add to these is summed pair
// by pair, so that the same numbers are added and taken away.
#include "ops/delta/key_head.h"

#include <algorithm>
#include <cmath>

#include "cpu/delta_rows.h"
#include "cpu/row_blocks.h"
#include "ops/small_product.h"

namespace fathom::ops {
namespace {

float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }
float softplus(float x) { return x > 20 ? x : std::log1p(std::exp(x)); }

void load(cpu::Rows rows, int64_t place, int64_t width, float* to) {
  const float* from = cpu::read(rows, place, width, to);
  if (from != to) std::copy_n(from, width, to);
}
float load(cpu::Rows rows, int64_t place) {
  float value = 0;
  load(rows, place, 1, &value);
  return value;
}
void store(const float* from, cpu::Rows rows, int64_t place, int64_t width, float* buffer) {
  float* to = cpu::target(rows, place, buffer);
  if (from != to) std::copy_n(from, width, to);
  cpu::write(to, rows, place, width);
}
void store(float value, cpu::Rows rows, int64_t place) { store(&value, rows, place, 1, &value); }

}  // namespace

KeyHead::KeyHead(const arch::GatedDelta& delta, const HeadRows& rows, int64_t head)
    : its_(delta),
      rows_(rows),
      head_(head),
      group_(delta.value_heads / delta.key_heads),
      scale_(1 / std::sqrt(static_cast<float>(delta.key_dim))) {
  const auto of_keys = static_cast<size_t>(kDeltaChunk * delta.key_dim),
             of_values = static_cast<size_t>(kDeltaChunk * delta.value_dim),
             of_pairs = static_cast<size_t>(kDeltaChunk * kDeltaChunk);
  for (Numbers* each : {&queries_, &keys_}) each->resize(of_keys);
  for (Numbers* each : {&among_keys_, &scores_, &pair_decays_, &lower_, &decayed_scores_}) each->resize(of_pairs);
  for (Numbers* each : {&values_, &written_}) each->resize(of_values);
  buffer_.resize(std::max(of_keys, of_values));
}

int64_t KeyHead::query_place(int64_t i) const {
  return (first_ + i) * (2 * its_.keys() + its_.values()) + head_ * its_.key_dim;
}
int64_t KeyHead::value_place(int64_t i) const {
  return (first_ + i) * (2 * its_.keys() + its_.values()) + 2 * its_.keys() + value_head(member_) * its_.value_dim;
}

void KeyHead::load_chunk(int64_t first, int64_t count) {
  first_ = first, n_ = count;
  const int64_t width = its_.key_dim;
  for (int64_t i = 0; i < n_; ++i) {
    const auto load_unit = [&](int64_t place, float scale, Numbers& to) {
      return cpu::unit_row(cpu::read(rows_.mixed, place, width, buffer_.data()), width, scale, to.data() + i * width);
    };
    query_norms_[i] = load_unit(query_place(i), scale_, queries_);
    key_norms_[i] = load_unit(key_place(i), 1, keys_);
  }
  multiply_into(among_keys_.data(), n_, n_, width, {keys_.data()}, {keys_.data(), true});
  multiply_into(scores_.data(), n_, n_, width, {queries_.data()}, {keys_.data(), true});
}

void KeyHead::load_value_head(int64_t member, const float* state) {
  member_ = member;
  const int64_t head = value_head(member), width = its_.value_dim;
  float total = 0;
  for (int64_t i = 0; i < n_; ++i) {
    strengths_[i] = sigmoid(load(rows_.strengths, gate_place(i)));
    inner_[i] = load(rows_.decays, gate_place(i)) + rows_.biases[head];
    logs_[i] = -std::exp(rows_.rates[head]) * softplus(inner_[i]);
    totals_[i] = total += logs_[i];
    load(rows_.mixed, value_place(i), width, values_.data() + i * width);
  }
  for (int64_t i = 0; i < n_; ++i) {
    from_start_[i] = std::exp(totals_[i]);
    to_end_[i] = std::exp(total - totals_[i]);
    minus_read_[i] = -strengths_[i] * from_start_[i];
  }
  cpu::pair_decays(totals_.data(), n_, pair_decays_.data());
  cpu::multiply(among_keys_.data(), pair_decays_.data(), lower_.data(), n_ * n_);
  cpu::scale_rows(strengths_.data(), lower_.data(), lower_.data(), n_, n_);
  multiply_into(buffer_.data(), n_, width, its_.key_dim, {keys_.data()}, {state});
  cpu::scale_rows(strengths_.data(), values_.data(), written_.data(), n_, width);
  cpu::add_scaled_rows(minus_read_.data(), buffer_.data(), written_.data(), n_, width);
  cpu::solve_lower(lower_.data(), n_, written_.data(), width);
}

void KeyHead::answer(const float* state, cpu::Rows out) {
  const int64_t width = its_.value_dim;
  cpu::multiply(scores_.data(), pair_decays_.data(), decayed_scores_.data(), n_ * n_);
  multiply_into(values_.data(), n_, width, its_.key_dim, {queries_.data()}, {state});
  cpu::scale_rows(from_start_.data(), values_.data(), values_.data(), n_, width);
  multiply_into(values_.data(), n_, width, n_, {decayed_scores_.data()}, {written_.data()}, /*keep=*/1);
  for (int64_t i = 0; i < n_; ++i) store(values_.data() + i * width, out, answer_place(i), width, buffer_.data());
}

void KeyHead::move_on(float* state) {
  cpu::scale_rows(to_end_.data(), written_.data(), buffer_.data(), n_, its_.value_dim);
  multiply_into(state, its_.key_dim, its_.value_dim, n_, {keys_.data(), true}, {buffer_.data()},
                /*keep=*/from_start_[n_ - 1]);
}

void KeyHead::begin_gradients() {
  grad_queries_.assign(queries_.size(), 0);
  grad_keys_.assign(keys_.size(), 0);
  for (Numbers* each : {&of_queries_, &reading_, &writing_}) each->resize(queries_.size());
  for (Numbers* each : {&of_answers_, &of_written_}) each->resize(values_.size());
  for (Numbers* each : {&of_scores_, &of_lower_}) each->resize(among_keys_.size());
}

void KeyHead::take_back(const float* state, const float* after, float* of_after, const DeltaGradientRows& to) {
  make_gradients_of_written(of_after, to.of_answers);
  make_gradients_of_pairs();
  make_gradients_of_keys(state, of_after);
  write_gradients(after, of_after, to);
  const int64_t keys = its_.key_dim, width = its_.value_dim;
  cpu::scale_rows(from_start_.data(), of_answers_.data(), buffer_.data(), n_, width);
  multiply_into(of_after, keys, width, n_, {queries_.data(), true}, {buffer_.data()}, /*keep=*/from_start_[n_ - 1]);
  cpu::scale_rows(minus_read_.data(), of_written_.data(), buffer_.data(), n_, width);
  multiply_into(of_after, keys, width, n_, {keys_.data(), true}, {buffer_.data()}, /*keep=*/1);
}

// Of (I + A) V'.
void KeyHead::make_gradients_of_written(const float* of_after, cpu::Rows of_answers) {
  const int64_t width = its_.value_dim;
  for (int64_t i = 0; i < n_; ++i) load(of_answers, answer_place(i), width, of_answers_.data() + i * width);
  cpu::multiply(scores_.data(), pair_decays_.data(), decayed_scores_.data(), n_ * n_);
  multiply_into(of_written_.data(), n_, width, its_.key_dim, {keys_.data()}, {of_after});
  cpu::scale_rows(to_end_.data(), of_written_.data(), of_written_.data(), n_, width);
  multiply_into(of_written_.data(), n_, width, n_, {decayed_scores_.data(), true}, {of_answers_.data()}, /*keep=*/1);
  cpu::solve_lower_transposed(lower_.data(), n_, of_written_.data(), width);
}

// Of Q K^T and K K^T.
void KeyHead::make_gradients_of_pairs() {
  const int64_t width = its_.value_dim;
  multiply_into(of_scores_.data(), n_, n_, width, {of_answers_.data()}, {written_.data(), true});
  cpu::multiply(of_scores_.data(), pair_decays_.data(), of_scores_.data(), n_ * n_);
  multiply_into(of_lower_.data(), n_, n_, width, {of_written_.data()}, {written_.data(), true});
  cpu::multiply(of_lower_.data(), pair_decays_.data(), of_lower_.data(), n_ * n_);
  for (int64_t i = 0; i < n_; ++i) {
    of_lower_[i * n_ + i] = 0;
    buffer_[i] = -strengths_[i];
  }
  cpu::scale_rows(buffer_.data(), of_lower_.data(), of_lower_.data(), n_, n_);
  OfTokens columns{};
  by_reading_.fill(0);
  cpu::add_pair_sums(of_lower_.data(), among_keys_.data(), n_, by_reading_.data(), columns.data());
  of_totals_ = by_reading_;
  cpu::add_pair_sums(of_scores_.data(), scores_.data(), n_, of_totals_.data(), columns.data());
  for (int64_t i = 0; i < n_; ++i) of_totals_[i] -= columns[i];
}

void KeyHead::make_gradients_of_keys(const float* state, const float* of_after) {
  const int64_t keys = its_.key_dim, width = its_.value_dim;
  const auto along = [&](const Numbers& rows, const Numbers& gradients, int64_t i) {
    return cpu::dot(rows.data() + i * keys, gradients.data() + i * keys, keys);
  };
  multiply_into(of_queries_.data(), n_, keys, width, {of_answers_.data()}, {state, true});
  cpu::scale_rows(from_start_.data(), of_queries_.data(), of_queries_.data(), n_, keys);
  multiply_into(reading_.data(), n_, keys, width, {of_written_.data()}, {state, true});
  cpu::scale_rows(minus_read_.data(), reading_.data(), reading_.data(), n_, keys);
  multiply_into(writing_.data(), n_, keys, width, {written_.data()}, {of_after, true});
  cpu::scale_rows(to_end_.data(), writing_.data(), writing_.data(), n_, keys);
  for (int64_t i = 0; i < n_; ++i) {
    const float by_reading = along(keys_, reading_, i);
    by_reading_[i] += by_reading;
    of_totals_[i] += along(queries_, of_queries_, i) + by_reading - along(keys_, writing_, i);
  }
  multiply_into(of_queries_.data(), n_, keys, n_, {of_scores_.data()}, {keys_.data()}, /*keep=*/1);
  multiply_into(reading_.data(), n_, keys, n_, {of_lower_.data()}, {keys_.data()}, /*keep=*/1);
  multiply_into(writing_.data(), n_, keys, n_, {of_scores_.data(), true}, {queries_.data()}, /*keep=*/1);
  multiply_into(writing_.data(), n_, keys, n_, {of_lower_.data(), true}, {keys_.data()}, /*keep=*/1);
  for (const auto& [part, sum] :
       {std::pair{&of_queries_, &grad_queries_}, {&reading_, &grad_keys_}, {&writing_, &grad_keys_}}) {
    cpu::accumulate(part->data(), sum->data(), n_ * keys);
  }
}

// Of values, strengths and decays.
void KeyHead::write_gradients(const float* after, const float* of_after, const DeltaGradientRows& to) {
  const int64_t head = value_head(member_), width = its_.value_dim;
  cpu::scale_rows(strengths_.data(), of_written_.data(), buffer_.data(), n_, width);
  float later = after != nullptr ? cpu::dot(after, of_after, state_size()) : 0;
  for (int64_t i = n_ - 1; i >= 0; --i) {
    const float* of_value = buffer_.data() + i * width;
    const float of_strength = cpu::dot(values_.data() + i * width, of_value, width) + by_reading_[i];
    store((1 - strengths_[i]) * of_strength, to.strengths, gate_place(i));
    later += of_totals_[i];
    const float of_inner = -later * std::exp(rows_.rates[head]) * sigmoid(inner_[i]);
    store(of_inner, to.decays, gate_place(i));
    to.biases[head] += of_inner;
    to.rates[head] += later * logs_[i];
  }
  Numbers rounded(static_cast<size_t>(width));
  for (int64_t i = 0; i < n_; ++i) {
    store(buffer_.data() + i * width, rows_.mixed, value_place(i), width, rounded.data());
  }
}

void KeyHead::end_gradients() {
  const int64_t width = its_.key_dim;
  for (int64_t i = 0; i < n_; ++i) {
    const auto put = [&](const Numbers& gradient, const Numbers& unit, float scale, float norm, int64_t place) {
      float* to = cpu::target(rows_.mixed, place, buffer_.data());
      cpu::unit_row_backward(gradient.data() + i * width, unit.data() + i * width, width, scale, norm, to);
      cpu::write(to, rows_.mixed, place, width);
    };
    put(grad_queries_, queries_, scale_, query_norms_[i], query_place(i));
    put(grad_keys_, keys_, 1, key_norms_[i], key_place(i));
  }
}

}  // namespace fathom::ops
