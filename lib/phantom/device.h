// The phantom device: a PrivateUse1 backend whose tensors have shapes, strides and storages but no bytes. It stands in
// for the CPU in dry runs; its allocator only tells its ledger. Operators go through one boxed fallback to their Meta
// kernels.
//
// Nothing may depend on what is read back: numbers are 1, truths false, copies to the host zeros. What CPU kernels take
// and give back by themselves is played too, as an upper bound (phantom/kernel_scratch.h).
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <set>
#include <string>

#include "ledger/ledger.h"

namespace fathom::phantom {

// The device of phantom tensors. The first use registers the backend with LibTorch (once per process).
at::Device device();

// From now on phantom allocations are told to `ledger` (null: to nobody). Returns the previous one.
ledger::Ledger* set_ledger(ledger::Ledger* ledger);

// While alive, phantom allocations are told to `ledger`.
class LedgerScope {
 public:
  explicit LedgerScope(ledger::Ledger& ledger) : previous_(set_ledger(&ledger)) {}
  ~LedgerScope() { set_ledger(previous_); }
  LedgerScope(const LedgerScope&) = delete;
  LedgerScope& operator=(const LedgerScope&) = delete;

 private:
  ledger::Ledger* previous_;
};

// Whether the dry run can play the operator: a kernel of the device's own, a Meta kernel or a composite one.
bool has_rule(const c10::OperatorHandle& op);

// Operators ("aten::mm", "aten::add.out") that the fallback has served so far in this process, for the test that every
// recorded one has a rule.
std::set<std::string> served_operators();

}  // namespace fathom::phantom
