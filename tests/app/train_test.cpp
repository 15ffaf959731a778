// `train` on the CPU as a user runs it: measured as planned, resumed, and never at the cost of what a folder already
// holds.
#include <gmock/gmock.h>

#include <regex>

#include "base/hash.h"
#include "base/json_value.h"
#include "tests/app/run.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Train : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    fs::copy(fs::path(FATHOM_SOURCE_DIR) / "data" / "model", folder_ / "model");
    std::string lines;
    for (int i = 0; i < 40; ++i) {
      lines += Json{{"prompt", "What is " + std::to_string(i) + " plus one?\n"}, {"completion", std::to_string(i + 1)}}
                   .dump() +
               "\n";
    }
    write("data.jsonl", lines);
    write("run.yaml", R"(model_name_or_path: model
device: cpu
train_file: data.jsonl
validation_file: data.jsonl
per_device_train_batch_size: 6
gradient_accumulation_steps: 2
max_steps: 6
eval_strategy: steps
eval_steps: 3
eval_on_start: true
save_steps: 2
logging_steps: 1
output_dir: out
)");
  }
};

TEST_F(Train, ProfilesThreeStepsWithoutChangingWhatTheyTake) {
  const Outcome outcome = run("train run.yaml --profile profile.json");
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("equal to the byte"));
  const Json profile = read_json(folder_ / "profile.json");
  int64_t clippings = 0;
  for (const Json& event : profile.at("traceEvents")) clippings += event.value("name", "") == "aten::clamp_max_";
  EXPECT_EQ(clippings, 3);

  EXPECT_EQ(run("train run.yaml output_dir=other --profile .").status, 2);
  EXPECT_FALSE(fs::exists(folder_ / "other"));
}

TEST_F(Train, IsMeasuredAsPlanned) {
  for (const std::string settings :
       {"dtype=float32", "bf16=true", "method=lora", "method=lora bf16=true lora_dropout=0.1",
        "method=lora load_in_8bit=true", "method=lora load_in_fp8=true bf16=true dtype=bfloat16",
        "method=lora load_in_4bit=true bf16=true gradient_checkpointing=true",
        "method=lora load_in_4bit=true bnb_4bit_use_double_quant=true packing=true target_modules=all-linear",
        "optim=adamw_8bit", "optim=adamw_8bit method=lora lora_r=32", "optim=adamw_bf16 bf16=true",
        "dtype=bfloat16 master_weights=fp32 optim=adamw_8bit", "dtype=bfloat16 master_weights=stochastic"}) {
    fs::remove_all(folder_ / "out");
    const Outcome outcome = run("train run.yaml " + settings);
    ASSERT_EQ(outcome.status, 0) << outcome.errors;
    EXPECT_THAT(outcome.output, HasSubstr("equal to the byte")) << settings;
    const Json memory = read_json(folder_ / "out" / "memory.json");
    EXPECT_EQ(memory.at("peak").at("dry_run"), memory.at("peak").at("measured")) << settings;
  }
}

TEST_F(Train, TimesThePartsOfItsSteps) {
  const Outcome outcome = run("train run.yaml");
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("time of a step"), HasSubstr("mean of 5 steps")));
  const Json time = read_json(folder_ / "out" / "memory.json").at("time");
  EXPECT_EQ(time.at("steps"), 5) << "all but the first";
  double parts = 0;
  for (const char* part : {"forward", "backward", "optimizer_step"}) {
    const double seconds = time.at(std::string(part) + "_measured_seconds").get<double>();
    EXPECT_GT(seconds, 0) << part;
    parts += seconds;
  }
  EXPECT_LE(parts, time.at("measured_seconds").get<double>());
}

