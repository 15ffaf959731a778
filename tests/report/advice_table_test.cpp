// Advice as people read it and as programs do.
#include "report/advice_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "base/bytes.h"
#include "base/json_value.h"
#include "report/table.h"

namespace fathom::report {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class AdviceTable : public ::testing::Test {
 protected:
  AdviceTable() {
    question_.target.name = "CPU";
    question_.target.capacity_bytes = 24 * kGiB;
    best_.run = question_.run.config;
    best_.run.gradient_checkpointing = true;
    best_.techniques = {"full training", "checkpointing"};
    best_.formula = 20 * kGiB;
    best_.proof = plan::Proof{21 * kGiB, true, false};
    best_.arithmetic.forward.matrix_flops = 3000;
    next_ = best_;
    next_.run.gradient_checkpointing = false;
    next_.techniques = {"full training", "no checkpointing"};
    next_.proof = plan::Proof{30 * kGiB, false, false};
    next_.seconds = 1.25;
  }

  plan::Question question_;
  plan::Combination best_, next_;
  const AdviceSubject subject_{question_, {30 * kGiB, false, false}};
};

// A billion tokens: one GPU at 1,000 tokens a second 277.8 hours, four at 3,200 all together 347.2.
TEST_F(AdviceTable, NumbersOfGpusStandBesideTheirSpeedAndPrice) {
  plan::Combination one = best_, four = best_;
  one.tokens = four.tokens = 2000;
  one.seconds = 2;
  four.seconds = 2.5;
  four.run.num_processes = 4;
  four.run.strategy = config::Strategy::kFsdp;
  const std::vector<OfGpus> rows = {{1, one}, {2, std::nullopt}, {4, four}};
  const std::string text = format_gpus(subject_, rows, 2);
  EXPECT_THAT(text, HasSubstr(R"(
   1  full training, checkpointing  21.00 GiB      1000      277.8  555.56
   2  nothing fits
   4  full training, checkpointing  21.00 GiB      3200      347.2  694.44
)"));
  EXPECT_THAT(text, HasSubstr("Cheapest that fits, on 1 GPU:\n  gradient_checkpointing=true\n"));
  EXPECT_THAT(text, HasSubstr("Fastest that fits, on 4 GPUs:\n  num_processes=4 strategy=fsdp"));
  EXPECT_THAT(text, HasSubstr("measured by nobody"));
  const Json json = gpus_json(subject_, rows, 0);
  EXPECT_EQ(json.at("cheapest"), 1);
  EXPECT_EQ(json.at("fastest"), 4);
  EXPECT_EQ(json.at("gpus")[1].at("best"), nullptr);
  EXPECT_EQ(json.at("gpus")[2].at("dollars_for_1e9_tokens"), nullptr) << "no price is known";
  EXPECT_EQ(gpus_json(subject_, {{1, std::nullopt}}, 2).at("cheapest"), nullptr);
  one.seconds = 2.515;  // four are cheaper by half a percent
  EXPECT_EQ(gpus_json(subject_, {{1, one}, {4, four}}, 2).at("cheapest"), 1);
  one.seconds = 2.6;
  EXPECT_EQ(gpus_json(subject_, {{1, one}, {4, four}}, 2).at("cheapest"), 4);
}

TEST_F(AdviceTable, TheLargestValueStandsBesideTheNext) {
  plan::Largest largest;
  largest.values = {1, 100};
  largest.reckoned = 12;
  largest.dry_runs = 3;
  largest.fits = plan::Candidate{question_.run.config, 23 * kGiB, plan::Proof{23 * kGiB, true, false}};
  largest.fits->run.per_device_train_batch_size = 7;
  largest.exceeds = plan::Candidate{question_.run.config, 25 * kGiB, plan::Proof{25 * kGiB, false, false}};
  EXPECT_EQ(format_largest(subject_, plan::Vary::kBatch, largest),
            R"(On the CPU, within 24.00 GiB for live bytes and kernel scratch. As it is, the
  run needs 30.00 GiB and does not fit.

per_device_train_batch_size      needs
────────────────────────────────────────────────────
7                            23.00 GiB  fits
8                            25.00 GiB  does not fit

Largest that fits:
  per_device_train_batch_size=7
12 values by formula, 3 by dry run.
)");
  const Json json = largest_json(subject_, plan::Vary::kBatch, largest);
  EXPECT_EQ(json.at("largest"), 7);
  EXPECT_EQ(json.at("next"), 8);
  EXPECT_EQ(json.at("fits").at("settings"), Json::array({"per_device_train_batch_size=7"}));
  EXPECT_EQ(json.at("exceeds").at("dry_run"), 25 * kGiB);
  largest.exceeds.reset();
  EXPECT_THAT(format_largest(subject_, plan::Vary::kBatch, largest), HasSubstr("largest that makes a difference"));
  largest.fits.reset();
  EXPECT_THAT(format_largest(subject_, plan::Vary::kBatch, largest), HasSubstr("Not even the smallest value fits"));
}

TEST_F(AdviceTable, SettingsToPasteAndWhatIsFaster) {
  plan::Advice advice;
  advice.best = best_;
  advice.next = next_;
  advice.fitting = {best_};
  advice.combinations = 504;
  plan::Remedy remedy;
  remedy.settings = {"bf16=true"};
  remedy.note = "matrix products in BF16";
  remedy.saved_bytes = kGiB;
  const std::string text = format_advice(subject_, advice, nullptr, {remedy});
  EXPECT_THAT(text, AllOf(HasSubstr("full training, checkpointing  21.00 GiB  fits  3e-09 TFLOP"),
                          HasSubstr("Least time:\n  gradient_checkpointing=true\n"),
                          HasSubstr("no checkpointing, needs 30.00 GiB and does\n  not fit (dry run)."),
                          HasSubstr("504 combinations"), HasSubstr("bf16=true                  1.00 GiB")));
  EXPECT_THAT(text, Not(HasSubstr("Near the limit")));
  const Json json = advice_json(subject_, advice, nullptr, {remedy});
  EXPECT_EQ(json.at("best").at("settings"), Json::array({"gradient_checkpointing=true"}));
  EXPECT_TRUE(json.at("best").at("expected_seconds").is_null());
  EXPECT_EQ(json.at("next").at("expected_seconds"), 1.25);
  EXPECT_TRUE(json.at("same_method").is_null());
  EXPECT_EQ(json.at("alone").at(0).at("saved"), kGiB);
}

TEST_F(AdviceTable, SaysWhereNothingFitsAndWhatKeepsTheMethod) {
  plan::Advice advice, none;
  advice.best = best_;
  advice.best->proof->near_limit = true;
  none.smallest = next_;
  const std::string text = format_advice(subject_, advice, &none, {});
  EXPECT_THAT(text, AllOf(HasSubstr("No combination is faster."), HasSubstr("Near the limit: it fits only if"),
                          HasSubstr("Least time with method: full: nothing fits, with any setting that saves memory.\n"
                                    "  The smallest, full training, no checkpointing, needs 30.00 GiB.\n"),
                          Not(HasSubstr("It would fit"))));
  none.enough = {"H200 (139.80 GiB)", "B200 (178.35 GiB)"};
  EXPECT_THAT(format_advice(subject_, none, nullptr, {}),
              HasSubstr("It would fit, by dry run, on H200 (139.80 GiB), B200 (178.35 GiB)."));
  none.enough->clear();
  EXPECT_THAT(format_advice(subject_, none, nullptr, {}), HasSubstr("No GPU of configs/gpus.yaml would do."));
}

TEST_F(AdviceTable, SaysWhatChangesTheUpdate) {
  plan::Advice advice;
  advice.best = best_;
  EXPECT_THAT(format_advice(subject_, advice, nullptr, {}), Not(HasSubstr("optimizer")));
  advice.best->change = plan::UpdateChange::kRounded;
  EXPECT_THAT(format_advice(subject_, advice, nullptr, {}), HasSubstr("makes the same update"));
  advice.best->change = plan::UpdateChange::kAnother;
  EXPECT_THAT(format_advice(subject_, advice, nullptr, {}), HasSubstr("a learning rate of its"));
  EXPECT_EQ(advice_json(subject_, advice, nullptr, {}).at("best").at("update"), "another");
}

// On a GPU, not on a CPU: what no run there has shown, what lies with the host, and what there is without.
TEST_F(AdviceTable, SaysWhatNoGpuHasRun) {
  plan::Question gpu = question_;
  gpu.target.device = config::Device::kCuda;
  gpu.target.name = "RTX-4090";
  plan::Advice advice;
  advice.best = best_;
  advice.best->run.offload_optimizer = advice.best->run.optimizer_in_backward = true;
  advice.best->run.max_grad_norm = 0;
  advice.best->change = plan::UpdateChange::kUnclipped;
  advice.best->turn = plan::Turn::kUntried;
  advice.best->host_bytes = 15 * kGiB;
  advice.best->seconds = 2.0;
  advice.best->host_seconds = 0.25;
  advice.smallest_tried = next_;
  advice.enough = {"H100 (79.10 GiB)"};
  const AdviceSubject on_gpu{gpu, {30 * kGiB, false, false}};
  const std::string text = format_advice(on_gpu, advice, nullptr, {});
  EXPECT_THAT(text, AllOf(HasSubstr("Gradients are not clipped (max_grad_norm=0)"),
                          HasSubstr("15.00 GiB lie in the host's memory, pinned; copies add 0.25 s to a step."),
                          HasSubstr("No GPU has run offload_optimizer and optimizer_in_backward yet"),
                          HasSubstr("no checkpointing, needs\n  30.00 GiB.\nIt would fit, by dry run, on H100")));
  const Json json = advice_json(on_gpu, advice, nullptr, {});
  EXPECT_EQ(json.at("best").at("not_run_on_gpus"), Json::array({"offload_optimizer", "optimizer_in_backward"}));
  EXPECT_EQ(json.at("best").at("host_bytes"), 15 * kGiB);
  EXPECT_EQ(json.at("smallest_tried").at("dry_run"), 30 * kGiB);
  EXPECT_THAT(format_advice(subject_, advice, nullptr, {}), Not(HasSubstr("No GPU has run")));

  plan::Advice close;
  close.best = best_;
  close.best->seconds = 2.0;
  close.untried = advice.best;
  close.untried->seconds = 1.9;
  EXPECT_THAT(format_advice(on_gpu, close, nullptr, {}),
              AllOf(HasSubstr("is expected to take 5.0 %"), HasSubstr("offload_optimizer=true")));
}

TEST_F(AdviceTable, SaysWhereItIsOrderedByRoom) {
  plan::Advice advice;
  advice.best = best_;
  advice.by_room = true;
  const std::string text = format_advice(subject_, advice, nullptr, {});
  EXPECT_THAT(text, AllOf(HasSubstr("Most room:\n"), HasSubstr("this leaves the most room"),
                          Not(HasSubstr("Least time")), Not(HasSubstr("No combination is faster"))));
}

// A shape that was named without a config has no settings of its own.
TEST_F(AdviceTable, TellsDefaultsFromWhatWasAsked) {
  arch::Run run;
  EXPECT_EQ(describe_defaults({}, run), "the defaults (full, FP32, 8 × 1,024)");
  run.config.max_length = 2048;
  run.config.method = config::Method::kLora;
  run.precision = {DType::kF32, DType::kBF16, DType::kBF16};
  EXPECT_EQ(describe_defaults({"max_length=2048", "bf16=true"}, run),
            "max_length=2048, bf16=true and else the defaults (LoRA, BF16 autocast, 8 × 2,048)");
  AdviceSubject shape = subject_;
  shape.defaults = "the defaults (full, FP32, 8 × 1,024)";
  plan::Advice advice;
  advice.best = best_;
  EXPECT_THAT(
      format_advice(shape, advice, nullptr, {}),
      AllOf(
          HasSubstr("With the\n  defaults (full, FP32, 8 × 1,024) a run would need 30.00 GiB, which does not\n  fit."),
          Not(HasSubstr("As it is"))));
}

// However long names, settings and notes are.
TEST_F(AdviceTable, SaysWhyFasterRowsComeLast) {
  plan::Advice advice;
  advice.best = best_;
  advice.fitting = {best_};
  EXPECT_THAT(format_advice(subject_, advice, nullptr, {}), Not(HasSubstr("come last")));
  advice.fitting.push_back(best_);
  advice.fitting.back().change = plan::UpdateChange::kAnother;
  EXPECT_THAT(format_advice(subject_, advice, nullptr, {}),
              HasSubstr("Rows with another optimizer than the run's own come last"));
}

TEST_F(AdviceTable, NoLineIsWiderThanATerminal) {
  plan::Advice advice;
  advice.best = best_;
  advice.best->techniques = {"full training",    "BF16 rounded stochastically", "AdamW in 8 bits",
                             "no checkpointing", "memory-efficient attention",  "16 × 1,024 accumulated"};
  advice.best->run.method = config::Method::kLora;
  advice.best->run.bf16 = true;
  advice.best->run.optim = config::Optimizer::kAdamW8bit;
  advice.best->run.per_device_train_batch_size = 1024;
  advice.best->run.gradient_accumulation_steps = 1024;
  advice.best->seconds = 12345.6;
  advice.best->change = plan::UpdateChange::kAnother;
  advice.fitting = {*advice.best};
  advice.next = next_;
  plan::Remedy remedy;
  remedy.settings = {"per_device_train_batch_size=1", "gradient_accumulation_steps=1048576", "bf16=true"};
  remedy.note = "another update, by signs: one number kept instead of two; wants a lower rate";
  remedy.saved_bytes = remedy.peak = 1023 * kGiB;
  remedy.work = 1.0;
  std::istringstream lines(format_advice(subject_, advice, &advice, {remedy}));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(display_width(line), kTerminalColumns) << line;
}

// In a shell a backslash joins the lines.
TEST_F(AdviceTable, LongSettingsCanBePasted) {
  plan::Advice advice;
  advice.best = best_;
  advice.best->run.per_device_train_batch_size = 1;
  advice.best->run.gradient_accumulation_steps = 8;
  advice.best->run.bf16 = true;
  EXPECT_THAT(format_advice(subject_, advice, nullptr, {}),
              HasSubstr("  bf16=true per_device_train_batch_size=1 gradient_accumulation_steps=8 \\\n"
                        "    gradient_checkpointing=true\n"));
}

TEST_F(AdviceTable, SaysWhereTheDryRunsDidNotSettleIt) {
  plan::Advice advice;
  advice.best = best_;
  advice.dry_runs = 40;
  EXPECT_THAT(format_advice(subject_, advice, nullptr, {}), HasSubstr("No combination is faster."));
  advice.settled = false;
  EXPECT_THAT(format_advice(subject_, advice, nullptr, {}),
              AllOf(HasSubstr("Not settled after 40 dry runs"), Not(HasSubstr("No combination is faster"))));
  EXPECT_EQ(advice_json(subject_, advice, nullptr, {}).at("settled"), false);
}

}  // namespace
}  // namespace fathom::report
