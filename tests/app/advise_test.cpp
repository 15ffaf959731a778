// `advise` and `memory_budget` as a user meets them: what fits trains, and what does not is refused by the plan, then
// by the allocator.
#include <gmock/gmock.h>

#include "base/json_value.h"
#include "tests/app/run.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kShort = 20;  // examples at the start of the data, so that a checkpoint is there before the long ones

class Advise : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    write("model/config.json", R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 256,
"hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
"max_position_embeddings": 512, "rms_norm_eps": 1e-5, "hidden_act": "silu", "dtype": "float32"})");
    std::string lines;
    for (int i = 0; i < 2 * kShort; ++i) {
      Json ids = Json::array();
      for (int j = 0; j < (i < kShort ? 12 : 96); ++j) ids.push_back((7 * i + 3 * j) % 250);
      lines += Json{{"input_ids", ids}}.dump() + "\n";
    }
    write("data.jsonl", lines);
    write("run.yaml", R"(model_name_or_path: model
random_init: true
device: cpu
num_threads: 1
train_file: data.jsonl
shuffle: false
per_device_train_batch_size: 5
num_train_epochs: 1
save_steps: 1
save_total_limit: 1
output_dir: out
)");
  }

  Json advise(const std::string& arguments) {
    const Outcome outcome = run("advise run.yaml --json " + arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    return parse_json(outcome.output, "advise");
  }
  Outcome train(const std::string& arguments) {
    fs::remove_all(folder_ / "out");
    return run("train run.yaml " + arguments);
  }
  std::string newest_checkpoint() {
    for (const auto& entry : fs::directory_iterator(folder_ / "out")) {
      if (entry.path().filename().string().rfind("checkpoint-", 0) == 0) return entry.path();
    }
    return "";
  }
};

struct Case {
  const char* vary;  // as `advise` calls it
  const char* key;
  int64_t value;  // whose need is the budget
  const char* settings;
};
constexpr Case kCases[] = {
    {"batch", "per_device_train_batch_size", 5, ""},
    {"batch", "per_device_train_batch_size", 9, "bf16=true"},
    {"batch", "per_device_train_batch_size", 13, "method=lora dtype=bfloat16"},
    {"batch", "per_device_train_batch_size", 4, "gradient_checkpointing=true attn_implementation=math"},
    {"batch", "per_device_train_batch_size", 3, "gradient_accumulation_steps=2 dtype=bfloat16"},
    {"length", "max_length", 40, ""},
    {"length", "max_length", 71, "method=lora bf16=true"},
    {"length", "max_length", 64, "attn_implementation=math"},
    {"rank", "lora_r", 3, "method=lora"},
    {"rank", "lora_r", 24, "method=lora target_modules=all-linear"},
};

class AdviseUnderABudget : public Advise, public ::testing::WithParamInterface<Case> {};

TEST_P(AdviseUnderABudget, TheAnswerTrainsAndTheNextValueDoesNot) {
  const Case& each = GetParam();
  const std::string settings = each.settings, key = std::string(each.key) + "=";
  const Json generous = advise("--vary " + std::string(each.vary) + " --budget 1GiB " + settings + " " + key +
                               std::to_string(each.value));
  const std::string budget = std::to_string(generous.at("target").at("as_it_is").at("dry_run").get<int64_t>() + 1);
  const Json advice = advise("--vary " + std::string(each.vary) + " --budget " + budget + " " + settings);
  EXPECT_EQ(advice.at("largest"), each.value);
  ASSERT_EQ(advice.at("next"), each.value + 1);
  const std::string bounded = settings + " memory_budget=" + budget + " " + key;

  const Outcome fits = train(bounded + std::to_string(each.value));
  EXPECT_EQ(fits.status, 0) << fits.errors;
  EXPECT_THAT(fits.output, HasSubstr("equal to the byte"));

  const Outcome refused = train(bounded + std::to_string(each.value + 1));
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.errors, AllOf(HasSubstr("the run does not fit: it needs"), HasSubstr("memory_budget is"),
                                    HasSubstr("the largest part is"), HasSubstr("  saves ")));
  EXPECT_FALSE(fs::exists(folder_ / "out"));

  const Outcome forced = train(bounded + std::to_string(each.value + 1) + " --force");
  EXPECT_EQ(forced.status, 1);
  EXPECT_THAT(forced.errors, AllOf(HasSubstr("out of memory"), HasSubstr("the budget (memory_budget) is"),
                                   HasSubstr("alive then"), HasSubstr("was saved; resume_from_checkpoint: auto")));
  EXPECT_FALSE(fs::exists(folder_ / "out" / "model.safetensors"));
  const std::string checkpoint = newest_checkpoint();
  ASSERT_NE(checkpoint, "");
  EXPECT_EQ(run("inspect '" + checkpoint + "'").status, 0) << "its hashes are as they were written";
}

