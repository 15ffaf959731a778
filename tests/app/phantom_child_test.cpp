// `fathom answer-plan`, the child that plays plans: many questions of one process, each answered as if it were the
// first.
#include <gmock/gmock.h>

#include "base/error.h"
#include "base/json_value.h"
#include "config/settings.h"
#include "phantom_gpu/child.h"
#include "phantom_gpu/gpu.h"
#include "tests/app/run.h"

namespace fathom {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::chrono::minutes kPatience{2};

class PhantomChild : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    write("model/config.json", R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 1003,
        "hidden_size": 256, "intermediate_size": 688, "num_hidden_layers": 3, "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5})");
  }

  static phantom_gpu::Child start(const std::string& before = "") {
    return phantom_gpu::Child(
        "/bin/sh",
        {"-c", before + "exec '" FATHOM_PROGRAM "' answer-plan --name H100 --capability 9.0 --multiprocessors 132 "
                        "--memory 8796093022208"});
  }
  // Every token that has a next one counts for the loss; no documents are packed.
  static Json batch(int64_t rows, int64_t length) { return {rows, length, rows * (length - 1), Json::array(), 0}; }
  Json question(const std::string& settings = "", int64_t rows = 4, int64_t length = 192) const {
    const Json micro_batch = batch(rows, length);
    const std::string config = "model_name_or_path: " + (folder_ / "model").string() + "\nrandom_init: true\n";
    return {{"config", config::settings_in(config + settings)},
            {"memory_bytes", int64_t{80} << 30},
            {"placement", 0},
            {"detail", "bytes"},
            {"schedule",
             {{"steps", Json::array({Json::array({micro_batch, micro_batch})})},
              {"evaluation", Json::array({batch(2, 100)})},
              {"evaluation_order", {0}},
              {"events", {0, 0, 0, 0, -1}},
              {"all_events", true},
              {"all_shapes", true},
              {"extent", {std::max<int64_t>(rows * length, int64_t{2} * 100), 0}}}}};
  }
  static Json changed(Json question, const Json& changes) {
    question.update(changes);
    return question;
  }
  // Without what the clock says.
  static Json ask(phantom_gpu::Child& child, const Json& question) {
    Json answer = child.ask(question, kPatience);
    answer.erase("seconds");
    return answer;
  }
};

// One process plays one after the other: other methods and lengths, placements, capacities that do not suffice,
// questions that have no answer. The same question has the same answer in every byte, before, between and after them,
// and in a process of its own.
TEST_F(PhantomChild, AnswersAsIfEachQuestionWereItsFirst) {
  const Json subject = changed(question("bf16: true\n"), {{"detail", "timeline"}});
  const std::vector<Json> others = {question("method: lora\ngradient_checkpointing: true\n", 2, 700),
                                    changed(question("bf16: true\n"), {{"placement", 7}}),
                                    changed(question(), {{"memory_bytes", int64_t{48} << 20}}),
                                    question("no_such_key: 1\n"),
                                    changed(question("bf16: true\n", 64, 1024), {{"memory_bytes", int64_t{1} << 30}}),
                                    changed(question(), {{"memory_bytes", phantom_gpu::kUnlimitedBytes}})};
  for (const char* settings : {"", kFixedSegments}) {
    std::unique_ptr<phantom_gpu::Child> child(new phantom_gpu::Child(start(settings)));
    const Json first = ask(*child, subject);
    ASSERT_TRUE(first.contains("memory")) << first;
    for (const Json& other : others) {
      const Json seen = ask(*child, other);
      if (seen.contains("last")) child.reset(new phantom_gpu::Child(start(settings)));
      EXPECT_EQ(ask(*child, subject), first) << "after " << other;
      phantom_gpu::Child fresh = start(settings);
      EXPECT_EQ(ask(fresh, other), seen) << other;
    }
  }
}

TEST_F(PhantomChild, RunsOutOfItsPretendedMemoryAndGoesOn) {
  phantom_gpu::Child child = start(kFixedSegments);
  const Json answer = ask(child, changed(question(), {{"memory_bytes", int64_t{48} << 20}}));
  EXPECT_THAT(answer.at("out_of_memory").get<std::string>(),
              AllOf(HasSubstr("CUDA out of memory"), HasSubstr("total capacity of 48.00 MiB")));
  EXPECT_LE(answer.at("reserved").get<int64_t>(), int64_t{48} << 20);
  EXPECT_FALSE(answer.contains("memory"));
  EXPECT_FALSE(answer.contains("last"));
  EXPECT_TRUE(ask(child, question()).contains("memory"));
}

// The least memory that the run fits into is found by asking; one granule less is not enough, and the run that fits so
// tightly has asked for the same bytes.
TEST_F(PhantomChild, PlaysManyCapacities) {
  phantom_gpu::Child child = start();
  const Json plenty = ask(child, question());
  int64_t fits = plenty.at("reserved").get<int64_t>() >> 21, not_enough = 0;
  while (fits - not_enough > 1) {
    const int64_t middle = (fits + not_enough) / 2;
    const Json answer = ask(child, changed(question(), {{"memory_bytes", middle << 21}}));
    (answer.contains("out_of_memory") ? not_enough : fits) = middle;
  }
  const Json tight = ask(child, changed(question(), {{"memory_bytes", fits << 21}}));
  EXPECT_EQ(tight.at("requested"), plenty.at("requested"));
  EXPECT_EQ(tight.at("memory"), plenty.at("memory"));
  EXPECT_LE(tight.at("reserved").get<int64_t>(), fits << 21);
  EXPECT_GE(fits << 21, plenty.at("requested").get<int64_t>());
}

