// Packed batches: each document's loss and gradients are those it has alone, whatever lies beside it.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "base/json_value.h"
#include "tests/train/tiny.h"

namespace fathom::train {
namespace {

const std::vector<int64_t> kPackedLengths = {4, 40, 7, 31, 2, 1, 12, 5, 22, 9};

config::RunConfig packing(config::RunConfig config) {
  config.packing = true;
  return config;
}

std::vector<int64_t> all_rows(const data::Dataset& dataset) {
  std::vector<int64_t> rows(static_cast<size_t>(dataset.size()));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

// One row of the batch is one document.
std::vector<data::Batch> alone(const data::Dataset& dataset) {
  std::vector<data::Batch> batches;
  for (int64_t row = 0; row < dataset.size(); ++row) {
    if (dataset.length(row) > 1) batches.push_back(data::make_batch(dataset, {row}, 0));
  }
  return batches;
}

std::vector<at::Tensor> moments_of(Trainer& trainer) {
  std::vector<at::Tensor> moments;
  for (const auto& [name, tensor] : trainer.optimizer().state()) {
    if (name.rfind("exp_avg.", 0) == 0) moments.push_back(tensor.clone());
  }
  return moments;
}

double largest_difference(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, (a[i] - b[i]).norm().item<double>() / b[i].norm().item<double>());
  }
  return largest;
}

struct Setting {
  const char* name;
  config::Attention attention;
  bool checkpointing, lora;
  int64_t window;
};

class Packing : public ::testing::TestWithParam<Setting> {
 protected:
  static config::RunConfig config() {
    config::RunConfig config = testing::tiny_config();
    config.attn_implementation = GetParam().attention;
    config.gradient_checkpointing = GetParam().checkpointing;
    if (GetParam().lora) config.method = config::Method::kLora;
    return config;
  }
  static std::unique_ptr<Trainer> trainer(const config::RunConfig& config) {
    arch::Architecture architecture = testing::tiny_architecture();
    for (arch::LayerSpec& layer : architecture.layers) layer.attention().window = GetParam().window;
    auto trainer = std::make_unique<Trainer>(arch::resolve(config, architecture), 4096,
                                             Placement{at::kCPU, &testing::cpu_ledger(), nullptr});
    trainer->model().initialise(7);
    trainer->loaded();
    return trainer;
  }
};

TEST_P(Packing, GivesTheLossOfEachDocumentAlone) {
  const data::Dataset dataset = testing::random_dataset(kPackedLengths, 101, 3);
  const auto packed = trainer(packing(config())), apart = trainer(config());
  for (const data::Batch& document : alone(dataset)) {
    // Of all the targets in the row those of one document count.
    data::Batch row = data::make_packed_batch(dataset, all_rows(dataset));
    const auto found = std::search(row.ids.begin(), row.ids.end(), document.ids.begin(), document.ids.end());
    ASSERT_NE(found, row.ids.end());
    const int64_t first = found - row.ids.begin();
    for (int64_t i = 0; i < row.length; ++i) {
      if (i < first || i >= first + document.length) row.targets[static_cast<size_t>(i)] = data::kIgnored;
    }
    row.target_count = document.target_count;
    const double one = apart->evaluate({&document, 1}).loss, among = packed->evaluate({&row, 1}).loss;
    EXPECT_LE(std::abs(one - among) / one, 1e-5) << document.length << " tokens";
  }
}

TEST_P(Packing, GivesTheGradientsOfTheSameDocumentsPaddedAndAccumulated) {
  const data::Dataset dataset = testing::random_dataset(kPackedLengths, 101, 3);
  const auto packed = trainer(packing(config())), padded = trainer(config()), accumulated = trainer(packing(config()));
  const data::Batch row = data::make_packed_batch(dataset, all_rows(dataset));
  const std::vector<data::Batch> halves = {data::make_packed_batch(dataset, {0, 1, 2, 3, 4}),
                                           data::make_packed_batch(dataset, {5, 6, 7, 8, 9})};
  const data::Batch rectangle = data::make_batch(dataset, all_rows(dataset), 0);
  const double loss = packed->step({&row, 1}, 1e-3).loss, expected = padded->step({&rectangle, 1}, 1e-3).loss;
  const double in_halves = accumulated->step(halves, 1e-3).loss;
  EXPECT_LE(std::abs(loss - expected) / expected, 1e-5);
  EXPECT_LE(std::abs(in_halves - expected) / expected, 1e-5);
  EXPECT_LE(largest_difference(moments_of(*packed), moments_of(*padded)), 1e-5);
  EXPECT_LE(largest_difference(moments_of(*accumulated), moments_of(*padded)), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Settings, Packing,
                         ::testing::Values(Setting{"flash", config::Attention::kFlash, false, false, 0},
                                           Setting{"math", config::Attention::kMath, false, false, 0},
                                           Setting{"checkpointed", config::Attention::kFlash, true, false, 0},
                                           Setting{"windowed", config::Attention::kFlash, true, false, 6},
                                           Setting{"math_windowed", config::Attention::kMath, false, false, 6},
                                           Setting{"lora", config::Attention::kFlash, true, true, 0}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Packing, LeavesDropoutRepeatableUnderCheckpointing) {
  const data::Dataset dataset = testing::random_dataset(kPackedLengths, 101, 3);
  config::RunConfig config = packing(testing::tiny_config());
  config.method = config::Method::kLora;
  config.lora_dropout = 0.3;
  const std::vector<data::Batch> batches = {data::make_packed_batch(dataset, {0, 1, 2, 3, 4}),
                                            data::make_packed_batch(dataset, {5, 6, 7, 8, 9})};
  std::vector<double> losses;
  for (const bool checkpointing : {false, true}) {
    config.gradient_checkpointing = checkpointing;
    const auto trainer = testing::tiny_trainer(config);
    at::manual_seed(5);
    for (int step = 0; step < 3; ++step) losses.push_back(trainer->step(batches, 1e-2).loss);
  }
  for (size_t step = 0; step < 3; ++step) EXPECT_NEAR(losses[step], losses[step + 3], 1e-5 * losses[step]);
}

// No token of one document reaches another, bit by bit.
TEST(Packing, AChangedDocumentLeavesTheOthersLogitsTheSameBits) {
  const data::Dataset dataset = testing::random_dataset(kPackedLengths, 101, 3);
  const auto trainer = testing::tiny_trainer(packing(testing::tiny_config()));
  const at::NoGradGuard no_gradients;
  BatchRing ring(4096, {.rows = false, .documents = true}, at::kCPU, testing::cpu_ledger());
  data::Batch batch = data::make_packed_batch(dataset, all_rows(dataset));
  const DeviceBatch before = ring.put(batch);
  const at::Tensor logits = trainer->model().forward(before.inputs).clone();
  const int64_t start = 4 + 40, length = 7;  // the third document
  batch.ids[static_cast<size_t>(start) + 2] = (batch.ids[static_cast<size_t>(start) + 2] + 1) % 101;
  const DeviceBatch after = ring.put(batch);
  const at::Tensor changed = trainer->model().forward(after.inputs);
  EXPECT_TRUE(at::equal(logits.narrow(1, 0, start), changed.narrow(1, 0, start)));
  EXPECT_FALSE(at::equal(logits.narrow(1, start, length), changed.narrow(1, start, length)));
  const int64_t rest = batch.length - start - length;
  EXPECT_TRUE(at::equal(logits.narrow(1, start + length, rest), changed.narrow(1, start + length, rest)));
}

}  // namespace
}  // namespace fathom::train
