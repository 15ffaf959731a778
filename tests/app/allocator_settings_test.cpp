// PYTORCH_ALLOC_CONF on a phantom GPU: LibTorch's allocator obeys it as on a real one, and what it cannot mean is
// refused.
#include "app/allocator_settings.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/json_value.h"
#include "config/settings.h"
#include "phantom_gpu/child.h"
#include "tests/app/run.h"

namespace fathom {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(AllocatorSettings, TakesWhatLibTorchTakes) {
  for (const char* settings :
       {"", "expandable_segments:True", "expandable_segments:True,", "max_split_size_mb: 128 , backend : native",
        "garbage_collection_threshold:0.6,max_split_size_mb:64", "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]",
        "a_setting_of_tomorrow:7"}) {
    EXPECT_NO_THROW(app::check_allocator_settings("PYTORCH_ALLOC_CONF", settings)) << settings;
  }
}

TEST(AllocatorSettings, RefusesWhatIsNoList) {
  for (const char* settings : {"expandable_segments", "max_split_size_mb:", "max_split_size_mb:much", "a:1 b:2",
                               "a:1,,b:2", ",", "roundup_power2_divisions:[256:1", "max_split_size_mb:-1"}) {
    EXPECT_THROW(app::check_allocator_settings("PYTORCH_ALLOC_CONF", settings), UsageError) << settings;
  }
  EXPECT_THROW(app::check_allocator_settings("PYTORCH_ALLOC_CONF", std::string(100000, 'a')), UsageError);
}

struct Bytes {
  int64_t requested, allocated, reserved;
};

class AllocatorSettingsTest : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    write("model/config.json", R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 4003,
        "hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 6, "num_attention_heads": 12,
        "num_key_value_heads": 4, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5})");
  }

  phantom_gpu::Child start(const std::string& settings, const std::string& variable = "PYTORCH_ALLOC_CONF") const {
    return phantom_gpu::Child("/bin/sh", {"-c", (settings.empty() ? "" : variable + "=" + settings + " ") +
                                                    "exec '" FATHOM_PROGRAM
                                                    "' answer-plan --name H100 --capability 9.0 --multiprocessors 132 "
                                                    "--memory 8796093022208"});
  }
  // Every token that has a next one counts for the loss; no documents are packed.
  static Json batch(int64_t rows, int64_t length) { return {rows, length, rows * (length - 1), Json::array(), 0}; }
  Json ask(phantom_gpu::Child& child, int64_t memory_bytes = int64_t{80} << 30, const std::string& setting = "",
           int64_t taken_bytes = 0) const {
    const std::string model = (folder_ / "model").string();
    const std::string config = "model_name_or_path: " + model + "\nrandom_init: true\nbf16: true\n";
    return child.ask({{"config", config::settings_in(config + setting)},
                      {"memory_bytes", memory_bytes},
                      {"taken_bytes", taken_bytes},
                      {"placement", 0},
                      {"detail", "bytes"},
                      {"schedule",
                       {{"steps", Json::array({Json::array({batch(4, 300)}), Json::array({batch(4, 211)}),
                                               Json::array({batch(2, 300), batch(4, 100)})})},
                        {"evaluation", Json::array()},
                        {"evaluation_order", Json::array()},
                        {"events", {0, 0, 0, 1, 1, 1, 2, 2, 2}},
                        {"all_events", true},
                        {"all_shapes", true},
                        {"extent", {4 * 300, 0}}}}},
                     std::chrono::minutes(2));
  }
  Bytes bytes_with(const std::string& settings, const std::string& variable = "PYTORCH_ALLOC_CONF") const {
    phantom_gpu::Child child = start(settings, variable);
    const Json answer = ask(child);
    return {answer.at("requested"), answer.at("allocated"), answer.at("reserved")};
  }
};

TEST_F(AllocatorSettingsTest, ChangeWhatTheyNameAndNeverWhatIsRequested) {
  const Bytes plain = bytes_with("expandable_segments:False");
  EXPECT_LT(plain.requested, plain.allocated);

  const Bytes expandable = bytes_with("");  // what fathom chooses
  EXPECT_EQ(expandable.requested, plain.requested);
  EXPECT_LT(expandable.allocated, plain.allocated);  // no remainder is left unsplit
  EXPECT_LT(expandable.reserved, plain.reserved);

  const Bytes rounded = bytes_with("roundup_power2_divisions:4");
  EXPECT_EQ(rounded.requested, plain.requested);
  EXPECT_GT(rounded.allocated, plain.allocated);

  const Bytes unsplit = bytes_with("max_split_size_mb:20");
  EXPECT_EQ(unsplit.requested, plain.requested);
  EXPECT_GT(unsplit.reserved, plain.reserved);

  // 0.5 of 0.02 of 80 GiB: above that cached segments are given back before new ones are taken.
  const Bytes collected = bytes_with("garbage_collection_threshold:0.5,per_process_memory_fraction:0.02");
  EXPECT_EQ(collected.requested, plain.requested);
  EXPECT_NE(std::pair(collected.allocated, collected.reserved), std::pair(plain.allocated, plain.reserved));
}