TEST_F(Train, ContinuesWhereItStoppedAndEndsInTheSameBits) {
  ASSERT_EQ(run("train run.yaml output_dir=whole").status, 0);
  ASSERT_EQ(run("train run.yaml").status, 0);
  fs::remove(folder_ / "out" / "model.safetensors");
  fs::remove_all(folder_ / "out" / "checkpoint-6");
  write("out/memory.json.tmp-2147483647", "what a killed run left");
  const Outcome resumed = run("train run.yaml resume_from_checkpoint=auto");
  ASSERT_EQ(resumed.status, 0) << resumed.errors;
  EXPECT_FALSE(fs::exists(folder_ / "out" / "memory.json.tmp-2147483647"));
  EXPECT_THAT(resumed.errors, HasSubstr("checkpoint-4"));
  EXPECT_THAT(resumed.output, HasSubstr("equal to the byte"));
  EXPECT_EQ(hash_file(folder_ / "out" / "model.safetensors"), hash_file(folder_ / "whole" / "model.safetensors"));
  const std::string metrics = read_file(folder_ / "out" / "metrics.jsonl");
  EXPECT_EQ(std::count(metrics.begin(), metrics.end(), '\n'), 6 + 3) << "each step and evaluation once";
}

TEST_F(Train, ContinuesWithStatesOfEveryTypeInTheSameBits) {
  for (const std::string settings :
       {" optim=adamw_8bit", " optim=adamw_bf16", " dtype=bfloat16 master_weights=fp32",
        " dtype=bfloat16 master_weights=stochastic", " dtype=bfloat16 master_weights=stochastic optim=adamw_8bit"}) {
    fs::remove_all(folder_ / "whole");
    fs::remove_all(folder_ / "out");
    ASSERT_EQ(run("train run.yaml output_dir=whole num_threads=1" + settings).status, 0) << settings;
    ASSERT_EQ(run("train run.yaml num_threads=1" + settings).status, 0) << settings;
    fs::remove(folder_ / "out" / "model.safetensors");
    fs::remove_all(folder_ / "out" / "checkpoint-6");
    const Outcome resumed = run("train run.yaml resume_from_checkpoint=auto num_threads=1" + settings);
    ASSERT_EQ(resumed.status, 0) << resumed.errors;
    EXPECT_EQ(hash_file(folder_ / "out" / "model.safetensors"), hash_file(folder_ / "whole" / "model.safetensors"))
        << settings;
  }
  const Outcome other = run("train run.yaml resume_from_checkpoint=auto dtype=bfloat16 optim=adamw_8bit");
  EXPECT_NE(other.status, 0) << "other masters are another run";
  EXPECT_THAT(other.errors, HasSubstr("master_weights: none (there stochastic)"));
}

TEST_F(Train, ContinuesOnAQuantizedBaseInTheSameBits) {
  for (const std::string base : {"load_in_8bit=true", "load_in_fp8=true", "load_in_4bit=true",
                                 "load_in_4bit=true bnb_4bit_use_double_quant=true"}) {
    fs::remove_all(folder_ / "whole");
    fs::remove_all(folder_ / "out");
    const std::string settings = " method=lora lora_dropout=0.1 bf16=true " + base;
    ASSERT_EQ(run("train run.yaml output_dir=whole" + settings).status, 0) << base;
    ASSERT_EQ(run("train run.yaml" + settings).status, 0) << base;
    fs::remove(folder_ / "out" / "adapter_model.safetensors");
    fs::remove_all(folder_ / "out" / "checkpoint-6");
    const Outcome resumed = run("train run.yaml resume_from_checkpoint=auto" + settings);
    ASSERT_EQ(resumed.status, 0) << resumed.errors;
    EXPECT_EQ(hash_file(folder_ / "out" / "adapter_model.safetensors"),
              hash_file(folder_ / "whole" / "adapter_model.safetensors"))
        << base;
  }
  const Outcome other = run("train run.yaml resume_from_checkpoint=auto method=lora bf16=true lora_dropout=0.1");
  EXPECT_NE(other.status, 0) << "another base is another run";
  EXPECT_THAT(other.errors, HasSubstr("load_in_4bit"));
}

