// The phantom device: shapes without bytes, and its errors.
#include "phantom/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace fathom::phantom {
namespace {

using at::Tensor;
using ::testing::HasSubstr;

class Device : public ::testing::Test {
 protected:
  void SetUp() override { set_ledger(&ledger_); }
  void TearDown() override { set_ledger(nullptr); }
  at::TensorOptions options() { return at::TensorOptions().device(device()); }
  ledger::Ledger ledger_;
};

TEST_F(Device, ATensorOfATerabyteTakesNoMemory) {
  Tensor a = at::empty({1 << 20, 1 << 18}, options());
  EXPECT_EQ(ledger_.live_bytes(), int64_t{1} << 40);
  EXPECT_EQ(a.t().size(0), 1 << 18);
  a = Tensor();
  EXPECT_EQ(ledger_.live_bytes(), 0);
}

TEST_F(Device, AnOperatorWithoutARuleIsNamed) {
  Tensor mask = at::ones({5}, options().dtype(at::kBool));
  try {
    at::nonzero(mask);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("no rule for the operator aten::nonzero"));
  }
}

TEST_F(Device, WhatIsReadBackDoesNotDependOnMemory) {
  Tensor x = at::ones({3, 4}, options());
  EXPECT_EQ(x.sum().item<double>(), 1.0);
  EXPECT_FALSE(at::isfinite(x).all().item<bool>());
  EXPECT_TRUE(at::equal(x.to(at::kCPU), at::zeros({3, 4})));
  Tensor back = at::arange(6).to(device());
  EXPECT_EQ(back.scalar_type(), at::kLong);
}

TEST_F(Device, ResizingTakesTheNewBlockBeforeTheOldOneGoes) {
  Tensor x = at::empty({10}, options());
  ledger_.label();
  x.resize_({30});
  EXPECT_EQ(ledger_.live_bytes(), 120);
  EXPECT_EQ(ledger_.label().peak, 160);
  Tensor y = at::empty({0}, options());
  y.set_(x);
  EXPECT_TRUE(y.is_alias_of(x));
  x = Tensor();
  EXPECT_EQ(ledger_.live_bytes(), 120);
}

TEST_F(Device, ViewsShareTheirStorageAndInPlaceResultsAreTheInput) {
  Tensor x = at::empty({4, 6}, options());
  int64_t before = ledger_.live_bytes();
  EXPECT_TRUE(x.t().is_alias_of(x));
  EXPECT_TRUE(x.narrow(0, 1, 2).unsqueeze(0).is_alias_of(x));
  EXPECT_TRUE(at::split(x, 2)[1].is_alias_of(x));
  EXPECT_TRUE(x.add_(1).is_same(x));
  EXPECT_EQ(ledger_.live_bytes(), before);
}

TEST_F(Device, TheGeneratorCanBeSeededSavedAndRestored) {
  at::Generator generator = at::globalContext().defaultGenerator(device());
  at::manual_seed(7);
  EXPECT_EQ(generator.current_seed(), 7u);
  at::Generator copy = generator.clone();
  generator.set_current_seed(8);
  EXPECT_EQ(copy.current_seed(), 7u);
  generator.set_state(copy.get_state());
}

TEST_F(Device, AnotherLedgerIsNotToldOfOldBlocks) {
  Tensor x = at::empty({10}, options());
  ledger::Ledger other;
  EXPECT_EQ(set_ledger(&other), &ledger_);
  x = Tensor();
  EXPECT_EQ(other.live_bytes(), 0);
  Tensor y = at::empty({10}, options());
  EXPECT_EQ(other.live_bytes(), 40);
}

TEST_F(Device, AutocastHasTheCpusList) {
  device();
  auto& dispatcher = c10::Dispatcher::singleton();
  std::set<std::string> cpu, phantom;
  for (auto& name : dispatcher.getRegistrationsForDispatchKey(c10::DispatchKey::AutocastCPU))
    if (name.name.starts_with("aten::")) cpu.insert(c10::toString(name));
  for (auto& name : dispatcher.getRegistrationsForDispatchKey(c10::DispatchKey::AutocastPrivateUse1))
    if (name.name.starts_with("aten::")) phantom.insert(c10::toString(name));
  EXPECT_EQ(cpu, phantom);
  EXPECT_EQ(cpu.size(), 129u);
}

}  // namespace
}  // namespace fathom::phantom
