// Which numbers each rank keeps, and when the memory of units is there; what ranks exchange is tested where they are
// processes (tests/app/processes_test.cpp).
#include "dist/sharded_parameters.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>

namespace fathom::dist {
namespace {

using ::testing::ElementsAre;

const ShardedParameters::BlockOf kAnywhere = [](int64_t /*numbers*/) { return 1; };

// Of each unit a frozen matrix in codes, its scale, and a trained one; without memory, as a model makes them.
std::vector<model::Parameter> parameters_of(int64_t units) {
  std::vector<model::Parameter> parameters;
  for (int64_t unit = 0; unit < units; ++unit) {
    const auto add = [&](const char* name, at::Tensor tensor, bool trained) {
      tensor.set_requires_grad(trained);
      model::let_go(tensor);
      parameters.push_back({std::to_string(unit) + name, std::move(tensor), trained, trained, unit});
    };
    add(".codes", at::empty({7, 13}, at::kByte), false);
    add(".scale", at::empty({7}), false);
    add(".weight", at::empty({5, 30 + unit}), true);
  }
  return parameters;
}

TEST(ShardedParameters, ShareEveryNumberOnce) {
  for (const int64_t size : {1, 2, 3, 5, 8}) {
    std::map<std::string, int64_t> numbers;
    for (int64_t rank = 0; rank < size; ++rank) {
      const std::unique_ptr<Group> group = play(rank, size);
      ledger::Ledger ledger;
      ShardedParameters sharded(*group, size, ledger, true);
      sharded.adopt(parameters_of(4), false, kAnywhere);
      for (const model::Parameter& share : sharded.shares()) {
        EXPECT_EQ(share.tensor.dim(), 1);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(share.tensor.data_ptr()) % 4, 0U);
        numbers[share.name] += share.tensor.numel();
      }
    }
    for (const model::Parameter& parameter : parameters_of(4)) {
      EXPECT_EQ(numbers.at(parameter.name), parameter.tensor.numel()) << parameter.name << " of " << size;
    }
  }
}

TEST(ShardedParameters, KnowWhereTheyBegin) {
  std::map<std::string, int64_t> next;
  for (int64_t rank = 0; rank < 3; ++rank) {
    const std::unique_ptr<Group> group = play(rank, 3);
    ledger::Ledger ledger;
    ShardedParameters sharded(*group, group->size(), ledger, true);
    sharded.adopt(parameters_of(4), false, kAnywhere);
    for (const ShardedParameters::Share& share : sharded.shares()) {
      if (!share.trained) continue;
      EXPECT_EQ(share.place, share.unit);
      EXPECT_EQ(share.whole, 5 * (30 + share.unit));
      EXPECT_EQ(share.tensor.numel() > 0 ? share.first : next[share.name], next[share.name]);
      next[share.name] += share.tensor.numel();
    }
  }
}

// A large matrix, no whole blocks, between two small ones; its codes and their scales.
TEST(ShardedParameters, DivideBetweenBlocks) {
  constexpr int64_t kBlock = 256, kLarge = int64_t{41} * 200;
  const auto parameters = [] {
    std::vector<model::Parameter> parameters;
    for (const auto& [name, rows] : {std::pair{"norm", 1}, std::pair{"large", 41}, std::pair{"small", 3}}) {
      at::Tensor tensor = at::empty({rows, 200});
      model::let_go(tensor);
      parameters.push_back({name, tensor, true, true, 0});
    }
    return parameters;
  }();
  const at::Tensor codes = at::arange(kLarge).remainder(251).to(at::kByte).view({41, 200});
  const at::Tensor scales = at::arange((kLarge + kBlock - 1) / kBlock).to(at::kFloat);
  for (const int64_t size : {1, 2, 3, 5, 40}) {
    int64_t next = 0;
    for (int64_t rank = 0; rank < size; ++rank) {
      const std::unique_ptr<Group> group = play(rank, size);
      ledger::Ledger ledger;
      ShardedParameters sharded(*group, group->size(), ledger, true);
      sharded.adopt(parameters, false, [](int64_t numbers) { return numbers > 1000 ? kBlock : 1; });
      std::vector<std::pair<std::string, at::Tensor>> states;
      std::vector<int64_t> blocks;
      for (const ShardedParameters::Share& share : sharded.shares()) {
        const int64_t numbers = share.tensor.numel();
        states.emplace_back("exp_avg." + share.name,
                            at::zeros({numbers}, share.name == "large" ? at::kByte : at::kFloat));
        blocks.push_back(1);
        if (share.name != "large") continue;
        EXPECT_EQ(share.first % kBlock, 0);
        EXPECT_EQ(numbers > 0 ? share.first : next, next);
        next += numbers;
        states.emplace_back("exp_avg_scale.large", at::zeros({(numbers + kBlock - 1) / kBlock}));
        blocks.push_back(kBlock);
      }
      sharded.adopt_states(states, blocks);
      ASSERT_EQ(sharded.whole_states().size(), 4U);
      for (const auto& [name, whole] : sharded.whole_states()) {
        if (name == "exp_avg.large") sharded.fill(whole, codes);
        if (name == "exp_avg_scale.large") sharded.fill(whole, scales);
      }
      const std::map<std::string, at::Tensor> own(states.begin(), states.end());
      const auto first = next - own.at("exp_avg.large").numel();
      const at::Tensor &own_codes = own.at("exp_avg.large"), &own_scales = own.at("exp_avg_scale.large");
      EXPECT_TRUE(own_codes.equal(codes.view({-1}).narrow(0, first, own_codes.numel()))) << rank << " of " << size;
      EXPECT_TRUE(own_scales.equal(scales.narrow(0, std::min(first / kBlock, scales.numel()), own_scales.numel())));
    }
    EXPECT_EQ(next, kLarge);
  }
}

class AloneInItsGroup : public ::testing::Test {
 protected:
  std::unique_ptr<Group> group_ = play(0, 1);
  ledger::Ledger ledger_;
  ShardedParameters sharded_{*group_, 1, ledger_, true};
  std::vector<model::Parameter> parameters_ = parameters_of(4);