TEST_F(Train, TakesNoFolderThatHoldsSomething) {
  ASSERT_EQ(run("train run.yaml").status, 0);
  const std::string weights = hash_file(folder_ / "out" / "model.safetensors");
  const Outcome again = run("train run.yaml");
  EXPECT_EQ(again.status, 2);
  EXPECT_THAT(again.errors, HasSubstr("already holds a run"));
  const Outcome phantom = run("train run.yaml device=auto resume_from_checkpoint=auto --phantom-gpu H100");
  EXPECT_NE(phantom.status, 0);
  EXPECT_FALSE(fs::exists(folder_ / "out" / "phantom-run.txt"));
  for (const char* step : {"2", "4", "6"}) fs::remove_all(folder_ / "out" / (std::string("checkpoint-") + step));
  const Outcome anew = run("train run.yaml resume_from_checkpoint=auto");
  EXPECT_EQ(anew.status, 1);
  EXPECT_THAT(anew.errors, HasSubstr("no sound checkpoint"));
  EXPECT_THAT(anew.errors, HasSubstr("to train that model further: model_name_or_path=out output_dir=NEW"));
  const Outcome itself = run("train run.yaml output_dir=model");
  EXPECT_EQ(itself.status, 2);
  EXPECT_THAT(itself.errors, HasSubstr("the model itself"));
  EXPECT_EQ(hash_file(folder_ / "out" / "model.safetensors"), weights);
}

TEST_F(Train, AFolderThatIsNoCheckpointIsAnsweredWithOneThatIs) {
  ASSERT_EQ(run("train run.yaml").status, 0);
  const auto refusal = [&](const std::string& settings) {
    const Outcome outcome = run("train run.yaml resume_from_checkpoint=" + settings);
    EXPECT_EQ(outcome.status, 2) << outcome.errors;
    return outcome.errors;
  };
  const std::string what = "out is a run's folder, not a checkpoint; ";
  EXPECT_THAT(refusal("out"), HasSubstr(what + "write auto, or name its newest checkpoint, out/checkpoint-6"));
  EXPECT_THAT(refusal("out output_dir=new"), HasSubstr(what + "name its newest checkpoint, out/checkpoint-6"));
  EXPECT_THAT(refusal("checkpoint-4"), HasSubstr("is not there, only out/checkpoint-4; write out/checkpoint-4"));
  for (const char* step : {"2", "4", "6"}) fs::remove_all(folder_ / "out" / (std::string("checkpoint-") + step));
  EXPECT_THAT(refusal("out output_dir=new"), HasSubstr("without a sound checkpoint"));
  EXPECT_THAT(run("train run.yaml resume_from_checkpoint=model").errors, HasSubstr("it is no checkpoint, or was not"));
}

TEST_F(Train, AResumeOfAFinishedRunMeasuresNothing) {
  ASSERT_EQ(run("train run.yaml").status, 0);
  const std::string weights = hash_file(folder_ / "out" / "model.safetensors");
  std::map<std::string, std::string> measured;
  for (const char* name : {"memory.json", "timeline.json", "report.html"}) {
    measured[name] = read_file(folder_ / "out" / name);
  }
  const Outcome again = run("train run.yaml resume_from_checkpoint=auto");
  EXPECT_EQ(again.status, 0) << again.errors;
  EXPECT_THAT(again.output, AllOf(HasSubstr("checkpoint-6 is of the last step"), Not(HasSubstr("equal to the byte"))));
  for (const char* name : {"memory.json", "timeline.json", "report.html"}) {
    EXPECT_EQ(read_file(folder_ / "out" / name), measured.at(name)) << "the run's measurements are lost for none";
  }
  EXPECT_EQ(hash_file(folder_ / "out" / "model.safetensors"), weights);
}

TEST_F(Train, AFolderThatIsTakenIsToldBeforeDataAreRead) {
  ASSERT_EQ(run("train run.yaml").status, 0);
  const Outcome again = run("train run.yaml train_file=none.jsonl");
  EXPECT_EQ(again.status, 2);
  EXPECT_THAT(again.errors, HasSubstr("already holds a run"));
  const Outcome itself = run("train run.yaml train_file=none.jsonl output_dir=model");
  EXPECT_EQ(itself.status, 2);
  EXPECT_THAT(itself.errors, HasSubstr("the model itself"));
}

TEST_F(Train, WarnsOfExamplesThatNothingReads) {
  const std::string settings = "train run.yaml max_steps=1 eval_on_start=false eval_strategy=no";
  EXPECT_THAT(run(settings).errors, HasSubstr("the run is not evaluated on its validation_file"));
  write("split.yaml", R"(model_name_or_path: model
device: cpu
train_file: data.jsonl
validation_split: 0.25
max_steps: 1
output_dir: split
)");
  EXPECT_THAT(run("train split.yaml").errors, HasSubstr("validation_split holds back 10 of 40 examples"));
  EXPECT_THAT(run("train split.yaml output_dir=evaluated eval_strategy=epoch").errors, Not(HasSubstr("holds back")));
}

