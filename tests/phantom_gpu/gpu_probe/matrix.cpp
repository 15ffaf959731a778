#include "tests/phantom_gpu/gpu_probe/matrix.h"

#include <c10/cuda/CUDACachingAllocator.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json_value.h"
#include "tests/phantom_gpu/gpu_probe/training.h"
#include "tests/play/matrix_run.h"

namespace fathom::phantom {
namespace {

using plan::testing::MatrixRun;
using Entry = c10::cuda::CUDACachingAllocator::TraceEntry;
using Statistics = ledger::CudaDevice::Statistics;

// What the allocator had counted before an event: events are traced before its statistics change. Of a release
// allocated_bytes alone falls earlier; active_bytes, the same but for blocks that another stream still uses, does not.
struct Counted {
  int64_t requested = 0, active = 0, reserved = 0;
  bool consistent = true;
};

Counted count(bool release) {
  constexpr auto kAggregate = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  const auto statistics = c10::cuda::CUDACachingAllocator::getDeviceStats(0);
  const int64_t active = statistics.active_bytes[kAggregate].current;
  return {statistics.requested_bytes[kAggregate].current, active, statistics.reserved_bytes[kAggregate].current,
          release || statistics.allocated_bytes[kAggregate].current == active};
}

class Watch {
 public:
  explicit Watch(ledger::CudaDevice& cuda) : cuda_(cuda) {
    c10::cuda::CUDACachingAllocator::attachAllocatorTraceTracker([this](const Entry& entry) {
      const bool release = entry.action_ == Entry::FREE_COMPLETED;
      if (release || entry.action_ == Entry::ALLOC) before_.push_back(count(release));
    });
  }
  void begin() {
    before_.clear();
    events_ = differences_ = negative_ = live_ = 0;
  }
  // After a stage was labelled: its events, in order. Later ones belong to the next stage.
  void check_stage() {
    const std::vector<ledger::Ledger::Event>& labelled = cuda_.ledger().last_events();
    if (labelled.size() > before_.size()) throw Error("the ledger labelled an event that was not traced");
    for (size_t i = 0; i < labelled.size(); ++i) {
      check(before_[i]);
      live_ += labelled[i].bytes;
      events_ += 1;
    }
    before_.erase(before_.begin(), before_.begin() + static_cast<std::ptrdiff_t>(labelled.size()));
  }
  Json result() const { return {{"events", events_}, {"differences", differences_}, {"negative", negative_}}; }

 private:
  void check(const Counted& seen) {
    differences_ += seen.requested != live_ || !seen.consistent;
    negative_ += seen.active < seen.requested || seen.reserved < seen.active;
  }

  ledger::CudaDevice& cuda_;
  std::vector<Counted> before_;
  int64_t events_ = 0, differences_ = 0, negative_ = 0, live_ = 0;
};

Json play_run(const MatrixRun& run, ledger::CudaDevice& cuda, Watch& watch) {
  watch.begin();
  play::testing::play(run, {at::Device(at::kCUDA, 0), &cuda.ledger(), &cuda}, [&] { watch.check_stage(); });
  Json row = {{"name", run.name}};
  const Statistics at_the_end = cuda.statistics();
  cuda.clear_workspaces();
  cuda.ledger().label();
  watch.check_stage();
  const Statistics left = cuda.statistics();
  row.update(watch.result());
  row.update({{"peak_live", cuda.ledger().memory().peak},
              {"peak_requested", at_the_end.peak_requested},
              {"peak_allocated", at_the_end.peak_allocated},
              {"peak_reserved", at_the_end.peak_reserved},
              {"left", {cuda.ledger().live_bytes(), left.requested, left.allocated}}});
  cuda.start_over();
  return row;
}

}  // namespace

Json play_matrix(const Json& request) {
  ledger::CudaDevice& cuda = cuda_device();
  auto& watch = *new Watch(cuda);  // lives as long as the allocator, which keeps its address
  const std::vector<MatrixRun> matrix = plan::testing::memory_matrix();
  Json rows = Json::array();
  for (const std::string name : request.at("runs")) {
    const auto found =
        std::find_if(matrix.begin(), matrix.end(), [&](const MatrixRun& each) { return each.name == name; });
    if (found == matrix.end()) throw Error("no run '" + name + "' in the matrix");
    MatrixRun run = *found;
    run.config.cuda_kernels = request.value("cuda_kernels", false);
    rows.push_back(play_run(run, cuda, watch));
  }
  return rows;
}

}  // namespace fathom::phantom
