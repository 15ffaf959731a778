// The memory matrix is what it says: large, always the same, and every pair of levels meets in it.
#include <gtest/gtest.h>

#include <set>

#include "tests/plan/memory_matrix.h"

namespace fathom::plan::testing {
namespace {

TEST(MemoryMatrix, EveryTwoLevelsMeet) {
  const std::vector<std::vector<size_t>> design = matrix_levels();
  const std::vector<MatrixAxis>& axes = matrix_axes();
  EXPECT_GE(design.size(), 200);
  for (size_t a = 0; a < axes.size(); ++a) {
    for (size_t b = a + 1; b < axes.size(); ++b) {
      std::set<std::pair<size_t, size_t>> seen;
      for (const std::vector<size_t>& levels : design) seen.insert({levels.at(a), levels.at(b)});
      EXPECT_EQ(seen.size(), axes[a].levels.size() * axes[b].levels.size()) << axes[a].name << ", " << axes[b].name;
    }
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
    EXPECT_EQ(model::parameter_count(first[i].shape), model::parameter_count(second[i].shape));
  }
}

bool is_largest(const train::BatchShape& batch, const config::RunConfig& config) {
  const auto documents = static_cast<int64_t>(batch.document_lengths.size());
  return (config.packing ? documents : batch.rows) == config.per_device_train_batch_size &&
         train::longest_sequence(batch) == config.max_length;
}

TEST(MemoryMatrix, EveryRunReachesItsLargestBatch) {
  for (const MatrixRun& run : memory_matrix()) {
    SCOPED_TRACE(run.name);
    bool reached = false;
    for (const train::StepShape& step : run.steps) {
      EXPECT_FALSE(step.empty());
      EXPECT_LE(static_cast<int64_t>(step.size()), run.config.gradient_accumulation_steps);
      for (const train::BatchShape& batch : step) {
        EXPECT_EQ(batch.document_lengths.empty(), !run.config.packing);
        reached = reached || is_largest(batch, run.config);
      }
    }
    EXPECT_TRUE(reached);
    EXPECT_EQ(run.evaluations.empty(), run.config.eval_strategy == config::Cadence::kNo);
    EXPECT_EQ(run.shape.num_attention_heads % run.shape.num_key_value_heads, 0);
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
