// What a run holds before its first step: weights, states, the ring of batches, workspaces; and the parts of a base
// while it is quantized.
#include <algorithm>
#include <bit>

#include "arch/parameter_table.h"
#include "base/bytes.h"
#include "ops/quantized_part_size.h"
#include "plan/analytic.h"
#include "plan/analytic_optimizer.h"
#include "plan/analytic_sources.h"
#include "plan/analytic_step.h"
#include "plan/workload.h"
#include "train/inputs.h"

namespace fathom::plan {
namespace {

using ledger::Component;

constexpr int64_t kRingSlots = 2;  // train::BatchRing
constexpr const char* kWeights = "one number for each parameter, in the type of dtype";
constexpr const char* kCodes = "a code for each number, a scale for each row or 64 of them; lib/quant/layout.h";
constexpr const char* kSteps = "one step size for each row or group, in FP32 (Esser et al. 2019, arXiv 1902.08153)";
constexpr const char* kParts = "a base is quantized a part at a time; lib/ops/quantized_part_size.h";
constexpr const char* kTables = "values of 4-bit codes and the borders between them; lib/ops/quantized_matrix.h";
constexpr const char* kRing = "ids and targets of the batch in work and of the next; lib/train/batch_ring.h";
constexpr const char* kWorkspace = "at::cuda::getChosenWorkspaceSize of LibTorch 2.11, for each thread that multiplies";
constexpr const char* kWorkspaceLt = "at::cuda::getCUDABlasLtWorkspaceSize of LibTorch 2.11, for biases and one token";

// ops::RotaryTable has a power of two of positions, and at least 64.
int64_t rotary_positions(const Workload& workload) {
  const int64_t longest = longest_sequence(workload);
  if (longest == 0) return 0;
  return std::max<int64_t>(64, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(longest))));
}

}  // namespace

// What is there from the first step to the last.
void AccountOfRun::standing(const Target& target, const Workload& workload) {
  const auto stand = [&](Component component, const char* what, const char* source, const Product& product) {
    account_.keep(account_.take(component, what, source, product));
  };
  int64_t plain = 0, codes = 0, scales = 0;  // of the base: numbers as dtype says, bytes, bytes
  for (const arch::ParameterRow& row : s_.parameters.rows) {
    if (!row.of_base()) continue;
    if (!row.codes) {
      plain = checked_add(plain, row.spec.elements(), "parameters of the base");
      continue;
    }
    const quant::Layout layout = quant::layout_of(*row.codes, row.spec.shape[0], row.spec.shape[1]);
    codes = checked_add(codes, layout.code_bytes, "codes of the base");
    scales = checked_add(scales, layout.scale_bytes, "scales of the base");
  }
  account_.enter("start", "", 0);
  stand(Component::kWeights, "weights", kWeights, {{plain, "parameters"}, {s_.stored_bytes, "bytes"}});
  stand(Component::kWeights, "quantized weights", kCodes, {{codes, "bytes"}});
  stand(Component::kWeights, "scales of quantized weights", kCodes, {{scales, "bytes"}});
  stand(Component::kWeights, "adapters", kWeights,
        {{s_.parameters.adapter_count(), "parameters"}, {kStoredAdapterBytes, "bytes"}});
  stand(Component::kWeights, "learned step sizes", kSteps,
        {{s_.parameters.count_of(arch::Role::kStepSizes), "step sizes"}, {kStoredAdapterBytes, "bytes"}});
  stand(Component::kWeights, "rotary tables", kRotaryTables,
        {{2, "of"}, {rotary_positions(workload), "positions"}, {s_.shape.head_dim / 2, ""}, {4, "bytes"}});
  account_for_states(s_, account_);
  stand(Component::kFunctionality, "ring of batches, ids and targets", kRing,
        {{2, "of"}, {kRingSlots, "slots"}, {workload.capacity_tokens, "tokens"}, {8, "bytes"}});
  if (s_.run.loss_chunk_size > 0) {
    stand(Component::kFunctionality, "ring of batches, rows that count", kRing,
          {{kRingSlots, "slots"}, {workload.capacity_tokens, "tokens"}, {8, "bytes"}});
  }
  if (s_.run.packing) {
    stand(Component::kFunctionality, "ring of batches, positions", kRing,
          {{kRingSlots, "slots"}, {workload.capacity_tokens, "tokens"}, {4, "bytes"}});
  }
  if (!s_.cuda) return;
  if (s_.scheme && !quant::has_row_scales(*s_.scheme)) {
    int64_t numbers = int64_t{2} * 256;
    if (quant::is_nf4(*s_.scheme)) numbers += 15;
    if (s_.scheme == quant::Scheme::kNf4DoubleQuant) numbers += 256 + 255;
    stand(Component::kFunctionality, "tables of codes", kTables, {{numbers, "numbers"}, {4, "bytes"}});
  }
  if (s_.run.packing) {
    stand(Component::kFunctionality, "ring of batches, borders of documents", kRing,
          {{kRingSlots, "slots"}, {workload.capacity_tokens + 1, "borders"}, {4, "bytes"}});
  }
  const int64_t workspace = target.compute_capability.starts_with("9.") ? 33554432 : 8519680;
  stand(Component::kKernels, "cuBLAS workspaces, forward and backward thread", kWorkspace,
        {{2, "of"}, {workspace, "bytes"}});
  const auto is_one_token = [](const train::BatchShape& batch) { return batch.rows * batch.length == 1; };
  bool one_token = std::any_of(workload.evaluations.begin(), workload.evaluations.end(), is_one_token);
  for (const train::StepShape& step : workload.steps) {
    one_token = one_token || std::any_of(step.begin(), step.end(), is_one_token);
  }
  const bool biased = s_.shape.query_key_value_bias || s_.shape.output_bias || s_.shape.feed_forward_bias;
  if (biased || (s_.lora && one_token && s_.run.lora_r > 1)) {
    stand(Component::kKernels, "cuBLASLt workspaces", kWorkspaceLt,
          {{s_.checkpointing ? 2 : 1, "of"}, {1048576, "bytes"}});
  }
}

// Parts of a base in FP32 while it is quantized, the largest matrix's. What a folder stores in codes is copied.
void AccountOfRun::load() {
  if (!s_.scheme || s_.shape.quantized) return;
  account_.enter("load", "quantizing the base", 0);
  int64_t most = 0, scales = 0;
  for (const arch::ParameterRow& row : s_.parameters.rows) {
    if (!row.codes) continue;
    const int64_t rows = row.spec.shape[0], columns = row.spec.shape[1];
    most = std::max(most, ops::quantized_part_rows(rows, columns, s_.cuda) * columns);
    scales = std::max(scales, quant::layout_of(*row.codes, rows, columns).scales);
  }
  const bool doubly = *s_.scheme == quant::Scheme::kNf4DoubleQuant;
  const Tensor wide_scales =
      account_.take("scales, before their own quantization", kParts, {{doubly ? scales : 0, "scales"}, {4, "bytes"}});
  const Tensor part = account_.take("part of a matrix in FP32", kParts, {{most, "numbers"}, {4, "bytes"}});
  if (!s_.cuda) return;
  if (quant::has_row_scales(*s_.scheme)) {
    account_.take("its magnitudes", kParts, {{most, "numbers"}, {4, "bytes"}});
    return;
  }
  const Tensor codes = account_.take("its codes", kParts, {{most, "numbers"}, {4, "bytes"}});
  account_.take("its codes, packed", kParts, {{(most + 1) / 2, "bytes"}, {4, "bytes"}});
}

}  // namespace fathom::plan
