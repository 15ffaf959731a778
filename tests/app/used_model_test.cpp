// `generate` and `eval` of a run's folder: an adapter with its base, prompts as the run was trained, scores of what it
// trained.
#include <gmock/gmock.h>

#include <regex>

#include "base/json_value.h"
#include "tests/app/run.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class UsedModel : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    fs::copy(fs::path(FATHOM_SOURCE_DIR) / "data" / "model", folder_ / "m");
    write("data.jsonl", R"({"instruction": "Add 4 and 5.", "output": " 9"})"
                        "\n"
                        R"({"instruction": "Add 1 and 1.", "output": " 2"})"
                        "\n");
    write("run.yaml", R"(model_name_or_path: m
device: cpu
train_file: data.jsonl
validation_file: data.jsonl
per_device_train_batch_size: 2
max_steps: 1
learning_rate: 0.01
save_steps: 1
output_dir: out
)");
  }
  void train(const std::string& settings) {
    const Outcome outcome = run("train run.yaml " + settings);
    ASSERT_EQ(outcome.status, 0) << outcome.errors;
  }
  Json evaluation(const std::string& arguments) {
    const Outcome outcome = run("eval " + arguments + " --json");
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    return outcome.status == 0 ? Json::parse(outcome.output) : Json();
  }
};

constexpr const char* kPrompt = " --max-new-tokens 4 --prompt 'Add 2 and 2.'";

TEST_F(UsedModel, OfAnAdapterIsItsBaseWithIt) {
  train("method=lora lora_r=4");
  for (const std::string folder : {"out", "out/checkpoint-1", "out/checkpoint-1/"}) {
    const Outcome alone = run("generate " + folder + kPrompt);
    ASSERT_EQ(alone.status, 0) << alone.errors;
    EXPECT_THAT(alone.errors, HasSubstr("trained, inside alpaca's words; --prompt-format plain: as they stand"));
    EXPECT_EQ(alone.output, run(std::string("generate m --adapter ") + folder + kPrompt).output);
    EXPECT_EQ(run("generate " + folder + " --prompt-format plain" + kPrompt).errors, "");
  }
  EXPECT_EQ(run("logits out --ids 1,2 --out a.safetensors").status, 0);
  EXPECT_THAT(run(std::string("generate out --adapter out") + kPrompt).errors, HasSubstr("leave --adapter out"));

  const Json whole = evaluation("out");
  EXPECT_EQ(whole.at("adapter"), "out");
  EXPECT_EQ(whole.at("samples"), 2);
  EXPECT_EQ(whole.at("loss"), evaluation("run.yaml --adapter out method=lora lora_r=4").at("loss"));
  const Outcome base = run("eval run.yaml method=lora lora_r=4");
  EXPECT_THAT(base.errors,
              AllOf(HasSubstr("scoring the model m, on data.jsonl"),
                    HasSubstr("warning: this is what the run starts from; what it trained: fathom eval out")));

  fs::rename(folder_ / "m", folder_ / "elsewhere");
  EXPECT_THAT(run(std::string("generate out") + kPrompt).errors,
              HasSubstr("is not there; name the base model where it is"));
  EXPECT_EQ(run(std::string("generate elsewhere --adapter out") + kPrompt).status, 0) << "the remedy";
}

TEST_F(UsedModel, ABaseThatCannotBeUsedIsBlamedOnTheAdapter) {
  train("method=lora lora_r=4");
  fs::create_directory(folder_ / "empty");
  Json settings = read_json(folder_ / "out/adapter_config.json");
  for (const Json& base : {Json("a\nb"), Json("a\u0001"), Json("gone"), Json("/gone"), Json("org/gone"), Json("empty"),
                           Json(""), Json(), Json(5)}) {
    settings["base_model_name_or_path"] = base;
    write("out/adapter_config.json", settings.dump());
    const Outcome outcome = run(std::string("generate out") + kPrompt);
    EXPECT_NE(outcome.status, 0);
    EXPECT_THAT(outcome.errors, AllOf(HasSubstr("error: out/adapter_config.json: "), Not(HasSubstr("command line"))))
        << base;
    EXPECT_EQ(run(std::string("generate m --adapter out") + kPrompt).status, 0) << base;
  }
}

TEST_F(UsedModel, AnAdapterInThePlaceOfAModelIsToldWhereItBelongs) {
  train("method=lora lora_r=4");
  const std::string what = "out holds an adapter, not a model; ", named = "name its base model, and the adapter with ";
  EXPECT_THAT(run("quantize out --format nf4 --out q").errors,
              HasSubstr(what + "merge it first: fathom export out --merge --out DIR"));
  EXPECT_THAT(run("eval run.yaml model_name_or_path=out").errors, HasSubstr(what + named + "--adapter out"));
  for (const std::string command : {"train", "estimate"}) {
    EXPECT_THAT(run(command + " run.yaml output_dir=new model_name_or_path=out").errors,
                HasSubstr(what + named + "method=lora adapter_name_or_path=out"));
  }
  EXPECT_THAT(run("export out --merge --base out --out merged").errors, HasSubstr("a model; name its base model\n"));
}

