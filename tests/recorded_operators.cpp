// Linked into every test on LibTorch: records the operators that it runs, and fails at the end if the dry run lacks
// one.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <mutex>
#include <set>
#include <string>
#include <unordered_set>

#include "phantom/device.h"

namespace fathom {
namespace {

// Their results are values, or have a shape that depends on values: only checks and the allocator's tests call them.
const std::set<std::string> kForChecksOnly = {"aten::equal", "aten::nonzero", "aten::nonzero.out",
                                              "aten::masked_select"};
// Operators of GPUs, which are planned on the phantom GPU: tests/ops/cuda_attention_test.cpp stands in for them.
const std::set<std::string> kForGpusOnly = {"aten::_efficient_attention_forward",
                                            "aten::_efficient_attention_backward"};

std::mutex recorded_mutex;
std::unordered_set<c10::OperatorName>& recorded() {
  static auto* operators = new std::unordered_set<c10::OperatorName>;
  return *operators;
}

thread_local const at::RecordFunction* open_kernel = nullptr;

// What a kernel of the CPU calls for its own work is no concern of the dry run, which never runs that kernel.
std::unique_ptr<at::ObserverContext> record(const at::RecordFunction& function) {
  if (open_kernel) return nullptr;
  auto name = function.operator_name();
  if (!name) return nullptr;
  if (ledger::is_kernel_operator(name->name.c_str(), name->overload_name.c_str())) open_kernel = &function;
  std::lock_guard guard(recorded_mutex);
  recorded().insert(*name);
  return nullptr;
}

void leave(const at::RecordFunction& function, at::ObserverContext*) {
  if (open_kernel == &function) open_kernel = nullptr;
}

class RecordedOperators : public testing::Environment {
 public:
  void SetUp() override {
    at::addGlobalCallback(at::RecordFunctionCallback(&record, &leave).scopes({at::RecordScope::FUNCTION}));
  }
  void TearDown() override {
    std::lock_guard guard(recorded_mutex);
    for (const auto& name : recorded()) {
      auto op = c10::Dispatcher::singleton().findOp(name);
      std::string full = c10::toString(name);
      if (!op || !op->hasSchema() || kForChecksOnly.contains(full) || kForGpusOnly.contains(full)) continue;
      EXPECT_TRUE(phantom::has_rule(*op)) << "a test ran " << full << ", which the dry run cannot play";
    }
  }
};

const auto* const registration = testing::AddGlobalTestEnvironment(new RecordedOperators);

}  // namespace
}  // namespace fathom