INSTANTIATE_TEST_SUITE_P(Ten, AdviseUnderABudget, ::testing::ValuesIn(kCases), [](const auto& info) {
  return std::string(info.param.vary) + "_" + std::to_string(info.index);
});

TEST_F(Advise, CombinationsThatItNamesTrain) {
  for (const std::string budget : {"2200000", "3000000", "4500000"}) {
    const Json advice = advise("--budget " + budget);
    ASSERT_TRUE(advice.at("best").at("fits").get<bool>()) << budget;
    EXPECT_LE(advice.at("best").at("dry_run").get<int64_t>(), std::stoll(budget));
    std::string settings;
    for (const Json& setting : advice.at("best").at("settings")) settings += setting.get<std::string>() + " ";
    EXPECT_EQ(train(settings + "memory_budget=" + budget).status, 0) << settings;
    if (advice.at("next").is_null()) continue;
    EXPECT_FALSE(advice.at("next").at("fits").get<bool>());
    settings.clear();
    for (const Json& setting : advice.at("next").at("settings")) settings += setting.get<std::string>() + " ";
    EXPECT_EQ(train(settings + "memory_budget=" + budget).status, 1) << settings;
  }
}

// Examples longer than that have no place in the model, and are cut whatever max_length is.
TEST_F(Advise, VariesLengthAsFarAsPositionsAreLearned) {
  write("model/config.json", R"({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "vocab_size": 256,
"n_embd": 24, "n_layer": 1, "n_head": 2, "n_positions": 64, "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0})");
  EXPECT_EQ(advise("--vary length --budget 1GiB").at("largest"), 64);
  const std::string estimate = "estimate run.yaml train_file= max_length=";
  EXPECT_EQ(run(estimate + "64").status, 0);
  const Outcome refused = run(estimate + "65");
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.errors, AllOf(HasSubstr("max_length: 65"), HasSubstr("set max_length: 64")));
}

TEST_F(Advise, SaysWhatNothingFits) {
  const Outcome nothing = run("advise run.yaml --budget 1MiB --keep method,precision");
  EXPECT_EQ(nothing.status, 0);
  EXPECT_THAT(nothing.output, AllOf(HasSubstr("nothing fits"), HasSubstr("smallest, "), HasSubstr(" saves ")));
  const Outcome batch = run("advise run.yaml --budget 1MiB --vary batch");
  EXPECT_THAT(batch.output, HasSubstr("Not even the smallest value fits"));
  const Outcome plenty = run("advise run.yaml --budget 1GiB --vary length");
  EXPECT_THAT(plenty.output, AllOf(HasSubstr("max_length=96"), HasSubstr("largest that makes a difference")));
}

TEST_F(Advise, WarnsOfADamagedCalibrationOnce) {
  const std::string environment = "FATHOM_CALIBRATION='" + (folder_ / "records").string() + "' ";
  const Outcome measured = run("doctor --calibrate --json", "OMP_NUM_THREADS=1 " + environment);
  ASSERT_EQ(measured.status, 0) << measured.errors;
  for (const auto& entry : fs::directory_iterator(folder_ / "records")) {
    write("records/" + entry.path().filename().string(), "{\"schema_version\": 1}");
  }
  const Outcome outcome = run("advise run.yaml --budget 3MiB", environment);
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  const std::string warning = "plans go on without calibration";
  const size_t first = outcome.errors.find(warning);
  ASSERT_NE(first, std::string::npos) << outcome.errors;
  EXPECT_EQ(outcome.errors.find(warning, first + 1), std::string::npos) << outcome.errors;
}

TEST_F(Advise, WarnsOnceOfADamagedTableOfOperators) {
  fs::create_directories(folder_ / "records/gpu-times");
  write("records/gpu-times/nvidia-h100-80gb-hbm3.json", "{\"schema_version\": 1}");
  const Outcome outcome = run("advise run.yaml --gpu H100 device=auto --keep method",
                              "FATHOM_CALIBRATION='" + (folder_ / "records").string() + "' ");
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  const std::string warning = "plans go on without this table";
  const size_t first = outcome.errors.find(warning);
  ASSERT_NE(first, std::string::npos) << outcome.errors;
  EXPECT_EQ(outcome.errors.find(warning, first + 1), std::string::npos) << outcome.errors;
}