TEST_F(UsedModel, AShapeHasNoWeights) {
  for (const std::string name : {"llama-3.2-1b", "7B"}) {
    for (const char* command : {"generate NAME --prompt a", "quantize NAME --format nf4 --out q",
                                "train run.yaml model_name_or_path=NAME", "logits NAME --ids 1 --out l"}) {
      const Outcome outcome = run(std::regex_replace(command, std::regex("NAME"), name));
      EXPECT_EQ(outcome.status, 2) << outcome.errors;
      EXPECT_THAT(outcome.errors,
                  AllOf(HasSubstr(name == "7B" ? "'7B' is a number of parameters, without weights or a tokenizer; "
                                               : "'llama-3.2-1b' is a known shape, without weights or a tokenizer; "),
                        HasSubstr("; name a model's folder, or org/name")));
    }
    EXPECT_EQ(run("estimate " + name).status, 0) << "a plan needs none";
  }
}

TEST_F(UsedModel, AWholeModelIsNoAdapter) {
  for (const char* arguments : {"generate m --adapter m --prompt a", "eval run.yaml --adapter m",
                                "train run.yaml method=lora adapter_name_or_path=m"}) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.status, 2);
    EXPECT_THAT(outcome.errors, HasSubstr("m holds a whole model, not an adapter; name it as the model")) << arguments;
  }
}

TEST_F(UsedModel, AnotherBaseThanTheAdapterNamesIsWarnedOf) {
  train("method=lora lora_r=4");
  fs::copy(folder_ / "m", folder_ / "other");
  const auto has_warning = HasSubstr("/m as its base model, and is put on other: it does what it was trained for only");
  EXPECT_THAT(run(std::string("generate other --adapter out") + kPrompt).errors, has_warning);
  EXPECT_THAT(run("export out --merge --base other --out merged").errors, has_warning);
  EXPECT_THAT(run(std::string("generate m --adapter out") + kPrompt).errors, Not(HasSubstr("warning")));
  EXPECT_EQ(run("export out --merge --out again").errors, "");
  fs::rename(folder_ / "m", folder_ / "elsewhere");
  EXPECT_THAT(run(std::string("generate other --adapter out") + kPrompt).errors, Not(HasSubstr("warning")));
}

TEST_F(UsedModel, OfARunIsAskedAsItWasTrained) {
  train("qat=int8");
  const Outcome put = run(std::string("generate out") + kPrompt);
  ASSERT_EQ(put.status, 0) << put.errors;
  write("words.txt",
        "Below is an instruction that describes a task. Write a response that appropriately completes the request.\n\n"
        "### Instruction:\nAdd 2 and 2.\n\n### Response:");
  const std::string plain = "\" generate out --prompt-format plain --max-new-tokens 4 ";
  const Outcome by_hand = run("-c '\"" FATHOM_PROGRAM + plain + "<words.txt'", "", "/bin/sh");
  EXPECT_EQ(put.output, by_hand.output);
  EXPECT_EQ(put.output, run(std::string("generate out --prompt-format alpaca") + kPrompt).output);
  const std::string answer = by_hand.output, stop = answer.substr(1, 2);
  const Outcome stopped = run("generate out --stop '" + stop + "'" + kPrompt);
  EXPECT_EQ(stopped.output, answer.substr(0, answer.find(stop)) + "\n") << answer;

  EXPECT_EQ(evaluation("out").at("loss"), evaluation("run.yaml qat=int8 model_name_or_path=out").at("loss"));
  EXPECT_THAT(run(std::string("generate out --prompt-format chat") + kPrompt).errors,
              HasSubstr("has no chat template"));
  fs::rename(folder_ / "data.jsonl", folder_ / "gone.jsonl");
  EXPECT_THAT(run(std::string("generate out") + kPrompt).errors,
              HasSubstr("warning: the data of out cannot be read, so that prompts are taken as they stand"));
  fs::remove(folder_ / "out" / "config.json");
  EXPECT_THAT(run(std::string("generate out") + kPrompt).errors,
              HasSubstr("has no final model; name its newest checkpoint, out/checkpoint-1"));
  EXPECT_EQ(evaluation("m validation_file=gone.jsonl").at("loss"),
            evaluation("run.yaml model_name_or_path=m validation_file=gone.jsonl").at("loss"))
      << "of a model that belongs to no run";
  EXPECT_THAT(run("eval m").errors, HasSubstr("add validation_file"));
}

}  // namespace
}  // namespace fathom