  void SetUp() override {
    sharded_.adopt(parameters_, false, kAnywhere);
    const at::NoGradGuard no_gradients;
    for (const model::Parameter& parameter : parameters_) {
      sharded_.open(parameter.tensor);
      parameter.tensor.fill_(static_cast<double>(parameter.unit) + 1);
    }
    sharded_.close();
  }
  const at::Tensor& weight(int64_t unit) const { return parameters_[static_cast<size_t>(3 * unit + 2)].tensor; }
  std::vector<int64_t> units_there() const {
    std::vector<int64_t> there;
    for (int64_t unit = 0; unit < 4; ++unit) {
      if (weight(unit).storage().nbytes() > 0) there.push_back(unit);
    }
    return there;
  }
};

TEST_F(AloneInItsGroup, KeepsUnitsNoLongerThanTheyAreRead) {
  EXPECT_THAT(units_there(), ElementsAre());
  const at::NoGradGuard no_gradients;
  sharded_.before(0);
  EXPECT_THAT(units_there(), ElementsAre(0, 1));
  EXPECT_EQ(weight(0).sum().item<double>(), 150);
  sharded_.after(0, {});
  sharded_.before(1);
  EXPECT_THAT(units_there(), ElementsAre(1, 2));
  sharded_.after(1, {});
  sharded_.before(3);  // another way than was thought
  EXPECT_THAT(units_there(), ElementsAre(3));
  sharded_.after(3, {});
  EXPECT_THAT(units_there(), ElementsAre());
}

TEST_F(AloneInItsGroup, GathersAgainForTheBackwardPassAndAddsUpRounds) {
  std::vector<std::vector<int64_t>> there;
  for (int round = 0; round < 2; ++round) {
    sharded_.begin_round({1});
    at::Tensor x = at::ones({});
    for (int64_t unit = 0; unit < 4; ++unit) {
      sharded_.before(unit);
      x = x * weight(unit).sum();
      x.register_hook([&](const at::Tensor&) { there.push_back(units_there()); });
      sharded_.after(unit, x);
    }
    there.clear();
    torch::autograd::backward({x}, {});
    sharded_.end_round();
  }
  // Before each unit's own hook: the head's and the last layer's are there from the forward pass.
  EXPECT_THAT(there, ElementsAre(ElementsAre(2, 3), ElementsAre(2, 3), ElementsAre(1, 2), ElementsAre(1)));
  EXPECT_THAT(units_there(), ElementsAre());
  // The others' sums, twice.
  std::vector<double> sums = {150, 2 * 155, 3 * 160, 4 * 165};
  for (const model::Parameter& share : sharded_.shares()) {
    if (!share.trained) continue;
    double expected = 2;
    for (int64_t unit = 0; unit < 4; ++unit) expected *= unit == share.unit ? 1 : sums[static_cast<size_t>(unit)];
    EXPECT_EQ(share.tensor.grad().min().item<double>(), expected);
    EXPECT_EQ(share.tensor.grad().max().item<double>(), expected);
  }
  sharded_.clear_gradients();
  EXPECT_FALSE(sharded_.shares().back().tensor.grad().defined());
}

TEST_F(AloneInItsGroup, FillsWhatIsOpenAndWhatIsNot) {
  const at::NoGradGuard no_gradients;
  const auto sum_of = [&](int64_t unit) {
    sharded_.open(weight(unit));
    return weight(unit).sum().item<double>();
  };
  sharded_.fill(weight(0), at::full(weight(0).sizes(), 7.0F));
  EXPECT_EQ(sum_of(0), 7 * 150);
  sharded_.fill(weight(0), at::full(weight(0).sizes(), 8.0F));
  sharded_.close();
  EXPECT_EQ(sum_of(0), 8 * 150);
  EXPECT_EQ(sum_of(1), 2 * 155);
  sharded_.close();
}

// The numbers of a pass; the weight stays what is opened, filled and trained.
TEST(ShardedParameters, GatherCastsInTheirPlace) {
  const at::NoGradGuard no_gradients;
  const at::Tensor numbers = at::arange(150).div(7).view({5, 30});
  for (const int64_t size : {1, 3}) {
    const std::unique_ptr<Group> group = play(size - 1, size);
    ledger::Ledger ledger;
    ShardedParameters sharded(*group, size, ledger, true);
    const at::Tensor weight = at::empty({5, 30}).set_requires_grad(true), cast = at::empty({5, 30}, at::kBFloat16);
    const at::Tensor norm = at::empty({30}).set_requires_grad(true);
    for (const at::Tensor& tensor : {weight, cast, norm}) model::let_go(tensor);
    sharded.adopt({{"weight", weight, true, true, 0, cast}, {"norm", norm, true, false, 0}}, false, kAnywhere);
    sharded.open(weight);
    weight.copy_(numbers);
    sharded.open(norm);
    norm.fill_(1);
    sharded.close();
    // Pieces end where casts' cache lines do.
    const auto own = [&](const at::Tensor& whole) {
      return whole.detach().view({-1}).narrow(0, (size - 1) * 64, size == 1 ? 150 : 22);
    };
    EXPECT_TRUE(sharded.shares().back().tensor.equal(own(numbers)));
    for (const ShardedParameters::Share& share : sharded.shares()) EXPECT_FALSE(share.cast.defined());
    sharded.before(0);
    EXPECT_TRUE(own(cast).equal(own(numbers).to(at::kBFloat16)));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(cast.data_ptr()) % 64, 0U);
    EXPECT_EQ(weight.storage().nbytes(), 0U);
    EXPECT_GT(norm.storage().nbytes(), 0U);
    sharded.after(0, {});
    EXPECT_EQ(cast.storage().nbytes(), 0U);
    sharded.open(weight);
    EXPECT_TRUE(own(weight).equal(own(numbers)));
    EXPECT_EQ(cast.storage().nbytes(), 0U);
    sharded.close();
  }
}

TEST_F(AloneInItsGroup, OpensAndFillsStatesAsItsParameters) {
  std::vector<std::pair<std::string, at::Tensor>> states;
  for (const model::Parameter& share : sharded_.shares()) {
    if (share.trained) states.emplace_back("exp_avg." + share.name, at::zeros_like(share.tensor));
  }
  sharded_.adopt_states(states, std::vector<int64_t>(states.size(), 1));
  ASSERT_EQ(sharded_.whole_states().size(), 4U);
  for (const auto& [name, whole] : sharded_.whole_states()) sharded_.fill(whole, at::full(whole.sizes(), 3.0F));
  for (const auto& [name, state] : states) EXPECT_EQ(state.sum().item<double>(), 3.0 * state.numel()) << name;
  sharded_.open(sharded_.whole_states().front().second);
  EXPECT_EQ(sharded_.whole_states().front().second.sum().item<double>(), 450);
  sharded_.close();
}

}  // namespace
}  // namespace fathom::dist
