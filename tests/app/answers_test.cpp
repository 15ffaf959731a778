// Evaluations that write answers, as a user meets them: scored, planned, resumed, refused.
#include <gmock/gmock.h>

#include <sstream>

#include "base/hash.h"
#include "base/json_value.h"
#include "tests/app/run.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class AnswersOfEvaluations : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    put_t5(config_.dump());
    const std::vector<std::string> words = {"one", "two", "three", "four", "five", "six"};
    std::string lines;
    for (size_t i = 0; i < words.size(); ++i) {
      const std::string more = i % 2 == 0 ? "" : ", and what comes before";
      lines += Json{{"prompt", "What comes after " + words[i] + more + "?"},
                    {"completion", words[(i + 1) % 6] + (i % 2 == 0 ? "" : " " + words[(i + 5) % 6])}}
                   .dump() +
               "\n";
    }
    write("data.jsonl", lines);
    write("run.yaml", R"(model_name_or_path: model
random_init: true
device: cpu
train_file: data.jsonl
validation_file: data.jsonl
per_device_train_batch_size: 6
per_device_eval_batch_size: 4
max_steps: 60
learning_rate: 0.01
eval_strategy: steps
eval_steps: 20
eval_on_start: true
predict_with_generate: true
save_steps: 10
logging_steps: 20
output_dir: out
)");
  }

  std::vector<Json> evaluations(const std::string& folder) const {
    std::vector<Json> all;
    std::istringstream lines(read_file(folder_ / folder / "metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const Json metrics = parse_json(line, "metrics.jsonl");
      if (metrics.contains("eval_loss")) all.push_back(metrics);
    }
    return all;
  }
  void expect_planned(const std::string& arguments) {
    fs::remove_all(folder_ / "planned");
    const Outcome outcome = run("train " + arguments + " output_dir=planned");
    ASSERT_EQ(outcome.status, 0) << arguments << "\n" << outcome.errors;
    EXPECT_THAT(outcome.output, HasSubstr("equal to the byte")) << arguments;
    const Json memory = read_json(folder_ / "planned" / "memory.json");
    for (const auto& [name, phase] : memory.at("phases").items()) {
      EXPECT_EQ(phase.at("peak").at("dry_run"), phase.at("peak").at("measured")) << arguments << ": " << name;
    }
    const Json& scratch = memory.at("kernel_scratch");
    if (scratch.at("dry_run").is_null()) return;  // of a GPU
    EXPECT_LE(scratch.at("measured").get<int64_t>(), scratch.at("dry_run").get<int64_t>()) << arguments;
  }

  // As FLAN-T5's, without dropout.
  Json config_ = {{"architectures", Json::array({"T5ForConditionalGeneration"})},
                  {"model_type", "t5"},
                  {"is_encoder_decoder", true},
                  {"vocab_size", 1112},
                  {"d_model", 32},
                  {"d_kv", 8},
                  {"d_ff", 48},
                  {"num_layers", 2},
                  {"num_decoder_layers", 2},
                  {"num_heads", 3},
                  {"feed_forward_proj", "gated-gelu"},
                  {"dropout_rate", 0.0},
                  {"tie_word_embeddings", false},
                  {"decoder_start_token_id", 0},
                  {"eos_token_id", 1},
                  {"pad_token_id", 0},
                  {"dtype", "float32"}};
};