TEST_F(AllocatorSettingsTest, LetSegmentsExpandWhereTheUserSaysNothing) {
  const auto chosen = [](const char* variable, const char* value, bool maps_memory) {
    for (const char* name : {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"}) unsetenv(name);
    if (variable != nullptr) setenv(variable, value, 1);
    app::choose_allocator_settings(maps_memory);
    const char* set = std::getenv("PYTORCH_ALLOC_CONF");
    const std::string result = set != nullptr ? set : "unset";
    for (const char* name : {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"}) unsetenv(name);
    return result;
  };
  EXPECT_EQ(chosen(nullptr, "", true), "expandable_segments:True");
  EXPECT_EQ(chosen(nullptr, "", false), "expandable_segments:False");
  EXPECT_EQ(chosen("PYTORCH_ALLOC_CONF", "max_split_size_mb:64", true), "max_split_size_mb:64");
  EXPECT_EQ(chosen("PYTORCH_ALLOC_CONF", "", true), "");
  EXPECT_EQ(chosen("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:64", true), "unset");
}

// One segment grows for all blocks of a kind, so there are no addresses to choose and a plan is no range.
TEST_F(AllocatorSettingsTest, OfSegmentsThatExpandLeaveNothingToTheirPlacement) {
  const auto range_of = [&](const std::string& environment) {
    const Outcome outcome = run("estimate model --gpu H100 --placements 6 --json bf16=true", environment);
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    return Json::parse(outcome.output).at("reserved").at("range");
  };
  const Json range = range_of("");
  EXPECT_EQ(range.at(0), range.at(1)) << range;
}

// After running out of memory LibTorch keeps the addresses of expandable segments: the child says that it is done.
TEST_F(AllocatorSettingsTest, OfSegmentsThatOutlastAQuestionEndTheChild) {
  phantom_gpu::Child child = start("expandable_segments:True");
  EXPECT_FALSE(ask(child, int64_t{4} << 30).contains("last"));
  const Json answer = ask(child, int64_t{1} << 20);
  EXPECT_TRUE(answer.contains("out_of_memory")) << answer;
  EXPECT_TRUE(answer.contains("last")) << answer;
}

TEST_F(AllocatorSettingsTest, AreTakenFromTheOlderVariableToo) {
  const Bytes one = bytes_with("roundup_power2_divisions:4"),
              other = bytes_with("roundup_power2_divisions:4", "PYTORCH_CUDA_ALLOC_CONF");
  EXPECT_EQ(one.allocated, other.allocated);
  EXPECT_EQ(one.reserved, other.reserved);
}

// The share counts from the memory of each question, not from that of the child's first one.
TEST_F(AllocatorSettingsTest, ShareTheMemoryThatIsThere) {
  phantom_gpu::Child child = start("per_process_memory_fraction:0.5");
  EXPECT_TRUE(ask(child, int64_t{4} << 30).contains("memory"));
  EXPECT_THAT(ask(child, int64_t{1} << 30).at("out_of_memory").get<std::string>(),
              AllOf(HasSubstr("capacity of 1024.00 MiB"), HasSubstr("512.00 MiB allowed")));
  EXPECT_TRUE(ask(child, int64_t{4} << 30).contains("memory"));
}

// The share counts from all of the GPU's memory, and of it and what others left the smaller holds.
TEST_F(AllocatorSettingsTest, ShareCountsWhatOthersHaveTaken) {
  const auto refusal = [&](const std::string& settings, int64_t taken_bytes) {
    phantom_gpu::Child child = start(settings);
    return ask(child, int64_t{1} << 30, "", taken_bytes).at("out_of_memory").get<std::string>();
  };
  constexpr int64_t kMiB = 1 << 20;
  EXPECT_THAT(refusal("per_process_memory_fraction:0.5", 100 * kMiB), HasSubstr("512.00 MiB allowed"));
  const std::string taken = refusal("per_process_memory_fraction:0.9", 624 * kMiB);
  EXPECT_THAT(taken, AllOf(HasSubstr("capacity of 1024.00 MiB"), HasSubstr("921.60 MiB allowed")));
  phantom_gpu::Child child = start("");
  EXPECT_TRUE(ask(child, int64_t{8} << 30, "", int64_t{4} << 30).contains("memory"));
  EXPECT_TRUE(ask(child, int64_t{8} << 30, "", (int64_t{8} << 30) - 400 * kMiB).contains("out_of_memory"));
}

// The share counts from the GPU's memory, not from the budget, and of the two the smaller holds.
TEST_F(AllocatorSettingsTest, ShareAndBudgetHoldBoth) {
  phantom_gpu::Child child = start("per_process_memory_fraction:0.5");
  const auto refusal = [&](const std::string& setting) {
    return ask(child, int64_t{1} << 30, setting).at("out_of_memory").get<std::string>();
  };
  EXPECT_THAT(refusal("memory_budget: 300MiB\n"), HasSubstr("300.00 MiB allowed"));
  EXPECT_THAT(refusal("memory_budget: 700MiB\n"), HasSubstr("512.00 MiB allowed"));
  EXPECT_THAT(refusal(""), HasSubstr("512.00 MiB allowed"));

  write("data.jsonl", "{\"input_ids\": [1, 2, 3]}\n");
  write("run.yaml", "model_name_or_path: model\nrandom_init: true\ntrain_file: data.jsonl\noutput_dir: out\n");
  for (const auto& [budget, allowed] : {std::pair{"150MiB", "150.00 MiB"}, std::pair{"600MiB", "403.35 MiB"}}) {
    const Outcome outcome = run("train run.yaml --force --phantom-gpu A100-40GB memory_budget=" + std::string(budget),
                                "PYTORCH_ALLOC_CONF=per_process_memory_fraction:0.01 ");
    std::filesystem::remove_all(folder_ / "out");
    EXPECT_EQ(outcome.status, 1);
    EXPECT_THAT(outcome.errors, AllOf(HasSubstr("out of memory"), HasSubstr(allowed)));
  }
}

// Nothing stays of one question's budget: the next has all the memory.
TEST_F(AllocatorSettingsTest, ABudgetEndsWithItsQuestion) {
  phantom_gpu::Child child = start("garbage_collection_threshold:0.5"),
                     other = start("garbage_collection_threshold:0.5");
  EXPECT_THAT(ask(child, int64_t{2} << 30, "memory_budget: 300MiB\n").at("out_of_memory").get<std::string>(),
              HasSubstr("300.00 MiB allowed"));
  const Json after = ask(child, int64_t{2} << 30), first = ask(other, int64_t{2} << 30);
  EXPECT_TRUE(after.contains("memory"));
  for (const char* figure : {"requested", "allocated", "reserved"}) EXPECT_EQ(after.at(figure), first.at(figure));
}

TEST_F(AllocatorSettingsTest, ThatLibTorchRefusesEndAsErrors) {
  const std::pair<const char*, const char*> cases[] = {
      {"no_such_setting:1", "Unrecognized key 'no_such_setting'"},
      {"max_split_size_mb:1", "max_split_size_mb too small"},
      {"expandable_segments:maybe", "Expected 'True' or 'False'"},
      {"garbage_collection_threshold:7", "garbage_collect_threshold is invalid"},
      {"roundup_power2_divisions:3", "power of 2"},
      {"garbage_collection_threshold:half", "not a number"},
      {"max_split_size_mb:99999999999999999999", "not a number"},
      {"backend:nonsense", "Unknown allocator backend"},
      {"backend:cudaMallocAsync", "whose memory can neither be predicted nor counted"},
      {"expandable_segments", "is not a list of settings"}};
  for (const auto& [settings, reason] : cases) {
    for (const char* command : {"estimate model --gpu H100", "train run.yaml --phantom-gpu H100"}) {
      write("data.jsonl", "{\"input_ids\": [1, 2, 3]}\n");
      write("run.yaml", "model_name_or_path: model\nrandom_init: true\ntrain_file: data.jsonl\noutput_dir: out\n");
      const Outcome outcome = run(command, std::string("PYTORCH_ALLOC_CONF=") + settings + " ");
      EXPECT_THAT(outcome.status, ::testing::AnyOf(1, 2)) << command << " with " << settings;
      EXPECT_THAT(outcome.errors, HasSubstr(reason)) << command;
      EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
    }
  }
  EXPECT_EQ(run("estimate model", "PYTORCH_ALLOC_CONF=nonsense ").status, 0);  // the CPU's allocator does not read it
}

}  // namespace
}  // namespace fathom
