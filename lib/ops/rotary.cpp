// Rotary positions: tables made on the host, turned by a kernel, or by ATen's operators where there is none.
#include "ops/rotary.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <bit>
#include <cmath>
#include <utility>
#include <vector>

#include "arch/rotary_frequencies.h"
#include "ops/cuda_kernels.h"
#include "ops/rows.h"
#include "ops/traffic.h"

namespace fathom::ops {
namespace {

// What is turned, and how far: direction 1, or -1 to turn back.
struct Turning {
  Turn turn;
  bool interleaved = false;
  int direction = 1;
  int64_t half() const { return turn.cos_SE2.size(1); }
};

bool has_cuda_kernel(const at::Tensor& x_BSHE, const Turning& turning) {
  return !turning.interleaved && 2 * turning.half() == x_BSHE.size(3) && cuda_kernels_for(x_BSHE) != nullptr;
}

at::Tensor turn_by_kernel(const at::Tensor& x_BSHE, const Turning& turning) {
  at::Tensor out_BSHE = at::empty_like(x_BSHE);
  RECORD_USER_SCOPE_WITH_INPUTS("fathom::rotate", traffic(x_BSHE, out_BSHE));
  const int64_t positions = x_BSHE.size(1), heads = x_BSHE.size(2), head_size = x_BSHE.size(3);
  const float *cos = turning.turn.cos_SE2.data_ptr<float>(), *sin = turning.turn.sin_SE2.data_ptr<float>();
  const auto direction = static_cast<float>(turning.direction);
  if (x_BSHE.is_cuda()) {
    check_launch("rotate",
                 cuda_kernels_for(x_BSHE)->rotate(rows(x_BSHE), cos, sin, rows(out_BSHE), x_BSHE.numel() / head_size,
                                                  heads, positions, head_size, direction, current_stream(x_BSHE)));
  }
  if (!x_BSHE.is_cpu()) return out_BSHE;
  const cpu::TurnedHeads turned{heads, head_size, 2 * turning.half(), turning.interleaved};
  at::parallel_for(0, x_BSHE.numel() / head_size, std::max<int64_t>(1, kElementsPerTask / head_size),
                   [&](int64_t first, int64_t last) {
                     cpu::rotate(rows(x_BSHE), cos, sin, rows(out_BSHE), turned, positions, direction, first, last);
                   });
  return out_BSHE;
}

// The two numbers of each pair, [.., 2, width / 2]: a view.
at::Tensor pairs_of(const at::Tensor& x_BSHE, const Turning& turning) {
  const at::Tensor front = x_BSHE.narrow(3, 0, 2 * turning.half());
  if (turning.interleaved) return front.unflatten(3, {turning.half(), 2}).transpose(3, 4);
  return front.unflatten(3, {2, turning.half()});
}

// Writes the halves in place of the output, so that nothing but the output is made. On a GPU these are a third of a
// step's kernels: both halves are multiplied at once, and views are few.
at::Tensor turn_by_operators(const at::Tensor& x_BSHE, const Turning& turning) {
  const int64_t half = turning.half(), rest = x_BSHE.size(3) - 2 * half;
  at::Tensor out_BSHE = at::empty_like(x_BSHE);
  const at::Tensor x_BSH2E2 = pairs_of(x_BSHE, turning);
  at::Tensor out_BSH2E2 = pairs_of(out_BSHE, turning);
  at::mul_out(out_BSH2E2, x_BSH2E2, turning.turn.cos_SE2.view({-1, 1, 1, half}));
  const at::Tensor sin_S1E2 = turning.turn.sin_SE2.unsqueeze(1);
  out_BSH2E2.select(3, 0).addcmul_(x_BSH2E2.select(3, 1), sin_S1E2, -turning.direction);
  out_BSH2E2.select(3, 1).addcmul_(x_BSH2E2.select(3, 0), sin_S1E2, turning.direction);
  if (rest > 0) out_BSHE.narrow(3, 2 * half, rest).copy_(x_BSHE.narrow(3, 2 * half, rest));
  return out_BSHE;
}

at::Tensor turned(const at::Tensor& x_BSHE, const Turning& turning) {
  if (has_kernel(x_BSHE) || has_cuda_kernel(x_BSHE, turning)) return turn_by_kernel(x_BSHE, turning);
  return turn_by_operators(x_BSHE, turning);
}

struct Rotate : torch::autograd::Function<Rotate> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x_BSHE,
                            const at::Tensor& cos_SE2, const at::Tensor& sin_SE2, bool interleaved) {
    context->save_for_backward({cos_SE2, sin_SE2});
    context->saved_data["interleaved"] = interleaved;
    return turned(x_BSHE, {{cos_SE2, sin_SE2}, interleaved, 1});
  }
  // The transpose of a rotation, scaled or not, is the same turn backwards.
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Turning back{{saved[0], saved[1]}, context->saved_data["interleaved"].toBool(), -1};
    return {turned(gradients[0].contiguous(), back), {}, {}, {}};
  }
};