TEST_F(AnswersOfEvaluations, BecomeThoseOfTheData) {
  const Outcome trained = run("train run.yaml report_to=tensorboard");
  ASSERT_EQ(trained.status, 0) << trained.errors;
  EXPECT_THAT(trained.output, HasSubstr("equal to the byte"));
  EXPECT_THAT(trained.errors, HasSubstr("100.0 % of the answers exact, ROUGE-L 1.0000"));
  const std::vector<Json> all = evaluations("out");
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all.front().at("eval_exact_match"), 0.0);
  EXPECT_LT(all.front().at("eval_rougeL").get<double>(), 0.5);
  EXPECT_EQ(all.back().at("eval_exact_match"), 1.0);
  EXPECT_EQ(all.back().at("eval_rougeL"), 1.0);
  const std::string events = read_file(folder_ / "out" / "events.out.tfevents.fathom");
  EXPECT_THAT(events, AllOf(HasSubstr("eval/exact_match"), HasSubstr("eval/rougeL")));
  EXPECT_THAT(read_file(folder_ / "out" / "report.html"), HasSubstr("at the end 1 exact, ROUGE-L 1"));

  const Outcome scored = run("eval out");
  ASSERT_EQ(scored.status, 0) << scored.errors;
  EXPECT_THAT(scored.output, AllOf(HasSubstr("exact match 1.0000\n"), HasSubstr("ROUGE-L 1.0000\n")));
  const Json as_json = parse_json(run("eval out --json").output, "eval");
  EXPECT_EQ(as_json.at("exact_match"), 1.0);
  EXPECT_EQ(as_json.at("rougeL"), 1.0);
  const Outcome loss_alone = run("eval out predict_with_generate=false");
  EXPECT_THAT(loss_alone.output, AllOf(HasSubstr("loss"), Not(HasSubstr("exact"))));
  // Each is what `generate` says to the same prompt.
  EXPECT_THAT(run("generate out --prompt 'What comes after three?'").output, HasSubstr("four"));
}

TEST_F(AnswersOfEvaluations, AreCutWhereTheConfigSays) {
  ASSERT_EQ(run("train run.yaml generation_max_length=1").status, 0);
  EXPECT_LT(evaluations("out").back().at("eval_exact_match").get<double>(), 0.6);
}

TEST_F(AnswersOfEvaluations, TakeWhatIsPlanned) {
  for (const std::string settings :
       {"", "generation_max_length=70", "method=lora bf16=true", "method=lora load_in_4bit=true",
        "per_device_eval_batch_size=1 max_length=6", "qat=int8 gradient_checkpointing=true"}) {
    expect_planned("run.yaml max_steps=3 eval_steps=2 save_strategy=no " + settings);
  }
}

// Prompts of a decoder are of different lengths in one batch.
TEST_F(AnswersOfEvaluations, OfADecoderTakeWhatIsPlanned) {
  const std::string model = "run.yaml save_strategy=no eval_steps=1 model_name_or_path=" +
                            (fs::path(FATHOM_SOURCE_DIR) / "data" / "model").string();
  const std::string decoder = model + " max_steps=2";
  for (const std::string settings :
       {"", "generation_max_length=40 packing=true", "method=lora attn_implementation=math"}) {
    expect_planned(decoder + " " + settings);
    EXPECT_TRUE(evaluations("planned").back().contains("eval_exact_match"));
  }
  // Products of one row and of more, by turns.
  write("pairs.jsonl", R"({"prompt": "a", "completion": "b"}
{"prompt": "What comes after two, and before four?", "completion": "three"}
)");
  expect_planned(model + " max_steps=1 eval_on_start=false method=lora device=cuda --phantom-gpu H100 " +
                 "train_file=pairs.jsonl validation_file=pairs.jsonl per_device_eval_batch_size=1");
  write("texts.jsonl", "{\"text\": \"one two\"}\n");
  const Outcome refused = run("train " + decoder + " validation_file=texts.jsonl");
  EXPECT_NE(refused.status, 0);
  EXPECT_THAT(refused.errors, HasSubstr("has no prompt"));
}

// LongRoPE keeps the ids that were read, should it have to turn all positions anew.
TEST_F(AnswersOfEvaluations, ByLongRopeTakeWhatIsPlanned) {
  fs::copy(fs::path(FATHOM_SOURCE_DIR) / "data" / "model", folder_ / "long", fs::copy_options::recursive);
  Json config = read_json(folder_ / "long" / "config.json");
  const auto half = static_cast<size_t>(config.at("hidden_size").get<int64_t>() /
                                        config.at("num_attention_heads").get<int64_t>() / 2);
  config["rope_parameters"] = {{"rope_type", "longrope"},
                               {"rope_theta", 10000.0},
                               {"factor", 8.0},
                               {"original_max_position_embeddings", 256},
                               {"short_factor", std::vector<double>(half, 1.5)},
                               {"long_factor", std::vector<double>(half, 6.0)}};
  write("long/config.json", config.dump());
  for (const char* batch : {"1", "3"}) {
    expect_planned(
        "run.yaml max_steps=1 eval_steps=1 save_strategy=no random_init=true generation_max_length=60 "
        "model_name_or_path=long per_device_eval_batch_size=" +
        std::string(batch));
  }
}

