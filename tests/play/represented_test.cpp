// What represents a long run takes as much as all of it: settings of the memory matrix on random ragged data, with up
// to hundreds of micro-batches a step, alone and as one of several processes.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "config/to_yaml.h"
#include "plan/estimate/workload.h"
#include "play/dry_run.h"
#include "tests/dice.h"
#include "tests/play/matrix_run.h"
#include "tests/seed.h"

namespace fathom::play::testing {
namespace {

using fathom::testing::Dice;

// Short ones with a rare long one among them, or any; the last tokens count, or all.
data::Dataset draw_data(Dice& dice, int64_t count, int64_t longest, const arch::Architecture& architecture) {
  const bool rare = dice.chance(0.5), prompts = architecture.encoder.has_value() || dice.chance(0.5);
  std::vector<data::Example> examples;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t most = rare && !dice.chance(0.02) ? std::min<int64_t>(6, longest) : longest,
                  length = dice.between(2, most);
    data::Example& example = examples.emplace_back();
    for (int64_t token = 0; token < length; ++token) {
      example.ids.push_back(static_cast<int32_t>(dice.between(0, architecture.vocab_size - 1)));
    }
    example.labels = example.ids;
    const int64_t ignored = prompts ? dice.between(1, length - 1) : 0;
    std::fill_n(example.labels.begin(), ignored, static_cast<int32_t>(data::kIgnored));
  }
  data::Dataset dataset(examples);
  if (architecture.encoder) dataset.set_decoder_start(0);
  return dataset;
}

config::RunConfig draw_config(Dice& dice, config::RunConfig config) {
  config.per_device_train_batch_size = dice.between(1, 4);
  config.per_device_eval_batch_size = dice.between(1, 4);
  config.num_train_epochs = static_cast<double>(dice.between(1, 2));
  config.gradient_accumulation_steps = dice.chance(0.3) ? dice.between(1, 4) : dice.between(5, 300);
  config.seed = dice.between(0, 1'000);
  config.eval_strategy = dice.chance(0.5) ? config::Cadence::kEpoch : config::Cadence::kNo;
  if (!config.packing && dice.chance(0.2)) config.pad_to_multiple_of = dice.between(2, 16);
  if (dice.chance(0.4)) {
    config.num_processes = dice.between(2, 3);
    config.strategy = dice.chance(0.5) ? config::Strategy::kDdp : config::Strategy::kFsdp;
    config.reshard_after_forward = config.strategy == config::Strategy::kDdp || dice.chance(0.5);
  }
  return config;
}

TEST(Represented, TakesWhatAllOfARunTakesToTheByte) {
  Dice dice(fathom::testing::seed());
  int represented = 0, of_several = 0;
  for (plan::testing::MatrixRun& run : plan::testing::sample_of_matrix(fathom::testing::seed(), 16)) {
    const config::RunConfig config = draw_config(dice, run.config);
    const int64_t longest = dice.between(4, 70);
    // Where examples, of two tokens at least, are packed, three processes have a batch of four rows each.
    const int64_t least = config.packing ? 3 * 4 * longest / 2 : 40;
    const data::Dataset train = draw_data(dice, dice.between(least, least + 360), longest, run.architecture),
                        validation = draw_data(dice, dice.between(1, 40), longest, run.architecture);
    const int64_t rank = dice.between(0, config.num_processes - 1);
    config::RunConfig long_enough = config;
    long_enough.max_length = longest;
    const auto played = [&](int64_t layers) {
      schedule::Schedule schedule =
          schedule::make_schedule(arch::resolve(long_enough, run.architecture), train, validation, {}, layers, rank);
      const plan::Workload workload =
          plan::make_workload(arch::resolve(long_enough, run.architecture), std::move(schedule));
      represented += workload.schedule.all_shapes ? 0 : 1;
      return dry_run_cpu(arch::resolve(long_enough, run.architecture), nullptr, workload, plan::Detail::kBytes).memory;
    };
    const memory::Memory whole = played(1'000'000'000);
    of_several += config.num_processes > 1 ? 1 : 0;
    for (const int64_t layers : {int64_t{1}, schedule::played_on(/*gpu=*/false)}) {
      const memory::Memory by_few = played(layers);
      const std::vector<std::string> found = differences(by_few, whole);
      if (!found.empty()) {
        ADD_FAILURE() << run.name << " as " << layers << ": " << found.size() << " figures differ\n  " << found.front()
                      << "\n"
                      << config::to_yaml(long_enough) << "longest " << longest << ", rank " << rank;
      }
      EXPECT_GE(by_few.kernel_scratch, whole.kernel_scratch) << run.name;
    }
  }
  EXPECT_GE(represented, 16);
  EXPECT_GE(of_several, 1);
}

}  // namespace
}  // namespace fathom::play::testing
