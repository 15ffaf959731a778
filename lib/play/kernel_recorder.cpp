// Each thread keeps the operators that are open on it: what one launches within another counts there alone.
#include "play/kernel_recorder.h"

#include <utility>

#include "memory/block_groups.h"
#include "ops/scalar_type.h"
#include "phantom_gpu/gpu.h"

namespace fathom::play {
namespace {

struct Open {
  memory::Phase phase;
  std::string part, op;
  DType type;
  plan::Arithmetic work;
  int64_t bytes;
  int64_t launches_before;
  int64_t launches_within = 0;  // by operators within this one
};
thread_local std::vector<Open> open;

}  // namespace

void KernelRecorder::starts(const CountedOperator& op) {
  open.push_back({.phase = ledger_.phase().value_or(memory::Phase::kLoad),
                  .part = memory::of_any_layer(ledger_.entered()),
                  .op = std::string(op.name),
                  .type = ops::dtype_of(op.type),
                  .work = op.work,
                  .bytes = op.bytes,
                  .launches_before = phantom_gpu::launches()});
}

void KernelRecorder::ends(int64_t result_bytes) {
  const Open ended = std::move(open.back());
  open.pop_back();
  const int64_t launches = phantom_gpu::launches() - ended.launches_before;
  if (!open.empty()) open.back().launches_within += launches;
  const std::lock_guard lock(mutex_);
  plan::KernelRow& row = rows_[{ended.phase, ended.part, ended.op, ended.type}];
  row.calls += 1;
  row.launches += launches - ended.launches_within;
  row.matrix_flops += ended.work.matrix_flops;
  row.attention_flops += ended.work.attention_flops;
  row.bytes += ended.bytes + result_bytes;
}

std::vector<plan::KernelRow> KernelRecorder::rows() const {
  const std::lock_guard lock(mutex_);
  std::vector<plan::KernelRow> rows;
  for (const auto& [key, sums] : rows_) {
    const bool is_view = sums.bytes == 0 && sums.flops() + sums.launches == 0;
    if (is_view) continue;
    plan::KernelRow& row = rows.emplace_back(sums);
    std::tie(row.phase, row.part, row.op, row.type) = key;
  }
  return rows;
}

}  // namespace fathom::play