TEST_F(Train, WarnsOfPositionsThatTheModelDoesNotHave) {
  std::string text;
  for (int i = 0; i < 600; ++i) text += " " + std::to_string(i);
  write("long.jsonl", Json{{"text", text}}.dump() + "\n");
  const Outcome outcome = run(
      "train run.yaml train_file=long.jsonl max_steps=1 max_length=1024 per_device_train_batch_size=1 eval_strategy=no "
      "eval_on_start=false");
  EXPECT_THAT(outcome.errors, HasSubstr("but the model was made for 512 positions"));
  EXPECT_THAT(run("train run.yaml output_dir=short max_steps=1").errors, Not(HasSubstr("positions")));
}

TEST_F(Train, AResumeOnAnotherDayTellsTheTemplateTheDayOfTheRun) {
  write("model/chat_template.jinja",
        "{{ strftime_now('%d.%m.%Y %H:%M') }}{% for message in messages %}{{ message.content }}</s>{% endfor %}");
  std::string lines;
  for (int i = 0; i < 20; ++i) {
    lines += Json{{"messages", Json::array({{{"role", "user"}, {"content", "Add one to " + std::to_string(i)}},
                                            {{"role", "assistant"}, {"content", std::to_string(i + 1)}}})}}
                 .dump() +
             "\n";
  }
  write("data.jsonl", lines);
  // Two zones that never have the same date.
  const std::string west = "TZ=WEST+12 ", east = "TZ=EAST-14 ";
  ASSERT_EQ(run("train run.yaml", west).status, 0);
  const std::string weights = hash_file(folder_ / "out" / "model.safetensors");
  fs::remove_all(folder_ / "out" / "checkpoint-6");
  const Outcome resumed = run("train run.yaml resume_from_checkpoint=auto", east);
  ASSERT_EQ(resumed.status, 0) << resumed.errors;
  EXPECT_THAT(resumed.errors, HasSubstr("resuming from out/checkpoint-4"));
  EXPECT_EQ(hash_file(folder_ / "out" / "model.safetensors"), weights);
  EXPECT_THAT(run("preview run.yaml", west).output, Not(HasSubstr(" 12:"))) << "the day begins at midnight";
  EXPECT_NE(run("preview run.yaml", west).output, run("preview run.yaml", east).output);
}

TEST_F(Train, ADamagedBestModelIsToldAndTheLastOneWritten) {
  const std::string settings =
      "train run.yaml load_best_model_at_end=true learning_rate=1e-2 eval_steps=1 lr_scheduler_type=constant ";
  ASSERT_EQ(run(settings).status, 0);
  const Json state = read_json(folder_ / "out" / "checkpoint-6" / "trainer_state.json");
  const std::string best = "checkpoint-" + state.at("best_step").dump();
  ASSERT_NE(best, "checkpoint-6") << "the rate should be so high that the loss rises";
  fs::remove(folder_ / "out" / best / "optimizer.safetensors");
  fs::remove(folder_ / "out" / "model.safetensors");
  const Outcome outcome = run(settings + "resume_from_checkpoint=auto");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.errors, AllOf(HasSubstr("the final weights are those of the last step, 6, not the best"),
                                    HasSubstr(best + "/optimizer.safetensors: is missing")));
  EXPECT_EQ(hash_file(folder_ / "out" / "model.safetensors"),
            hash_file(folder_ / "out" / "checkpoint-6" / "model.safetensors"));
  EXPECT_TRUE(fs::exists(folder_ / "out" / "report.html"));
}

