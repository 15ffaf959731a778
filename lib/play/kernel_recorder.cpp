// Each thread keeps the operators that are open on it: what one launches within another counts there alone.
#include "play/kernel_recorder.h"

#include <utility>

#include "memory/block_groups.h"
#include "ops/scalar_type.h"
#include "phantom_gpu/gpu.h"

namespace fathom::play {
namespace {

struct Open {
  plan::KernelRow row;
  int64_t launches_before = 0;
  int64_t launches_within = 0;  // by operators within this one
};
thread_local std::vector<Open> open;

}  // namespace

void KernelRecorder::starts(std::string_view name, at::ScalarType type, const plan::Arithmetic& work, int64_t bytes) {
  const DType dtype = ops::dtype_of(type);
  Open& opened = open.emplace_back();
  opened.row.phase = ledger_.phase().value_or(memory::Phase::kLoad);
  opened.row.part = memory::of_any_layer(ledger_.entered());
  opened.row.op = name;
  opened.row.type = dtype;
  opened.row.matrix_flops = work.matrix_flops;
  opened.row.attention_flops = work.attention_flops;
  opened.row.bytes = bytes;
  opened.launches_before = phantom_gpu::launches();
}

void KernelRecorder::ends(int64_t result_bytes) {
  const Open ended = std::move(open.back());
  open.pop_back();
  const int64_t launches = phantom_gpu::launches() - ended.launches_before;
  if (!open.empty()) open.back().launches_within += launches;
  const std::lock_guard lock(mutex_);
  const auto [place, is_new] =
      rows_.try_emplace({ended.row.phase, ended.row.part, ended.row.op, ended.row.type}, ended.row);
  plan::KernelRow& row = place->second;
  if (!is_new) {
    row.matrix_flops += ended.row.matrix_flops;
    row.attention_flops += ended.row.attention_flops;
    row.bytes += ended.row.bytes;
  }
  row.calls += 1;
  row.launches += launches - ended.launches_within;
  row.bytes += result_bytes;
}

std::vector<plan::KernelRow> KernelRecorder::rows() const {
  const std::lock_guard lock(mutex_);
  std::vector<plan::KernelRow> rows;
  for (const auto& [key, row] : rows_) {
    const bool is_view = row.bytes == 0 && row.matrix_flops + row.attention_flops + row.launches == 0;
    if (!is_view) rows.push_back(row);
  }
  return rows;
}

}  // namespace fathom::play