Turn rows_of(const Turn& turn, int64_t first, int64_t count) {
  return {turn.cos_SE2.narrow(0, first, count), turn.sin_SE2.narrow(0, first, count)};
}

}  // namespace

Turns at_positions(const Turns& turns, const at::Tensor& positions_T) {
  const auto at = [&](const Turn& turn) -> Turn {
    return {turn.cos_SE2.index_select(0, positions_T), turn.sin_SE2.index_select(0, positions_T)};
  };
  Turns result{.keys = at(turns.keys), .interleaved = turns.interleaved};
  const bool alike = turns.queries.cos_SE2.is_same(turns.keys.cos_SE2);
  result.queries = alike ? result.keys : at(turns.queries);
  return result;
}

RotaryTable::RotaryTable(arch::Rotary rotary, at::Device device, ledger::Ledger* ledger)
    : rotary_(std::move(rotary)),
      original_positions_(arch::original_positions(rotary_)),
      device_(device),
      ledger_(ledger) {}

RotaryTable::Table& RotaryTable::table_for(int64_t length) {
  return original_positions_ > 0 && length > original_positions_ ? beyond_ : within_;
}

// Shorter passes come as well.
void RotaryTable::reserve(int64_t length) {
  const int64_t within = original_positions_ > 0 ? std::min(length, original_positions_) : length;
  if (within > within_.length) grow(within_, within);
  if (length > within && length > beyond_.length) grow(beyond_, length);
}

Turns RotaryTable::rows(int64_t first, int64_t count) {
  reserve(first + count);
  const Table& table = table_for(first + count);
  Turns turns{.keys = rows_of(table.keys, first, count), .interleaved = rotary_.interleaved};
  turns.queries = rotary_.scales_queries() ? rows_of(table.queries, first, count) : turns.keys;
  return turns;
}

Turn RotaryTable::empty_turn(int64_t length) const {
  const auto options = at::TensorOptions().device(device_).dtype(at::kFloat);
  Turn turn{at::empty({length, rotary_.width / 2}, options), at::empty({length, rotary_.width / 2}, options)};
  if (ledger_ != nullptr) {
    for (const at::Tensor* each : {&turn.cos_SE2, &turn.sin_SE2}) {
      ledger_->claim(*each, memory::Component::kWeights, "rotary_emb");
    }
  }
  return turn;
}

void RotaryTable::grow(Table& table, int64_t length) {
  table.length = std::max<int64_t>(64, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(length))));
  table.keys = table.queries = {};
  table.keys = empty_turn(table.length);
  fill(table.keys, table, false);
  if (!rotary_.scales_queries()) return;
  table.queries = empty_turn(table.length);
  fill(table.queries, table, true);
}

// Angles, then cos and sin are rounded to FP32, as transformers' LlamaRotaryEmbedding does it.
void RotaryTable::fill(const Turn& turn, const Table& table, bool of_queries) const {
  if (device_.is_privateuseone()) return;
  const std::vector<float> frequencies = arch::rotary_frequencies(rotary_, table.beyond_original);
  const int64_t half = rotary_.width / 2;
  std::vector<float> cos(table.length * half), sin(table.length * half);
  for (int64_t position = 0; position < table.length; ++position) {
    const double of_query = of_queries ? arch::query_scale(rotary_, position) : 1;
    for (int64_t i = 0; i < half; ++i) {
      const double scale = 2 * i < rotary_.still_front ? of_query : rotary_.magnitude * of_query;
      const auto angle = static_cast<double>(static_cast<float>(position) * frequencies[i]);
      cos[position * half + i] = static_cast<float>(std::cos(angle) * scale);
      sin[position * half + i] = static_cast<float>(std::sin(angle) * scale);
    }
  }
  const at::NoGradGuard no_gradients;
  turn.cos_SE2.copy_(at::from_blob(cos.data(), {table.length, half}, at::kFloat));
  turn.sin_SE2.copy_(at::from_blob(sin.data(), {table.length, half}, at::kFloat));
}

at::Tensor rotate(const at::Tensor& x_BSHE, const Turn& turn, bool interleaved) {
  return Rotate::apply(x_BSHE, turn.cos_SE2, turn.sin_SE2, interleaved);
}

}  // namespace fathom::ops
