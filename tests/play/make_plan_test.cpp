// Plans for a GPU from answers that are given here: what is asked, and what is made of it.
#include "play/make_plan.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <mutex>

#include "base/error.h"
#include "base/file.h"
#include "base/json_value.h"
#include "phantom_gpu/gpu.h"
#include "plan/fit.h"
#include "play/dry_run.h"
#include "tests/train/tiny.h"

namespace fathom::play {
namespace {

using ::testing::HasSubstr;

class PlanGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "fathom_plan_XXXXXX").string();
    path_ = mkdtemp(pattern.data());
    write_file_atomically(path_ / "config.json", R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
        "vocab_size": 101, "hidden_size": 24, "intermediate_size": 56, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2})");
    gpu_.name = "H100";
    gpu_.compute_capability = "9.0";
    gpu_.multiprocessors = 132;
    gpu_.memory_bytes = 1000;
  }
  void TearDown() override { std::filesystem::remove_all(path_); }

  // Each placement reserves `reserved(placement)` bytes; more than the question leaves it is out of memory.
  plan::Plan plan(int placements, const std::function<int64_t(uint64_t)>& reserved) {
    config::RunConfig config = train::testing::tiny_config();
    config.model_name_or_path = path_;
    config.memory_budget = budget_;
    const arch::Run run = arch::resolve(config, train::testing::tiny_architecture());
    const weights::ModelFolder folder(path_, /*weights_required=*/false);
    const Subject subject{run, folder,
                          plan::make_workload(run, schedule::imagined_schedule({{schedule::whole_batch(2, 8)}}, {}))};
    const GpuRoom room{.gpu = gpu_, .taken_bytes = taken_bytes_, .placements = placements};
    return plan_gpu(subject, room, [&](const plan::PhantomQuestion& question) {
      const std::lock_guard lock(mutex_);
      asked_.push_back(question);
      plan::PhantomAnswer answer;
      answer.requested = 500;
      answer.exact = exact_;
      answer.reserved = reserved(question.placement);
      answer.allocated = answer.reserved - 100;
      answer.memory.peak = 500;
      if (answer.reserved > question.memory_bytes - question.taken_bytes) answer.out_of_memory = "CUDA out of memory";
      const int64_t limit = question.config.memory_budget;
      if (limit > 0 && answer.reserved + held_twice_ > limit) answer.out_of_memory = "CUDA out of memory";
      return answer;
    });
  }

  std::filesystem::path path_;
  config::GpuSpec gpu_;
  int64_t taken_bytes_ = 0, budget_ = 0;
  int64_t held_twice_ = 0;  // that the allocator holds against a limit although it is reserved already
  bool exact_ = true;
  std::mutex mutex_;
  std::vector<plan::PhantomQuestion> asked_;
};

