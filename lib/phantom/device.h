// The phantom device: a PrivateUse1 backend whose tensors have shapes, strides and storages but no bytes. It stands in for
// the CPU in dry runs; its allocator only tells its ledger. Operators go through one boxed fallback to their Meta kernels.
#pragma once

#include <ATen/core/Tensor.h>

#include <set>
#include <string>

#include "ledger/ledger.h"

namespace fathom::phantom {

// The device of phantom tensors. The first use registers the backend with LibTorch (once per process).
at::Device device();

// From now on phantom allocations are told to `ledger` (null: to nobody). Returns the previous one.
ledger::Ledger* set_ledger(ledger::Ledger* ledger);

// Operators ("aten::mm") that the fallback has served so far in this process, for the test that every recorded one has a rule.
std::set<std::string> served_operators();

}  // namespace fathom::phantom
