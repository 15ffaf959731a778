// Sums what the operators of a step declare.
#include "plan/time/arithmetic.h"

#include <utility>

#include "base/error.h"
#include "base/product.h"
#include "footprint/optimizer.h"
#include "plan/estimate/standing.h"
#include "plan/estimate/step_operators.h"

namespace fathom::plan {
namespace {

// sum + value × times.
int64_t added(int64_t sum, int64_t value, int64_t times = 1) {
  int64_t product = 0, result = 0;
  const bool overflows =
      __builtin_mul_overflow(value, times, &product) || __builtin_add_overflow(sum, product, &result);
  if (!overflows && value >= 0) return result;  // of what an operator declares, a negative number has overflown
  throw UsageError(
      "a step takes more than 2^63 operations "
      "(per_device_train_batch_size × gradient_accumulation_steps × max_length)",
      kSmallerBatch);
}

void add(int64_t& sum, int64_t value, int64_t times) { sum = added(sum, value, times); }

void add(Arithmetic& sum, const Arithmetic& each, int64_t times) {
  add(sum.matrix_flops, each.matrix_flops, times);
  add(sum.attention_flops, each.attention_flops, times);
  add(sum.bytes_moved, each.bytes_moved, times);
}

void add(Arithmetic& sum, const Operator& each, const footprint::Work& work) {
  add(each.is_attention ? sum.attention_flops : sum.matrix_flops, work.flops, 1);
  add(sum.bytes_moved, work.bytes, 1);
}

void add(UnitArithmetic& unit, const Operator& each, bool backward, bool again = false) {
  add(unit.forward, each, each.footprint.forward_work);
  if (again) add(unit.backward, each, each.footprint.forward_work);
  if (backward) add(unit.backward, each, each.footprint.backward_work);
}

// The embeddings, each layer, the last norm with the head.
std::vector<UnitArithmetic> units_of(const BatchOperators& batch, bool checkpoints) {
  std::vector<UnitArithmetic> units(batch.layers.size() + 2);
  add(units.front(), batch.embedding, batch.trains_embedding);
  for (size_t layer = 0; layer < batch.layers.size(); ++layer) {
    const bool backward = batch.needs_gradients[layer];
    for (const Operator& each : batch.kinds[batch.layers[layer]]) {
      add(units[layer + 1], each, backward, backward && checkpoints);
    }
  }
  add(units.back(), batch.last_norm, batch.needs_gradients.back());
  add(units.back(), batch.head, true);
  return units;
}

Target target_of(const config::RunConfig& run) {
  Target target;
  const bool math = run.attn_implementation == config::Attention::kMath;
  target.attention_kernel = math ? "math attention" : "flash attention";
  return target;
}

}  // namespace

Arithmetic operator+(const Arithmetic& a, const Arithmetic& b) {
  const auto sum = [](int64_t x, int64_t y) { return added(x, y); };
  return {sum(a.matrix_flops, b.matrix_flops),
          sum(a.attention_flops, b.attention_flops),
          sum(a.bytes_moved, b.bytes_moved),
          {sum(a.device.matrix_ns, b.device.matrix_ns), sum(a.device.attention_ns, b.device.attention_ns),
           sum(a.device.memory_ns, b.device.memory_ns), sum(a.device.launches, b.device.launches),
           sum(a.device.recorded, b.device.recorded)}};
}

Arithmetic operator-(const Arithmetic& a, const Arithmetic& b) {
  return {a.matrix_flops - b.matrix_flops,
          a.attention_flops - b.attention_flops,
          a.bytes_moved - b.bytes_moved,
          {a.device.matrix_ns - b.device.matrix_ns, a.device.attention_ns - b.device.attention_ns,
           a.device.memory_ns - b.device.memory_ns, a.device.launches - b.device.launches,
           a.device.recorded - b.device.recorded}};
}

StepArithmetic estimate_arithmetic(const arch::Run& run, const schedule::StepShape& step) {
  const Target target = target_of(run.config);
  const StepOperators operators(run, target);
  StepArithmetic sum;
  for (size_t i = 0, end = 1; i < step.size(); i = end++) {
    while (i > 0 && end < step.size() && step[end] == step[i]) ++end;
    const auto times = static_cast<int64_t>(end - i);
    for (const auto& [forward, backward] :
         units_of(operators.of_batch(step[i], /*gradients=*/true), run.config.gradient_checkpointing)) {
      add(sum.forward, forward, times);
      add(sum.backward, backward, times);
    }
    // Gradients are added to those that are there.
    const int64_t stored = size_of(run.precision.stored);
    if (i > 0) add(sum.backward.bytes_moved, run.parameters.trained_base_count(), times * 3 * stored);
  }
  Arithmetic& updates = run.config.optimizer_in_backward ? sum.backward : sum.update;
  for (const footprint::TrainedSizes& each : trained_sizes(run.parameters)) {
    add(updates.bytes_moved, footprint::update_traffic(run.config, each), 1);
  }
  return sum;
}

std::vector<UnitArithmetic> unit_arithmetic(const arch::Run& run, const schedule::BatchShape& batch) {
  const Target target = target_of(run.config);
  return units_of(StepOperators(run, target).of_batch(batch, /*gradients=*/true), run.config.gradient_checkpointing);
}

schedule::StepShape longest_step(const arch::Run& run, const std::vector<schedule::StepShape>& steps) {
  schedule::StepShape longest;
  int64_t most = -1;
  for (schedule::StepShape step : steps) {
    // A step of one micro-batch is all that there is: a workload with larger steps gives two.
    while (step.size() > 1 && static_cast<int64_t>(step.size()) < run.config.gradient_accumulation_steps) {
      step.push_back(step.back());
    }
    const Arithmetic arithmetic = estimate_arithmetic(run, step).whole();
    const int64_t flops = added(arithmetic.matrix_flops, arithmetic.attention_flops);
    if (flops <= most) continue;
    most = flops;
    longest = std::move(step);
  }
  return longest;
}

}  // namespace fathom::plan