TEST_F(PlanGpu, AsksForTheTimelineOnceAndForEveryPlacement) {
  const plan::Plan plan = this->plan(16, [](uint64_t placement) { return placement == 9 ? 900 : 700 + placement; });
  ASSERT_EQ(asked_.size(), 16U);
  EXPECT_EQ(asked_.front().detail, plan::Detail::kTimeline);
  std::vector<uint64_t> placements;
  for (const plan::PhantomQuestion& question : asked_) {
    placements.push_back(question.placement);
    EXPECT_EQ(question.detail, question.placement == 0 ? plan::Detail::kTimeline : plan::Detail::kBytes);
    EXPECT_EQ(question.memory_bytes, 1000);
  }
  EXPECT_THAT(placements, ::testing::UnorderedElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
  EXPECT_TRUE(plan.gpu->fits);
  EXPECT_EQ(plan.gpu->reserved, 700);
  EXPECT_EQ(plan.gpu->reserved_range, (plan::ByteRange{700, 900}));
  EXPECT_EQ(plan.gpu->allocated_range, (plan::ByteRange{600, 800}));
  EXPECT_EQ(plan.gpu->placements, 16);
}

TEST_F(PlanGpu, AsksAgainWithoutLimitWhereTheMemoryRunsOut) {
  const plan::Plan plan = this->plan(2, [](uint64_t placement) { return placement == 0 ? 1500 : 1400; });
  ASSERT_EQ(asked_.size(), 3U);
  EXPECT_EQ(asked_[1].memory_bytes, phantom_gpu::kUnlimitedBytes);
  EXPECT_EQ(asked_[2].memory_bytes, phantom_gpu::kUnlimitedBytes);
  EXPECT_FALSE(plan.gpu->fits);
  EXPECT_EQ(plan.gpu->reserved_range, (plan::ByteRange{1400, 1500}));
  EXPECT_EQ(plan.gpu->missing_bytes, 400);
  EXPECT_EQ(plan.dry_run.peak, 500);
}

// As where segments expand, and a limit is held against what is allocated alone.
TEST_F(PlanGpu, DoesNotFitABudgetThatTheAllocatorExceedsWithoutAnError) {
  budget_ = 650;
  held_twice_ = -100;
  const plan::Plan plan = this->plan(1, [](uint64_t) { return 700; });
  EXPECT_FALSE(plan.gpu->fits);
  EXPECT_EQ(plan.gpu->missing_bytes, 50);
}

TEST_F(PlanGpu, LeavesToOthersWhatTheyHaveTaken) {
  taken_bytes_ = 300;
  const plan::Plan fitting = plan(1, [](uint64_t) { return 700; });
  EXPECT_EQ(asked_.at(0).memory_bytes, 1000);
  EXPECT_EQ(asked_.at(0).taken_bytes, 300);
  EXPECT_TRUE(fitting.gpu->fits);
  EXPECT_EQ(fitting.target.capacity_bytes, 700);
  const plan::Plan beyond = plan(1, [](uint64_t) { return 701; });
  EXPECT_EQ(asked_.at(2).taken_bytes, 0);
  EXPECT_FALSE(beyond.gpu->fits);
  EXPECT_EQ(beyond.gpu->missing_bytes, 1);
}

TEST_F(PlanGpu, GivesALimitWhereABudgetIsSet) {
  budget_ = 700;
  EXPECT_EQ(plan(1, [](uint64_t) { return 700; }).gpu->limit, 700);
  EXPECT_EQ(asked_.size(), 1U);
  budget_ = 0;
  EXPECT_EQ(plan(1, [](uint64_t) { return 700; }).gpu->limit, 0);
}

// What is held twice makes a limit bind that the run would stay within.
TEST_F(PlanGpu, GivesAGranuleMoreWhereTheBudgetHoldsWhatIsReserved) {
  budget_ = 700;
  held_twice_ = 90;
  const plan::Plan fitting = plan(2, [](uint64_t) { return 700; });
  ASSERT_EQ(asked_.size(), 4U) << "strictly, without a limit, with a granule more in both placements";
  EXPECT_TRUE(fitting.gpu->fits);
  EXPECT_EQ(fitting.gpu->limit, 700 + (int64_t{20} << 20));
  EXPECT_EQ(asked_[1].memory_bytes, phantom_gpu::kUnlimitedBytes);
  EXPECT_EQ(asked_[3].memory_bytes, 1000);
  const plan::Plan beyond = plan(1, [](uint64_t) { return 701; });
  EXPECT_FALSE(beyond.gpu->fits);
  EXPECT_EQ(beyond.gpu->missing_bytes, 1);
  EXPECT_EQ(beyond.gpu->limit, 700);
}

TEST_F(PlanGpu, DoesNotFitIfOnePlacementDoesNot) {
  const plan::Plan plan = this->plan(4, [](uint64_t placement) { return placement == 3 ? 1001 : 990; });
  EXPECT_FALSE(plan.gpu->fits);
  EXPECT_EQ(plan.gpu->missing_bytes, 1);
}

TEST_F(PlanGpu, HandsOnWhyThereIsNoAnswer) {
  const auto error_of = [&](const std::function<int64_t(uint64_t)>& reserved) {
    try {
      plan(8, reserved);
      return std::string("no error");
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  EXPECT_THAT(error_of([](uint64_t) -> int64_t { throw Error("the child died"); }), HasSubstr("the child died"));
  EXPECT_THAT(error_of([](uint64_t placement) -> int64_t {
                if (placement == 5) throw Error("the child hangs");
                return 700;
              }),
              HasSubstr("the child hangs"));
  EXPECT_THAT(error_of([](uint64_t) { return phantom_gpu::kUnlimitedBytes + 1; }), HasSubstr("more than any GPU"));
}

// Of a long run representatives are played: what they reserved is no promise, the upper end of the range is.
TEST_F(PlanGpu, BoundsWhatRepresentativesReserved) {
  exact_ = false;
  const int64_t played = int64_t{8} << 30;
  gpu_.memory_bytes = int64_t{80} << 30;
  const plan::Plan bounded = plan(1, [&](uint64_t) { return played; });
  EXPECT_TRUE(bounded.gpu->bound);
  EXPECT_EQ(bounded.gpu->reserved_range, (plan::ByteRange{played, played + played / plan::kBoundPart}));
  EXPECT_EQ(plan::fit_of(bounded), plan::Fit::kFits);
  gpu_.memory_bytes = played + played / (2 * plan::kBoundPart);
  const plan::Plan near = plan(1, [&](uint64_t) { return played; });
  EXPECT_EQ(plan::fit_of(near), plan::Fit::kUncertain);
}

TEST(Exchange, CarriesQuestionsAndAnswers) {
  plan::PhantomQuestion question;
  question.config.method = config::Method::kLora;
  question.config.model_name_or_path = "a: model";
  question.memory_bytes = int64_t{80} << 30;
  question.placement = 7;
  question.detail = plan::Detail::kTimeline;
  question.schedule = schedule::imagined_schedule({{{4, 128, 500}, {2, 64, 1}}, {{1, 9, 8}}}, {{3, 5, 12}});
  question.schedule.answers = {{4, 1, 30, 12}, {1, 1, 30, 13}};
  question.schedule.of_all = {0, 5};
  question.schedule.others_evaluate_one_more = true;
  question.trace = "events";
  question.operator_times = "{}";
  const Json said = to_json(question);
  EXPECT_EQ(to_json(plan::question_from_json(said)), said);
  EXPECT_EQ(plan::question_from_json(said).config, question.config);
  EXPECT_EQ(plan::question_from_json(said).schedule, question.schedule);
  EXPECT_EQ(plan::question_from_json(said).trace, "events");
  EXPECT_EQ(plan::question_from_json(said).operator_times, "{}");
  Json wrong = said;
  wrong["config"]["method"] = "lara";
  EXPECT_THROW(plan::question_from_json(wrong), Error);
  wrong["config"] = "method: lora";
  EXPECT_THROW(plan::question_from_json(wrong), Error);
  question.schedule.events.push_back(2);
  EXPECT_THROW(plan::question_from_json(to_json(question)), Error);
  EXPECT_THROW(plan::question_from_json(Json::object()), Error);

  plan::PhantomAnswer answer;
  answer.memory.peak = 9;
  answer.timeline.blocks.push_back({.bytes = 3});
  answer.timeline.events = 1;
  answer.arithmetic.forward.matrix_flops = int64_t{1} << 60;
  answer.arithmetic.backward.device = {1, 2, 3, 4};
  answer.attention_kernel = "flash attention";
  answer.requested = 9;
  const Json heard = to_json(answer);
  EXPECT_EQ(to_json(plan::answer_from_json(heard)), heard);
  EXPECT_EQ(plan::answer_from_json(heard).timeline, answer.timeline);
  EXPECT_EQ(plan::answer_from_json(heard).arithmetic, answer.arithmetic);
  answer.out_of_memory = "CUDA out of memory";
  EXPECT_EQ(plan::answer_from_json(to_json(answer)).out_of_memory, answer.out_of_memory);
  EXPECT_THROW(plan::answer_from_json(Json{{"error", "what"}}), Error);
  EXPECT_THROW(plan::answer_from_json(Json::object()), Error);
}

}  // namespace
}  // namespace fathom::play