// Before its last position a cache is read in part, of which oneDNN's products in AMX's tiles get a copy.
TEST_F(AnswersOfEvaluations, OfCappedScoresTakeWhatIsPlanned) {
  fs::copy(fs::path(FATHOM_SOURCE_DIR) / "data" / "model", folder_ / "capped", fs::copy_options::recursive);
  const Json vocab_size = read_json(folder_ / "capped" / "config.json").at("vocab_size");
  write("capped/config.json", Json{{"architectures", Json::array({"Gemma2ForCausalLM"})},
                                   {"model_type", "gemma2"},
                                   {"vocab_size", vocab_size},
                                   {"dtype", "bfloat16"},
                                   {"num_hidden_layers", 1},
                                   {"num_attention_heads", 64},
                                   {"num_key_value_heads", 64},
                                   {"hidden_size", 16},
                                   {"head_dim", 16},
                                   {"intermediate_size", 16},
                                   {"sliding_window", 16},
                                   {"query_pre_attn_scalar", 29},
                                   {"attn_logit_softcapping", 2.0},
                                   {"final_logit_softcapping", 30.0},
                                   {"pad_token_id", nullptr}}
                                  .dump());
  const auto line = [](int64_t prompt, int64_t answer) {
    std::vector<int64_t> labels(static_cast<size_t>(prompt), -100);
    labels.resize(static_cast<size_t>(prompt + answer), 7);
    return Json{{"input_ids", std::vector<int64_t>(labels.size(), 7)}, {"labels", labels}}.dump() + "\n";
  };
  write("ids.jsonl", line(1, 1));
  write("long.jsonl", line(50, 14) + line(2, 10));
  expect_planned(
      "run.yaml max_steps=1 eval_steps=1 eval_on_start=false save_strategy=no model_name_or_path=capped method=lora "
      "num_threads=1 train_file=ids.jsonl validation_file=long.jsonl");
}

TEST_F(AnswersOfEvaluations, LeaveAResumedRunItsBits) {
  const std::string few = " max_steps=6 eval_steps=3 save_steps=2";
  ASSERT_EQ(run("train run.yaml output_dir=whole" + few).status, 0);
  ASSERT_EQ(run("train run.yaml" + few).status, 0);
  ASSERT_EQ(run("train run.yaml output_dir=silent predict_with_generate=false" + few).status, 0);
  fs::remove(folder_ / "out" / "model.safetensors");
  fs::remove_all(folder_ / "out" / "checkpoint-6");
  const Outcome silent = run("train run.yaml output_dir=from_silent predict_with_generate=false" + few +
                             " resume_from_checkpoint=out/checkpoint-4");
  EXPECT_EQ(silent.status, 0) << silent.errors;
  const Outcome resumed = run("train run.yaml resume_from_checkpoint=auto" + few);
  ASSERT_EQ(resumed.status, 0) << resumed.errors;
  EXPECT_THAT(resumed.output, HasSubstr("equal to the byte"));
  const auto hash = [&](const char* folder) { return hash_file(folder_ / folder / "model.safetensors"); };
  EXPECT_EQ(hash("out"), hash("whole"));
  EXPECT_EQ(hash("silent"), hash("whole")) << "answers change nothing of training";
  ASSERT_EQ(evaluations("out").size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(evaluations("out")[i].at("eval_rougeL"), evaluations("whole")[i].at("eval_rougeL"));
  }
}

TEST_F(AnswersOfEvaluations, NeedATokenizer) {
  for (const char* name : {"spiece.model", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"}) {
    fs::remove(folder_ / "model" / name);
  }
  write("data.jsonl", "{\"input_ids\": [5, 1], \"labels\": [7, 1]}\n");
  const Outcome refused = run("train run.yaml");
  EXPECT_NE(refused.status, 0);
  EXPECT_THAT(refused.errors, AllOf(HasSubstr("predict_with_generate: true, but"), HasSubstr("has no tokenizer")));
}

}  // namespace
}  // namespace fathom