// What a file would say the words do; what is missing is told by its key.
TEST_F(Train, TakesAModelsFolderWithKeysBehindIt) {
  const std::string keys = " device=cpu train_file=data.jsonl max_steps=2 save_strategy=no logging_steps=1";
  const Outcome missing = run("train model max_steps=2");
  EXPECT_EQ(missing.status, 2);
  EXPECT_THAT(missing.errors, AllOf(HasSubstr("train_file"), HasSubstr("output_dir"), Not(HasSubstr("YAML"))));
  const Outcome trained = run("train model output_dir=words" + keys);
  ASSERT_EQ(trained.status, 0) << trained.errors;
  write("same.yaml", "model_name_or_path: model\noutput_dir: file\n");
  ASSERT_EQ(run("train same.yaml" + keys).status, 0);
  EXPECT_EQ(hash_file(folder_ / "words/model.safetensors"), hash_file(folder_ / "file/model.safetensors"));
  EXPECT_EQ(run("preview model train_file=data.jsonl").output, run("preview same.yaml train_file=data.jsonl").output);
  EXPECT_THAT(run("preview model").errors, HasSubstr("train_file"));
  EXPECT_THAT(run("train words/model.safetensors").errors, HasSubstr("words/model.safetensors"));
  fs::create_directory(folder_ / "empty");
  EXPECT_THAT(run("train empty output_dir=o" + keys).errors, HasSubstr("empty"));
}

// Full training and an adapter, evaluated or not; a folder whose name a shell would take apart.
TEST_F(Train, TellsWhatComesNextAsItRuns) {
  const std::string once = "train run.yaml max_steps=2 save_strategy=no eval_strategy=no eval_on_start=false ";
  const std::string no_data = "validation_file= ";
  for (const std::string settings : {"", "method=lora lora_r=2 "}) {
    const Outcome trained = run(once + no_data + settings + "\"output_dir=it's here/" + settings.substr(0, 6) + "x\"");
    ASSERT_EQ(trained.status, 0) << trained.errors;
    EXPECT_EQ(run_next(trained, "data.jsonl"), 2) << trained.output;
    EXPECT_THAT(trained.output, HasSubstr(settings.empty() ? "fathom eval" : "--merge --out"));
  }
  const Outcome evaluated = run(once + "output_dir=evaluated");
  EXPECT_THAT(evaluated.output, HasSubstr("      fathom eval evaluated\n"));
  EXPECT_EQ(run_next(evaluated, ""), 2);
}

// The first and the last are held against each other where they are two.
TEST_F(Train, OneEvaluationIsHeldAgainstNothing) {
  const auto told = [&](const std::string& settings) {
    const Outcome outcome = run("train run.yaml save_strategy=no output_dir=" + settings);
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    const size_t at = outcome.output.find("evaluation loss: ");
    if (at == std::string::npos) return std::string("none");
    std::string line = outcome.output.substr(at, outcome.output.find('\n', at) - at);
    return std::regex_replace(line, std::regex("[0-9]+[.][0-9]+"), "L");
  };
  EXPECT_EQ(told("a eval_on_start=false eval_steps=6"), "evaluation loss: L of the final weights");
  EXPECT_EQ(told("b eval_on_start=false eval_steps=4"), "evaluation loss: L after step 4");
  EXPECT_EQ(told("c eval_strategy=no"), "evaluation loss: L before training");
  EXPECT_THAT(told("d"),
              AllOf(HasSubstr("evaluation loss: L before training -> L of the final weights ("), HasSubstr(" %)")));
  EXPECT_THAT(told("e eval_steps=4"), HasSubstr("L before training -> L after step 4 ("));
  EXPECT_EQ(told("f eval_strategy=no eval_on_start=false"), "none");
}

TEST_F(Train, EvalReadsWhatItEvaluatesAndNoMore) {
  const std::string lora = "method=lora lora_r=4 learning_rate=0.05 target_modules=all-linear ";
  ASSERT_EQ(run("train run.yaml output_dir=adapter " + lora).status, 0);
  fs::rename(folder_ / "data.jsonl", folder_ / "held_out.jsonl");
  const std::string eval = "eval run.yaml validation_file=held_out.jsonl " + lora;
  const Outcome base = run(eval), named = run(eval + "--adapter adapter");
  ASSERT_EQ(base.status, 0) << "train_file is not there, and not needed: " << base.errors;
  ASSERT_EQ(named.status, 0) << named.errors;
  EXPECT_NE(named.output, base.output);
  const Outcome from_config = run(eval + "adapter_name_or_path=adapter");
  EXPECT_EQ(from_config.output, named.output);
  EXPECT_THAT(from_config.errors, HasSubstr("scoring the adapter adapter on model, on held_out.jsonl"));
}

}  // namespace
}  // namespace fathom
