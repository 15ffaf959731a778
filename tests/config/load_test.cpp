// Configs in: what is taken, and what is said about everything else.
#include "config/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "config/checks.h"
#include "config/keys.h"

namespace fathom::config {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kLeast = "model_name_or_path: m\ntrain_file: t.jsonl\noutput_dir: out\n";

RunConfig parse(const std::string& lines, const std::vector<std::string>& overrides = {}) {
  return parse_config(kLeast + lines, "run.yaml", overrides);
}

// The problems that more lines after the first three bring.
std::string problems(const std::string& lines, const std::vector<std::string>& overrides = {}) {
  try {
    parse(lines, overrides);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no problem";
}

TEST(Load, TakesEveryKindOfValue) {
  const RunConfig run = parse(
      "method: lora\nlora_r: 16\nlora_alpha: 32\ntarget_modules: [q_proj, 'up_proj']\ndtype: bfloat16\nbf16: true\n"
      "learning_rate: 1e-4\nmax_steps: -1\nwarmup_steps: 0.05\nlr_scheduler_type: constant_with_warmup\n"
      "completion_only_loss: false\nvalidation_file: \"v file.jsonl\"\neval_strategy: no\nsave_strategy: epoch\n"
      "resume_from_checkpoint: auto\nattn_implementation: math\ndevice: cpu\n");
  EXPECT_EQ(run.method, Method::kLora);
  EXPECT_EQ(run.lora_r, 16);
  EXPECT_EQ(run.lora_alpha, 32);
  EXPECT_EQ(run.target_modules, (std::vector<std::string>{"q_proj", "up_proj"}));
  EXPECT_EQ(run.dtype, DType::kBF16);
  EXPECT_TRUE(run.bf16);
  EXPECT_EQ(run.learning_rate, 1e-4);
  EXPECT_EQ(run.max_steps, -1);
  EXPECT_EQ(run.warmup_steps, 0.05);
  EXPECT_EQ(run.lr_scheduler_type, Schedule::kConstantWithWarmup);
  EXPECT_EQ(run.completion_only_loss, false);
  EXPECT_EQ(run.validation_file, std::vector<std::string>{"v file.jsonl"});
  EXPECT_EQ(run.eval_strategy, Cadence::kNo);
  EXPECT_EQ(run.save_strategy, Cadence::kEpoch);
  EXPECT_EQ(run.resume_from_checkpoint, "auto");
  EXPECT_EQ(run.attn_implementation, Attention::kMath);
  EXPECT_EQ(run.device, Device::kCpu);
}

TEST(Load, TakesModulesToSaveBesideAdaptersAlone) {
  const RunConfig run = parse("method: lora\nmodules_to_save: [embed_tokens, lm_head]\n");
  EXPECT_EQ(run.modules_to_save, (std::vector<std::string>{"embed_tokens", "lm_head"}));
  EXPECT_THAT(problems("method: lora\nmodules_to_save: norm\n"), HasSubstr("write [norm]"));
  EXPECT_THAT(problems("method: lora\nmodules_to_save: [norm, norm]\n"), HasSubstr("'norm' twice"));
  EXPECT_THAT(problems("modules_to_save: [norm]\n"),
              HasSubstr("modules_to_save: expected this key only with method: lora"));
}

TEST(Load, AFrozenBaseHasOneFormat) {
  EXPECT_TRUE(parse("method: lora\nload_in_8bit: true\n").load_in_8bit);
  EXPECT_TRUE(parse("method: lora\nload_in_fp8: true\n").load_in_fp8);
  EXPECT_TRUE(parse("method: lora\nload_in_4bit: true\nbnb_4bit_use_double_quant: true\n").bnb_4bit_use_double_quant);
  EXPECT_THAT(problems("method: lora\nload_in_8bit: true\nload_in_4bit: true\n"),
              HasSubstr("load_in_4bit: expected false with load_in_8bit: true, got true; remove one of them"));
  EXPECT_THAT(problems("load_in_8bit: true\n"), HasSubstr("load_in_8bit: expected this key only with method: lora"));
  EXPECT_THAT(problems("method: lora\nbnb_4bit_use_double_quant: true\n"),
              HasSubstr("bnb_4bit_use_double_quant: expected this key only with load_in_4bit: true"));
}

TEST(Load, QuantizationAwareTrainingRoundsNumbersWithoutDropout) {
  EXPECT_EQ(parse("qat: int8\n").qat, Qat::kInt8);
  const RunConfig run = parse("method: lora\nqat: int4\nqat_activations: int8\n");
  EXPECT_EQ(run.qat, Qat::kInt4);
  EXPECT_EQ(run.qat_activations, QatActivations::kInt8);
  EXPECT_THAT(problems("qat_activations: int8\n"),
              HasSubstr("qat_activations: expected this key only with qat: int8 or int4, got qat: none"));
  for (const char* base : {"load_in_8bit", "load_in_4bit", "load_in_fp8"}) {
    EXPECT_THAT(problems("method: lora\nqat: int4\n" + std::string(base) + ": true\n"),
                HasSubstr(std::string(base) + ": expected false with qat: int8 or int4, got true"));
  }
  EXPECT_THAT(problems("method: lora\nqat: int8\nlora_dropout: 0.1\n"),
              HasSubstr("lora_dropout: expected 0 with qat: int8 or int4, got 0.1"));
}

TEST(Load, MastersAreOfWeightsThatAreTrainedInBf16) {
  EXPECT_EQ(parse("dtype: bfloat16\nmaster_weights: fp32\n").master_weights, MasterWeights::kFp32);
  const RunConfig run = parse("dtype: bfloat16\nmaster_weights: stochastic\noptim: adamw_8bit\nadam_beta2: 0.9\n");
  EXPECT_EQ(run.master_weights, MasterWeights::kStochastic);
  EXPECT_EQ(run.optim, Optimizer::kAdamW8bit);
  EXPECT_THAT(problems("master_weights: fp32\n"),
              HasSubstr("master_weights: expected this key only with dtype: bfloat16, got no dtype"));
  EXPECT_THAT(problems("dtype: bfloat16\nmethod: lora\nmaster_weights: fp32\n"),
              HasSubstr("master_weights: expected this key only with method: full, got method: lora"));
  for (const std::string optimizer : {"lion", "sgd", "adafactor"}) {
    EXPECT_THAT(
        problems("dtype: bfloat16\nmaster_weights: stochastic\noptim: " + optimizer + "\n"),
        HasSubstr("master_weights: expected none with optim: sgd, adafactor or lion, got stochastic; remove it, or "
                  "set optim: adamw, adamw_8bit or adamw_bf16"));
  }
  EXPECT_FALSE(applies("master_weights", parse("dtype: bfloat16\nmethod: lora\n")));
  EXPECT_FALSE(applies("master_weights", parse("")));
  EXPECT_TRUE(applies("master_weights", parse("dtype: bfloat16\n")));
}

TEST(Load, CopiesAndTheirSharesAreAllProcesses) {
  const auto of = [](const std::string& keys) { return problems("strategy: fsdp\nnum_processes: 6\n" + keys); };
  EXPECT_EQ(of("dp_replicate_size: 3\n"), "no problem");
  EXPECT_EQ(of("dp_replicate_size: 6\ndp_shard_size: 1\n"), "no problem");
  EXPECT_EQ(of("dp_shard_size: 6\n"), "no problem");
  EXPECT_THAT(of("dp_replicate_size: 4\n"),
              HasSubstr("run.yaml:6:1: dp_replicate_size: expected copies that share num_processes, 6, evenly, got 4; "
                        "set a divisor of 6"));
  EXPECT_THAT(of("dp_replicate_size: 2\ndp_shard_size: 2\n"),
              HasSubstr("dp_shard_size: expected dp_replicate_size times dp_shard_size to be num_processes, 6, got 2 "
                        "times 2; remove dp_shard_size, or set both"));
  EXPECT_THAT(of("dp_shard_size: 3\n"), HasSubstr("got 1 times 3"));
  // A launcher may say how many there are.
  EXPECT_EQ(problems("strategy: fsdp\ndp_replicate_size: 2\ndp_shard_size: 2\n"), "no problem");
  for (const std::string key : {"dp_replicate_size: 2", "dp_shard_size: 2", "reshard_after_forward: false"}) {
    EXPECT_THAT(problems("strategy: auto\nnum_processes: 4\n" + key + "\n"),
                HasSubstr("expected this key only with strategy: fsdp, got strategy: auto"));
  }
  EXPECT_THAT(problems("num_processes: 4\ndp_replicate_size: 2\n"),
              HasSubstr("dp_replicate_size: expected this key only with strategy: fsdp, got strategy: ddp"));
}

TEST(Load, LeavesDefaultsWhereNothingIsSaid) {
  RunConfig expected;
  expected.model_name_or_path = "m";
  expected.train_file = {"t.jsonl"};
  expected.output_dir = "out";
  EXPECT_EQ(parse(""), expected);
  EXPECT_EQ(parse("dtype: null\ntarget_modules: ~\nvalidation_file:\n"), expected);
}

TEST(Load, TheCommandLineWins) {
  const RunConfig run =
      parse("learning_rate: 1e-4\nvalidation_file: v\n", {"learning_rate=5e-4", "target_modules=[a, b]", "method=lora",
                                                          "output_dir=a: b #c", "validation_file=", "bf16=true"});
  EXPECT_EQ(run.learning_rate, 5e-4);
  EXPECT_EQ(run.target_modules, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(run.output_dir, "a: b #c");
  EXPECT_TRUE(run.validation_file.empty());
  EXPECT_TRUE(run.bf16);
}

TEST(Load, NullOnTheCommandLineTakesAValueAway) {
  const RunConfig run = parse("method: lora\nadapter_name_or_path: a\nvalidation_file: v\nmemory_budget: 1GiB\n",
                              {"adapter_name_or_path=null", "validation_file=null", "memory_budget=null"});
  EXPECT_EQ(run.adapter_name_or_path, "");
  EXPECT_TRUE(run.validation_file.empty());
  EXPECT_EQ(run.memory_budget, 0);
  EXPECT_EQ(parse("", {"output_dir=./null"}).output_dir, "./null");
  EXPECT_EQ(parse("learning_rate: 0.5\nsave_total_limit: 3\nbf16: true\n",
                  {"learning_rate=null", "save_total_limit=", "bf16=null"}),
            parse(""));
  EXPECT_THAT(problems("learning_rate: null\n"), HasSubstr("remove the key for its default"));
}

TEST(Load, TakesAPathOrAListOfPaths) {
  using Paths = std::vector<std::string>;
  EXPECT_EQ(parse("validation_file: [a.jsonl, 'b c/*.jsonl']\n").validation_file, (Paths{"a.jsonl", "b c/*.jsonl"}));
  EXPECT_EQ(parse("", {"train_file=[a, b]"}).train_file, (Paths{"a", "b"}));
  EXPECT_EQ(parse("", {"train_file=a, b"}).train_file, Paths{"a, b"});
  EXPECT_THAT(problems("validation_file: []\n"), HasSubstr("got an empty list; remove the key"));
  EXPECT_THAT(problems("validation_file: [a, b, a]\n"), HasSubstr("got 'a' twice"));
  EXPECT_THAT(problems("validation_file: [a, [b]]\n"), HasSubstr("got a list"));
  EXPECT_THAT(problems("validation_file: {a: b}\n"), HasSubstr("got a map"));
}

TEST(Load, TellsEveryProblemAtOnceWithItsPlace) {
  EXPECT_EQ(problems("learning_rat: 1e-4\nbf16: yes\nlora_r: 0\n  \nmax_length: 1e3\n", {"seed=x", "device"}),
            "run.yaml:4:1: learning_rat: unknown key; did you mean learning_rate?\n"
            "run.yaml:5:7: bf16: expected true or false, got 'yes'; write true\n"
            "run.yaml:6:9: lora_r: expected a whole number, at least 1, got '0'\n"
            "run.yaml:8:13: max_length: expected a whole number, at least 1, got '1e3'; write 1000\n"
            "command line: seed: expected a whole number, at least 0, got 'x'\n"
            "command line: expected key=value, got 'device'; an option's value stands behind its name, as --gpu H100");
}

TEST(Load, AsksForWhatTheRunNeeds) {
  const auto missing = [](Purpose purpose) -> std::string {
    try {
      parse_config("", "run.yaml", {}, purpose);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(
      missing(Purpose::kTrain),
      AllOf(
          HasSubstr("run.yaml: model_name_or_path: expected a path of a model folder for every run, got nothing; add"),
          HasSubstr("train_file"), HasSubstr("output_dir")));
  EXPECT_THAT(missing(Purpose::kEvaluate),
              AllOf(HasSubstr("model_name_or_path"), HasSubstr("validation_file"), Not(HasSubstr("train_file"))));
  EXPECT_THAT(missing(Purpose::kEstimate), AllOf(HasSubstr("model_name_or_path"), Not(HasSubstr("train_file"))));
  EXPECT_EQ(config_of_model("m", {"lora_r=4", "method=lora"}).lora_r, 4);
  EXPECT_THROW(config_of_model("m", {"lora_q=4"}), UsageError);
}

TEST(Load, TruthValuesAreTrueAndFalseAlone) {
  for (const char* word : {"yes", "on", "True", "TRUE", "1", "y"}) {
    EXPECT_THAT(problems(std::string("shuffle: ") + word), HasSubstr("; write true")) << word;
  }
  for (const char* word : {"no", "off", "False", "0", "n"}) {
    EXPECT_THAT(problems(std::string("shuffle: ") + word), HasSubstr("; write false")) << word;
  }
  EXPECT_THAT(problems("shuffle: 'true'"), HasSubstr("got the text 'true'; remove the quotes"));
  EXPECT_THAT(problems("shuffle:"), HasSubstr("got nothing; remove the key for its default"));
}

TEST(Load, NumbersAreDecimalAndInRange) {
  for (const char* text : {"010", "0x10", "1_000", "1.0", "1e3", "2147483648", "99999999999999999999", "-1", "'8'",
                           "[8]", "{a: 8}", "eight", ""}) {
    EXPECT_THAT(problems(std::string("lora_r: ") + text + "\nmethod: lora\n"),
                HasSubstr("lora_r: expected a whole number"))
        << text;
  }
  for (const char* text : {"nan", ".nan", "inf", "-.inf", "1e400", "0x1p3", "1,5", "1e-4x", "-1", "\"1e-4\"", "true"}) {
    EXPECT_THAT(problems(std::string("learning_rate: ") + text), HasSubstr("learning_rate: expected a number")) << text;
  }
  EXPECT_EQ(parse("learning_rate: 0\n").learning_rate, 0);
  // LibTorch takes them as float32, and says no more than that it cannot.
  for (const Key& key : keys()) {
    if (!key.type.starts_with("number")) continue;
    for (const char* text : {"1e300", "3.5e38", "1.7976931348623157e308"}) {
      EXPECT_THAT(problems("method: lora\n" + std::string(key.name) + ": " + text + "\n"),
                  HasSubstr(std::string(key.name) + ": expected a number"))
          << text;
    }
  }
  EXPECT_THAT(problems("learning_rate: 1e300\n"), HasSubstr("no number here is above 3.4e38"));
  EXPECT_EQ(parse("learning_rate: 3.4e38\n").learning_rate, 3.4e38);
  EXPECT_THAT(problems("adam_epsilon: 1e-300\n"), HasSubstr("no number here but 0 is below 1.2e-38"));
  EXPECT_EQ(parse("adam_epsilon: 1.2e-38\n").adam_epsilon, 1.2e-38);
  EXPECT_THAT(problems("adam_epsilon: 0\n"), HasSubstr("adam_epsilon: expected a number, above 0"));
  EXPECT_THAT(problems("lora_dropout: 1.0\nmethod: lora\n"), HasSubstr("at least 0 and below 1"));
  EXPECT_THAT(problems("num_train_epochs: 0\n"), HasSubstr("above 0"));
  EXPECT_EQ(parse("gradient_accumulation_steps: 100000\n").gradient_accumulation_steps, 100000);
  EXPECT_THAT(problems("gradient_accumulation_steps: 1000000\n"),
              HasSubstr("gradient_accumulation_steps: expected a whole number, at least 1 and at most 100000"));
  EXPECT_EQ(parse("num_threads: 1024\n").num_threads, 1024);
  EXPECT_THAT(problems("num_threads: 1025\n"), HasSubstr("at least 0 and at most 1024"));
  EXPECT_THAT(problems("max_steps: 0\n"), HasSubstr("-1 or at least 1"));
  EXPECT_THAT(problems("max_steps: -2\n"), HasSubstr("-1 or at least 1"));
}

TEST(Load, TakesSizesWithTheirUnits) {
  EXPECT_EQ(parse("").memory_budget, 0);
  EXPECT_EQ(parse("memory_budget: 24GiB\n").memory_budget, int64_t{24} << 30);
  EXPECT_EQ(parse("memory_budget: '1.5 MiB'\n").memory_budget, 3 << 19);
  EXPECT_EQ(parse("memory_budget: 24GiB\n", {"memory_budget=1000"}).memory_budget, 1000);
  EXPECT_EQ(parse("memory_budget: 24GiB\n", {"memory_budget="}).memory_budget, 0);
  for (const char* text : {"0", "0GiB", "-1", "24G", "all", "[1GiB]", "9999999999GiB"}) {
    EXPECT_THAT(problems(std::string("memory_budget: ") + text),
                HasSubstr("4:16: memory_budget: expected a size above 0"))
        << text;
  }
}

TEST(Load, RefusesWhatYamlAllowsAndPeopleMisread) {
  EXPECT_THAT(problems("seed: 1\nseed: 2\n"), HasSubstr("run.yaml:5:1: seed: stands here again, first at 4:1"));
  EXPECT_THAT(problems("a: &x 1\n"), HasSubstr("run.yaml:4:4: a: an anchor (&name) is not taken"));
  EXPECT_THAT(problems("seed: *x\n"), HasSubstr("4:7"));
  EXPECT_THAT(problems("<<: {seed: 1}\n"), HasSubstr("the merge key << is not taken"));
  EXPECT_THAT(problems("seed: !!int 1\n"), HasSubstr("the tag"));
  EXPECT_THAT(problems("---\nseed: 1\n"), HasSubstr("more than one document"));
  EXPECT_THAT(problems("? [a]\n: b\n"), HasSubstr("a key cannot be a list or a map"));
  EXPECT_THAT(problems("training:\n  seed: 1\n"), HasSubstr("training: unknown key"));
  EXPECT_THAT(problems("seed: [1\n"), HasSubstr("not valid YAML"));
  EXPECT_THAT(problems("output: |\n  a\n"), HasSubstr("here it is output_dir"));
  EXPECT_THAT(problems("validation_file: |\n  a\n"), HasSubstr("on one line"));
  EXPECT_THAT(problems("validation_file: ''\n"), HasSubstr("an empty text"));
  EXPECT_THAT(problems(std::string("validation_file: a\0b\n", 21)), HasSubstr("run.yaml:4:19: not a text in UTF-8"));
  EXPECT_THAT(problems("validation_file: \xff\n"), HasSubstr("not a text in UTF-8"));
  EXPECT_THAT(problems("validation_file: \"\\e[31m\"\n"), Not(HasSubstr("\033")));
}

// yaml-cpp would take the keys that follow for a part of the text, and the run would go on without them.
TEST(Load, RefusesQuotesThatStayOpen) {
  for (const char* text : {"validation_file: \"runs/q\nmax_steps: 2\n", "validation_file: 'runs/q\nmax_steps: 2\n",
                           "validation_file: \"a\\\"\nmax_steps: 2\"\n", "validation_file: 'it''s\nmax_steps: 2'\n",
                           "validation_file:\n  - a\n  - \"b\nmax_steps: 2\n"}) {
    EXPECT_THAT(problems(text), HasSubstr("the quote that opens here is not closed on its line")) << text;
  }
  EXPECT_THAT(problems("seed: 1\n\"max_steps: 2\n"), HasSubstr("run.yaml:5:1: the quote that opens here"));
  EXPECT_THAT(problems("validation_file: [ü, \"é]\nseed: 1\n"), HasSubstr("the quote that opens here"));
  EXPECT_THAT(problems("validation_file: 'ü'\r\noutput_dir: \"é\r\nseed: 1\r\n"), HasSubstr("run.yaml:5:13: "));
  EXPECT_EQ(parse("validation_file: 'it''s \"é\"'  # 'open\n").validation_file, std::vector<std::string>{"it's \"é\""});
  EXPECT_EQ(parse("validation_file: [ü, \"a\\\"b\"]\n").validation_file, (std::vector<std::string>{"ü", "a\"b"}));
}

TEST(Load, RefusesTextsThatAreNoConfig) {
  const auto refused = [](const std::string& text) -> std::string {
    try {
      parse_config(text, "f", {});
    } catch (const UsageError& error) {
      return error.what();
    }
    return "taken";
  };
  EXPECT_THAT(refused("hello"), HasSubstr("expected lines of key: value, got 'hello'"));
  EXPECT_THAT(refused("- a\n- b\n"), HasSubstr("got a list"));
  EXPECT_EQ(refused(std::string(100000, '[')), "f:1:1: a key cannot be a list or a map; write key: value");
  EXPECT_THAT(refused("a: " + std::string(100000, '{')), HasSubstr("f:1:5: a key cannot be a list or a map"));
  std::string deep = "a: ";
  for (int i = 0; i < 10000; ++i) deep += "[x, ";
  EXPECT_THAT(refused(deep + "x" + std::string(10000, ']')),
              HasSubstr("nested deeper than 8 levels; configs are flat"));
  std::string many;
  for (int i = 0; i < 5000; ++i) many += "k" + std::to_string(i) + ": 1\n";
  EXPECT_THAT(refused(many), AllOf(HasSubstr("and 9"), HasSubstr("more")));
  EXPECT_THROW(load_config("/nonexistent/run.yaml", {}), UsageError);
  EXPECT_THROW(load_config("/dev/zero", {}), UsageError);
}

TEST(Load, RulesBetweenKeys) {
  EXPECT_THAT(problems("eval_strategy: steps\n"),
              HasSubstr("run.yaml:4:1: eval_strategy: expected no without a validation_file"));
  EXPECT_THAT(problems("eval_on_start: true\n"), HasSubstr("eval_on_start"));
  EXPECT_THAT(problems("bf16: true\ndtype: bfloat16\n"),
              HasSubstr("run.yaml:4:1: bf16: expected false with dtype: bfloat16"));
  EXPECT_EQ(problems("bf16: true\ndtype: bfloat16\nmethod: lora\n"), "no problem");
  EXPECT_EQ(problems("fp16: true\ndtype: float16\nmethod: lora\n"), "no problem");
  EXPECT_EQ(problems("fp16: true\ndtype: float32\ntf32: true\n"), "no problem");
  EXPECT_THAT(problems("bf16: true\nfp16: true\n"), HasSubstr("fp16: expected false with bf16: true"));
  EXPECT_THAT(problems("dtype: float16\n"), HasSubstr("dtype: expected float32 or bfloat16 with method: full"));
  EXPECT_THAT(problems("bf16: true\ndtype: float16\nmethod: lora\n"), HasSubstr("bf16: expected false with dtype:"));
  EXPECT_THAT(problems("fp16: true\ndtype: bfloat16\nmethod: lora\n"), HasSubstr("fp16: expected false with dtype:"));
  EXPECT_EQ(problems("fp16: true\ncuda_kernels: true\n"), "no problem");
  EXPECT_THAT(problems("tf32: true\ndevice: cpu\n"), HasSubstr("remove it: TF32 is a GPU's"));
  EXPECT_EQ(problems("eval_strategy: epoch\nvalidation_split: 0.1\n"), "no problem");
  EXPECT_THAT(
      problems("validation_file: v\nvalidation_split: 0.1\n"),
      HasSubstr("run.yaml:5:1: validation_split: expected 0 beside validation_file, got 0.1; remove one of them"));
  EXPECT_THAT(problems("validation_split: 1\n"), HasSubstr("at least 0 and below 1"));
  EXPECT_THAT(problems("group_by_length: true\nshuffle: false\n"), HasSubstr("group_by_length: expected false with"));
  EXPECT_THAT(problems("packing: true\ngroup_by_length: true\n"),
              HasSubstr("group_by_length: expected false with packing: true"));
  EXPECT_THAT(problems("packing: true\npad_to_multiple_of: 8\n"),
              HasSubstr("pad_to_multiple_of: expected 0 with packing: true, got 8"));
  EXPECT_THAT(problems("dataset_format: chatml\n"), HasSubstr("write messages"));
  EXPECT_THAT(problems("warmup_steps: 2.5\n"), HasSubstr("a whole number of steps, or a share below 1, got 2.5"));
  EXPECT_THAT(problems("save_steps: 0\n"), HasSubstr("save_steps: expected a whole number, at least 1"));
}

TEST(Load, RefusesKeysThatMeanNothingBesideTheOthers) {
  EXPECT_THAT(problems("lora_r: 4\n"),
              HasSubstr("run.yaml:4:1: lora_r: expected this key only with method: lora, got method: full; "
                        "remove it, or set method: lora"));
  EXPECT_THAT(problems("save_strategy: no\nsave_steps: 5\n"), HasSubstr("save_steps: expected this key only with"));
  EXPECT_THAT(problems("", {"lora_r=4"}), HasSubstr("command line: lora_r"));
  // Switched off on purpose: the same file, another method.
  const RunConfig run = parse("method: lora\nlora_r: 4\n", {"method=full"});
  EXPECT_EQ(run.lora_r, RunConfig{}.lora_r);
}

TEST(Load, AProblemIsToldOnce) {
  EXPECT_EQ(problems("eval_strategy: sometimes\neval_steps: 5\n"),
            "run.yaml:4:16: eval_strategy: expected one of no, steps, epoch, got 'sometimes'");
  EXPECT_THAT(problems("", {"seed=1", "seed=2"}), HasSubstr("command line: seed: given twice"));
}

// What stands where the config belongs.
std::string refused_subject(const std::string& name, const std::string& text) {
  const std::filesystem::path path = std::filesystem::path(::testing::TempDir()) / name;
  write_file_atomically(path, text);
  try {
    load_config(path, {}, Purpose::kEstimate);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "taken";
}

TEST(Load, TellsWhatStandsWhereTheConfigBelongs) {
  const std::string line = "{\"instruction\": \"a\", \"output\": \"b\"}\n";
  EXPECT_THAT(refused_subject("alpaca.jsonl", line), HasSubstr("alpaca.jsonl: holds data, JSON lines; expected YAML"));
  EXPECT_THAT(refused_subject("two.json", line + line), HasSubstr("name the config first, and the data in it"));
  EXPECT_THAT(refused_subject("one.json", "{\"model_name_or_path\": \"m\"}\n"), "taken");
  EXPECT_THAT(refused_subject("p.yaml", "PAR1\x15"), HasSubstr("p.yaml: is a Parquet table; expected YAML"));
  try {
    load_config("model_name_or_path=m", {}, Purpose::kTrain);
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("expected a YAML file of key: value lines; name that first, or the model's"));
  }
}

TEST(Load, AKeyWithoutItsGovernorIsToldThatItHasNone) {
  EXPECT_THAT(
      problems("master_weights: stochastic\n"),
      HasSubstr("master_weights: expected this key only with dtype: bfloat16, got no dtype; remove it, or set"));
}

}  // namespace
}  // namespace fathom::config