TEST_F(Advise, TakesAModelAloneAndAGpu) {
  const Outcome batch =
      run("advise model --budget 64MiB --vary batch max_length=64 random_init=true device=cpu --json");
  ASSERT_EQ(batch.status, 0) << batch.errors;
  const Json largest = parse_json(batch.output, "advise");
  EXPECT_GT(largest.at("largest").get<int64_t>(), 40) << "no data bound it";
  EXPECT_EQ(largest.at("next").get<int64_t>(), largest.at("largest").get<int64_t>() + 1);
  const Outcome gpu = run("advise run.yaml --gpu H100 --gpu-memory 100MiB --vary batch device=auto --json");
  ASSERT_EQ(gpu.status, 0) << gpu.errors;
  EXPECT_EQ(parse_json(gpu.output, "advise").at("target").at("capacity"), 100 << 20);
}

// Full training of 135 million parameters in FP32 takes 2.2 GB: two GPUs of 1.5 GiB share it.
TEST_F(Advise, TriesNumbersOfGpus) {
  const auto ask = [&](const std::string& arguments) {
    const Outcome outcome =
        run("advise smollm2-135m --gpu L4 max_length=64 per_device_train_batch_size=1 " + arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    return outcome.output;
  };
  const Json shared = Json::parse(ask("--gpus 4 --budget 1.5GiB --keep method,precision,optimizer --json"));
  const Json& settings = shared.at("best").at("settings");
  EXPECT_NE(std::find(settings.begin(), settings.end(), "strategy=fsdp"), settings.end()) << settings;
  EXPECT_EQ(shared.at("best").at("fits"), true);
  const Json tried = Json::parse(
      ask("--vary gpus --budget 1.5GiB --keep precision,optimizer,checkpointing,attention,updates,host,batch --json"));
  ASSERT_EQ(tried.at("gpus").size(), 7U);
  EXPECT_EQ(tried.at("gpus")[0].at("best"), nullptr) << "one does not hold it";
  EXPECT_NE(tried.at("gpus")[2].at("best"), nullptr);
  EXPECT_EQ(tried.at("fastest"), 64);
  EXPECT_LE(tried.at("cheapest"), 4);
}

TEST_F(Advise, TheBudgetBoundsAGpuToo) {
  const std::string on_gpu = "device=auto --phantom-gpu A100-80GB ";
  const Json advice = advise("device=auto --gpu A100-80GB --budget 40MiB --vary batch");
  ASSERT_FALSE(advice.at("largest").is_null());
  ASSERT_FALSE(advice.at("next").is_null());
  const std::string batch = "memory_budget=40MiB per_device_train_batch_size=";
  const Outcome fits = train(on_gpu + batch + advice.at("largest").dump());
  EXPECT_EQ(fits.status, 0) << fits.errors;
  const Outcome refused = train(on_gpu + batch + advice.at("next").dump());
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.errors, AllOf(HasSubstr("the run does not fit"), HasSubstr("memory_budget is 40.00 MiB")));
  const Outcome forced = train(on_gpu + batch + advice.at("next").dump() + " --force");
  EXPECT_EQ(forced.status, 1);
  EXPECT_THAT(forced.errors, HasSubstr("out of memory"));
}

// Before its first checkpoint: the page says that it failed, and the next try what can be done with what it left.
TEST_F(Advise, ARunThatRanOutOfMemorySaysSoAfterwards) {
  ASSERT_EQ(train("memory_budget=1500000 --force").status, 1);
  EXPECT_THAT(read_file(folder_ / "out" / "report.html"),
              HasSubstr("This run failed, and what was measured is missing"));
  EXPECT_THAT(
      run("train run.yaml").errors,
      HasSubstr("already holds a run; it has no checkpoint: set resume_from_checkpoint: auto to begin it anew"));
  EXPECT_EQ(run("train run.yaml resume_from_checkpoint=auto").status, 0);
  EXPECT_THAT(run("train run.yaml").errors, HasSubstr("set resume_from_checkpoint: auto to continue it, choose"));
  fs::remove_all(newest_checkpoint());
  EXPECT_THAT(run("train run.yaml").errors, HasSubstr("already holds a run; choose another output_dir, or remove"));
}