TEST_F(PhantomChild, GivesTheTimelineAndTheArithmeticWhenAsked) {
  phantom_gpu::Child child = start();
  const Json without = ask(child, question("bf16: true\n"));
  EXPECT_FALSE(without.contains("timeline"));
  Json with = ask(child, changed(question("bf16: true\n"), {{"detail", "timeline"}}));
  EXPECT_EQ(with.at("timeline").at("peak"), with.at("memory").at("peak"));
  EXPECT_GT(with.at("timeline").at("blocks").size(), 100U);
  EXPECT_GT(with.at("arithmetic").at("forward").at("matrix_flops").get<int64_t>(), 0);
  with.erase("timeline");
  with["arithmetic"] = without.at("arithmetic");
  EXPECT_EQ(with, without);
}

// 32 groups of parameters in each update, eight micro-batches in each step: what repeats itself is played once where
// no one asks for a timeline.
TEST_F(PhantomChild, TellsTheSameWhateverItLeavesOut) {
  for (const char* settings : {"", kFixedSegments}) {
    phantom_gpu::Child child = start(settings);
    const Json micro_batch = batch(1, 64);
    Json subject = question();
    subject["config"] = config::settings_in("model_name_or_path: " FATHOM_SOURCE_DIR
                                            "/configs/models/smollm2-135m\nrandom_init: true\n"
                                            "dtype: bfloat16\noptim: adamw_8bit\nmaster_weights: stochastic\n");
    subject["schedule"]["steps"] = Json::array({Json(8, micro_batch)});
    Json all = ask(child, changed(subject, {{"detail", "timeline"}}));
    Json some = ask(child, changed(subject, {{"detail", "arithmetic"}}));
    ASSERT_TRUE(some.contains("memory")) << some;
    EXPECT_GT(some.at("arithmetic").at("optimizer_step").at("bytes_moved"), 0);
    all.erase("timeline");
    EXPECT_EQ(some, all);
    some["arithmetic"] = ask(child, subject).at("arithmetic");
    EXPECT_EQ(ask(child, subject), some);
  }
}

// Not even the first allocation, by which LibTorch is asked for its attention kernel, has room.
TEST_F(PhantomChild, RunsOutOfTheLeastMemory) {
  phantom_gpu::Child child = start(kFixedSegments);
  for (const int64_t bytes : {1, 1 << 20}) {
    EXPECT_THAT(ask(child, changed(question(), {{"memory_bytes", bytes}})).at("out_of_memory").get<std::string>(),
                HasSubstr("out of memory"));
  }
  EXPECT_TRUE(ask(child, question()).contains("memory"));
}

TEST_F(PhantomChild, SaysWhyAQuestionHasNoAnswer) {
  phantom_gpu::Child child = start();
  const auto error = [&](const Json& question) { return ask(child, question).value("error", "no error"); };
  EXPECT_THAT(error(Json::object()), HasSubstr("another form than expected"));
  EXPECT_THAT(error(question("lora_r: many\n")), HasSubstr("lora_r"));
  EXPECT_THAT(error(changed(question(), {{"memory_bytes", 0}})), HasSubstr("0 bytes of memory"));
  EXPECT_THAT(error(changed(question(), {{"config", {{"model_name_or_path", "nowhere"}}}})), HasSubstr("nowhere"));
  EXPECT_TRUE(ask(child, question()).contains("memory"));
}

TEST_F(PhantomChild, DiesWithAReason) {
  const auto error = [&](phantom_gpu::Child& child) {
    try {
      return "no error, but " + child.ask(question(), kPatience).dump();
    } catch (const Error& failure) {
      return std::string(failure.what());
    }
  };
  phantom_gpu::Child poor = start("ulimit -v 8000000; ");  // KiB: too little to pretend 80 GiB
  EXPECT_THAT(error(poor), AllOf(HasSubstr("exit status"), HasSubstr("ulimit -v")));
  phantom_gpu::Child without_torch = start("FATHOM_TORCH=/nowhere ");
  EXPECT_THAT(error(without_torch), AllOf(HasSubstr("exit status"), HasSubstr("FATHOM_TORCH")));
}

// The plan of a command: sixteen placements by two children side by side.
TEST_F(PhantomChild, GivesPlansTheirRanges) {
  const auto estimate = [&](const std::string& placements) {
    const Outcome outcome = run("estimate model --gpu H100 max_length=512 --json --placements " + placements);
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    return parse_json(outcome.output, "estimate");
  };
  const Json one = estimate("1"), many = estimate("16");
  EXPECT_EQ(many.at("peak"), one.at("peak"));
  EXPECT_EQ(many.at("components"), one.at("components"));
  for (const char* figure : {"allocated", "reserved"}) {
    const int64_t first = one.at(figure).at("dry_run"), lowest = many.at(figure).at("range").at(0),
                  highest = many.at(figure).at("range").at(1);
    EXPECT_EQ(many.at(figure).at("dry_run"), Json(first));
    EXPECT_LE(lowest, first);
    EXPECT_GE(highest, first);
    EXPECT_EQ(one.at(figure).at("range"), Json({first, first}));
  }
  EXPECT_EQ(run("estimate model --gpu H100 --placements 0").status, 2);
}

}  // namespace
}  // namespace fathom
