// The memory matrix is what it says: large, always the same, and every pair of levels that can be in effect is.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <stdexcept>

#include "tests/plan/memory_matrix.h"

namespace fathom::plan::testing {
namespace {

size_t axis_named(const std::string& name) {
  const std::vector<MatrixAxis>& axes = matrix_axes();
  for (size_t axis = 0; axis < axes.size(); ++axis) {
    if (axes[axis].name == name) return axis;
  }
  throw std::out_of_range(name);
}

size_t level_named(size_t axis, const std::string& name) {
  const std::vector<std::string>& levels = matrix_axes()[axis].levels;
  return static_cast<size_t>(std::find(levels.begin(), levels.end(), name) - levels.begin());
}

TEST(MemoryMatrix, EveryTwoLevelsThatCanMeetDo) {
  const std::vector<std::vector<size_t>> design = matrix_levels();
  EXPECT_GE(design.size(), 200);
  std::set<MatrixPair> missing = possible_pairs();
  for (const std::vector<size_t>& levels : design) {
    for (size_t a = 0; a < levels.size(); ++a) {
      for (size_t b = a + 1; b < levels.size(); ++b) missing.erase({a, levels[a], b, levels[b]});
    }
  }
  for (const auto& [a, i, b, j] : missing) {
    ADD_FAILURE() << matrix_axes()[a].name << " " << matrix_axes()[a].levels[i] << ", " << matrix_axes()[b].name << " "
                  << matrix_axes()[b].levels[j];
  }
}

// What a design of nominal levels missed; and a level is one that the run's config has.
TEST(MemoryMatrix, MastersMeetWhatTheyCan) {
  const auto meet = [](const std::string& level, const std::string& axis, const std::string& other) {
    const size_t masters = axis_named("masters"), beside = axis_named(axis);
    MatrixPair pair = {masters, level_named(masters, level), beside, level_named(beside, other)};
    if (beside < masters) pair = {pair[2], pair[3], pair[0], pair[1]};
    return possible_pairs().contains(pair);
  };
  for (const char* level : {"fp32", "stochastic"}) {
    EXPECT_TRUE(meet(level, "packing", "yes"));
    EXPECT_TRUE(meet(level, "length", "5"));
    EXPECT_TRUE(meet(level, "heads", "single"));
    EXPECT_FALSE(meet(level, "method", "lora_r1"));
    EXPECT_FALSE(meet(level, "optimizer", "lion"));
  }
  const std::vector<MatrixRun> runs = memory_matrix();
  const std::vector<std::vector<size_t>> levels = matrix_levels();
  for (size_t i = 0; i < runs.size(); ++i) {
    const bool has_masters = runs[i].config.master_weights != config::MasterWeights::kNone;
    EXPECT_EQ(levels[i][axis_named("masters")] != 0, has_masters) << runs[i].name;
    EXPECT_EQ(levels[i][axis_named("qat")] != 0, runs[i].config.qat != config::Qat::kNone) << runs[i].name;
    EXPECT_EQ(levels[i][axis_named("modules_to_save")] != 0, !runs[i].config.modules_to_save.empty()) << runs[i].name;
  }
}

TEST(MemoryMatrix, IsTheSameEveryTime) {
  const std::vector<MatrixRun> first = memory_matrix(), second = memory_matrix();
  ASSERT_EQ(first.size(), second.size());
  std::set<std::string> names;
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_TRUE(names.insert(first[i].name).second) << first[i].name;
    EXPECT_EQ(first[i].config, second[i].config);
    EXPECT_EQ(first[i].steps, second[i].steps);
    EXPECT_EQ(arch::parameter_count(first[i].architecture), arch::parameter_count(second[i].architecture));
  }
}

bool is_largest(const schedule::BatchShape& batch, const config::RunConfig& config) {
  const auto documents = static_cast<int64_t>(batch.document_lengths.size());
  return (config.packing ? documents : batch.rows) == config.per_device_train_batch_size &&
         schedule::longest_sequence(batch) == config.max_length;
}

TEST(MemoryMatrix, EveryRunReachesItsLargestBatch) {
  for (const MatrixRun& run : memory_matrix()) {
    SCOPED_TRACE(run.name);
    bool reached = false;
    for (const schedule::StepShape& step : run.steps) {
      EXPECT_FALSE(step.empty());
      EXPECT_LE(static_cast<int64_t>(step.size()), run.config.gradient_accumulation_steps);
      for (const schedule::BatchShape& batch : step) {
        EXPECT_EQ(batch.document_lengths.empty(), !run.config.packing);
        reached = reached || is_largest(batch, run.config);
      }
    }
    EXPECT_TRUE(reached);
    EXPECT_EQ(run.evaluations.empty(), run.config.eval_strategy == config::Cadence::kNo);
    for (const arch::LayerSpec& layer : run.architecture.layers) {
      if (!layer.attends()) continue;
      EXPECT_EQ(layer.attention().heads % layer.attention().key_value_heads, 0);
    }
  }
}

TEST(MemoryMatrix, IsSampledBySeed) {
  const std::vector<MatrixRun> first = sample_of_matrix(1, 40), again = sample_of_matrix(1, 40);
  const std::vector<MatrixRun> other = sample_of_matrix(2, 40);
  ASSERT_EQ(first.size(), 40);
  size_t equal = 0;
  for (size_t i = 0; i < 40; ++i) {
    EXPECT_EQ(first[i].name, again[i].name);
    equal += first[i].name == other[i].name;
  }
  EXPECT_LT(equal, 40);
}

}  // namespace
}  // namespace fathom::plan::testing
