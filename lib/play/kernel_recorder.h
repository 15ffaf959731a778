// Lists what a step gives the device to do, while its operators are counted.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "ledger/ledger.h"
#include "plan/time/kernels.h"
#include "play/arithmetic_count.h"

namespace fathom::play {

// One at a time, as an ArithmeticCount.
class KernelRecorder final : public OperatorListener {
 public:
  // ledger: knows which part of the model runs.
  explicit KernelRecorder(const ledger::Ledger& ledger) : ledger_(ledger) {}
  void starts(const CountedOperator& op) override;
  void ends(int64_t result_bytes) override;
  // In the order of phases, parts and operators.
  std::vector<plan::KernelRow> rows() const;

 private:
  using Key = std::tuple<memory::Phase, std::string, std::string, DType>;
  const ledger::Ledger& ledger_;
  mutable std::mutex mutex_;
  std::map<Key, plan::KernelRow> rows_;
};

}  // namespace fathom::play
