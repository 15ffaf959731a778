// A GPU that does nothing, for tests of what is asked of one.
#pragma once

#include "ledger/cuda.h"

namespace fathom::testing {

class IdleGpu : public ledger::CudaDevice {
 public:
  explicit IdleGpu(ledger::Ledger& ledger) : ledger_(ledger) {}
  ledger::Ledger& ledger() override { return ledger_; }
  Statistics statistics() const override { return {}; }
  void reset_peaks() override {}
  uint64_t layout() const override { return 0; }
  void note(uint64_t /*fact*/) override {}
  std::unique_ptr<Recording> record(const std::function<void()>& /*work*/) override { return nullptr; }
  void take_recordable_stream() override {}
  at::Tensor host_memory(int64_t bytes) override { return at::zeros({bytes}, at::kByte); }
  void release_cached() override {}
  void claim_workspaces() override {}
  void clear_workspaces() override {}
  void limit(int64_t /*bytes*/) override {}
  void synchronize() override {}
  void start_over() override {}
  void trace_to(const std::filesystem::path& /*file*/) override {}
  std::string name() const override { return ""; }
  std::string compute_capability() const override { return ""; }
  int64_t multiprocessors() const override { return 0; }
  int64_t total_bytes() const override { return 0; }
  int64_t free_bytes() const override { return 0; }

 protected:
  ledger::Ledger& ledger_;
};

}  // namespace fathom::testing