// Full training on BF16 weights that are rounded to nearest: warned of by whatever plans it, proposed by nothing.
TEST_F(Advise, WeightsRoundedToNearestAreWarnedOfAndNeverProposed) {
  const std::string warning = "lose most updates";
  for (const char* command : {"advise run.yaml --budget 40MiB ", "estimate run.yaml ", "train run.yaml "}) {
    EXPECT_THAT(run(std::string(command) + "dtype=bfloat16").errors, HasSubstr(warning)) << command;
    fs::remove_all(folder_ / "out");
    const Outcome sound = run(std::string(command) + "dtype=bfloat16 master_weights=stochastic");
    EXPECT_THAT(sound.errors, ::testing::Not(HasSubstr(warning))) << command;
    fs::remove_all(folder_ / "out");
  }
  const Outcome refused = train("memory_budget=1500000");
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.errors, AllOf(HasSubstr("the run does not fit"), HasSubstr("master_weights=stochastic"),
                                    ::testing::Not(HasSubstr("  dtype=bfloat16  "))));
  for (const char* command : {"advise run.yaml --keep method --budget 40MiB ", "estimate run.yaml "}) {
    const std::string saved = command + std::string("method=lora modules_to_save=[norm] dtype=");
    EXPECT_THAT(run(saved + "bfloat16").errors, HasSubstr("what modules_to_save trains lies in BF16")) << command;
  }
  EXPECT_THAT(run("estimate run.yaml method=lora modules_to_save=[norm] dtype=float32 bf16=true").errors,
              ::testing::Not(HasSubstr("rounded to nearest")));
  const Outcome kept = run("advise run.yaml --keep precision dtype=bfloat16");
  EXPECT_EQ(kept.status, 2);
  EXPECT_THAT(kept.errors, HasSubstr("never advised; set master_weights=stochastic or fp32"));
}

// What an expert says of a 1.2B model: all of it in BF16 on a desktop's 24 GB, of which some stay free; in FP16 where
// there is no BF16.
TEST_F(Advise, AnswersAsAnExpertOfItsGpu) {
  const auto ask = [&](const std::string& arguments) {
    const Outcome outcome = run("advise llama-3.2-1b max_length=512 --keep method --json " + arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    return outcome.status == 0 ? parse_json(outcome.output, "advise") : Json();
  };
  const Json desktop = ask("--gpu RTX-4090");
  EXPECT_THAT(desktop.at("best").at("settings").dump(),
              AllOf(HasSubstr("master_weights="), ::testing::Not(HasSubstr("optim="))));
  EXPECT_EQ(desktop.at("best").at("update"), "the same");
  EXPECT_EQ(desktop.at("target").at("free"), int64_t{3} << 30) << "2 GiB for the driver, one for the desktop";
  EXPECT_LE(desktop.at("best").at("dry_run").get<int64_t>() + (int64_t{3} << 30),
            desktop.at("target").at("capacity").get<int64_t>());
  const Json old = ask("--gpu T4 method=lora");
  EXPECT_THAT(old.at("best").at("settings").dump(), AllOf(HasSubstr("fp16=true"), ::testing::Not(HasSubstr("bf16"))));
  const Json none = ask("--gpu RTX-4060 --gpu-memory 2GiB");
  EXPECT_TRUE(none.at("best").is_null());
  EXPECT_FALSE(none.at("smallest").at("fits").get<bool>());
  EXPECT_GE(none.at("enough").size(), 1U);
}

TEST_F(Advise, RefusesQuestionsWithoutAnAnswer) {
  const auto told = [&](const std::string& arguments) {
    const Outcome outcome = run("advise run.yaml " + arguments);
    EXPECT_EQ(outcome.status, 2) << arguments;
    return outcome.errors;
  };
  EXPECT_THAT(told("--vary rank"), HasSubstr("only adapters have a rank; add method=lora"));
  EXPECT_THAT(told("--budget 24G"), HasSubstr("--budget: expected a size from 1 MiB to 8 TiB, got '24G'; write"));
  EXPECT_THAT(told("--budget 0"), HasSubstr("from 1 MiB"));
  EXPECT_THAT(told("--vary depth"), HasSubstr("depth"));
  EXPECT_THAT(told("--vary batch --keep method"), HasSubstr("--keep is used only with --vary techniques"));
  EXPECT_THAT(told("per_device_train_batch_size=1000000 gradient_accumulation_steps=1000000"),
              AllOf(HasSubstr("gradient_accumulation_steps: expected"), HasSubstr("'1000000'")));
  EXPECT_THAT(told("memory_budget=-1"), HasSubstr("memory_budget: expected a size above 0"));
}

}  // namespace
}  // namespace fathom
