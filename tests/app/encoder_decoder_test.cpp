// An encoder and decoder as a user meets it: planned, trained, resumed, adapted, asked, and what of it is refused.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>

#include "base/hash.h"
#include "base/json_value.h"
#include "tests/app/run.h"
#include "weights/safetensors.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class EncoderDecoder : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    put_t5(config_.dump());
    std::vector<std::string> words = {"one", "two", "three", "four", "five", "six", "seven", "eight"};
    std::string lines;
    for (int i = 0; i < 40; ++i) {
      std::rotate(words.begin(), words.begin() + 1, words.end());
      std::string there, back;
      for (int word = 0; word < 2 + i / 8; ++word) {  // never the same line twice
        there += " " + words[static_cast<size_t>(word)];
        back.insert(0, words[static_cast<size_t>(word)] + " ");
      }
      lines += Json{{"prompt", "translate:" + there}, {"completion", back}}.dump() + "\n";
    }
    write("data.jsonl", lines);
    write("run.yaml", R"(model_name_or_path: model
random_init: true
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
  // The adapter of a run on the model in the folder `base`.
  void adapt(const std::string& base, const std::string& settings = "") {
    const Outcome outcome =
        run("train run.yaml model_name_or_path=" + base +
            " random_init=false method=lora lora_r=4 learning_rate=0.01 output_dir=adapter " + settings);
    ASSERT_EQ(outcome.status, 0) << outcome.errors;
    EXPECT_THAT(outcome.output, HasSubstr("equal to the byte")) << settings;
  }
  // Of the two tokens that the decoder reads.
  std::vector<float> logits(const std::string& model) {
    fs::remove(folder_ / "l.safetensors");
    const Outcome outcome = run("logits " + model + " --ids 205,17,1 --decoder-ids 0,203 --out l.safetensors");
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    if (outcome.status != 0) return {};
    const weights::SafetensorsFile file(folder_ / "l.safetensors");
    const weights::TensorInfo& info = *file.find("logits");
    EXPECT_THAT(info.shape, ElementsAre(2, 1112));
    std::vector<float> numbers(static_cast<size_t>(info.bytes) / sizeof(float));
    std::memcpy(numbers.data(), file.data(info), numbers.size() * sizeof(float));
    return numbers;
  }
  // The largest, of the largest of a.
  static double difference(const std::vector<float>& a, const std::vector<float>& b) {
    if (a.empty() || a.size() != b.size()) return INFINITY;
    double most = 0, largest = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      most = std::max<double>(most, std::abs(a[i] - b[i]));
      largest = std::max<double>(largest, std::abs(a[i]));
    }
    return most / largest;
  }

  // As FLAN-T5's; the tokenizer has 1,100 tokens.
  Json config_ = {{"architectures", Json::array({"T5ForConditionalGeneration"})},
                  {"model_type", "t5"},
                  {"is_encoder_decoder", true},
                  {"vocab_size", 1112},
                  {"d_model", 32},
                  {"d_kv", 8},
                  {"d_ff", 48},
                  {"num_layers", 2},
                  {"num_decoder_layers", 3},
                  {"num_heads", 3},
                  {"feed_forward_proj", "gated-gelu"},
                  {"relative_attention_num_buckets", 8},
                  {"relative_attention_max_distance", 20},
                  {"dropout_rate", 0.1},
                  {"tie_word_embeddings", false},
                  {"decoder_start_token_id", 0},
                  {"eos_token_id", 1},
                  {"pad_token_id", 0},
                  {"dtype", "float32"}};
};

TEST_F(EncoderDecoder, IsMeasuredAsPlanned) {
  for (const std::string settings :
       {"", "bf16=true", "gradient_checkpointing=true", "loss_chunk_size=0 group_by_length=true pad_to_multiple_of=8",
        "dtype=bfloat16 master_weights=stochastic optim=adamw_8bit", "method=lora lora_dropout=0.1",
        "method=lora load_in_8bit=true target_modules=all-linear gradient_checkpointing=true", "qat=int8",
        "max_length=6 max_target_length=4"}) {
    fs::remove_all(folder_ / "out");
    const Outcome outcome = run("train run.yaml " + settings);
    ASSERT_EQ(outcome.status, 0) << settings << "\n" << outcome.errors;
    EXPECT_THAT(outcome.output, HasSubstr("equal to the byte")) << settings;
    const Json memory = read_json(folder_ / "out" / "memory.json");
    EXPECT_EQ(memory.at("peak").at("dry_run"), memory.at("peak").at("measured")) << settings;
    EXPECT_THAT(memory.at("target").at("attention_kernel").get<std::string>(), HasSubstr("by scores"));
  }
  EXPECT_THAT(run("train run.yaml output_dir=cut max_length=6 max_target_length=4").errors,
              AllOf(HasSubstr("max_length 6"), HasSubstr("max_target_length"), HasSubstr("were cut")));
}

TEST_F(EncoderDecoder, IsUsedAsTrainTells) {
  const Outcome whole = run("train run.yaml output_dir=whole");
  EXPECT_EQ(run_next(whole, "data.jsonl"), 2) << whole.output << whole.errors;
  const Outcome adapted =
      run("train run.yaml model_name_or_path=whole random_init=false method=lora lora_r=4 output_dir=adapter");
  EXPECT_EQ(run_next(adapted, "data.jsonl"), 2) << adapted.output << adapted.errors;
}

TEST_F(EncoderDecoder, Learns) {
  ASSERT_EQ(run("train run.yaml learning_rate=0.01").status, 0);
  std::vector<double> losses;
  std::istringstream lines(read_file(folder_ / "out" / "metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const Json metrics = parse_json(line, "metrics.jsonl");
    if (metrics.contains("eval_loss")) losses.push_back(metrics.at("eval_loss").get<double>());
  }
  ASSERT_EQ(losses.size(), 3u);
  EXPECT_LT(losses[1], losses[0]);
  EXPECT_LT(losses[2], losses[1]);
}

TEST_F(EncoderDecoder, ContinuesWhereItStoppedAndEndsInTheSameBits) {
  for (const std::string settings : {"", " gradient_checkpointing=true", " bf16=true optim=adamw_8bit"}) {
    fs::remove_all(folder_ / "whole");
    fs::remove_all(folder_ / "out");
    ASSERT_EQ(run("train run.yaml output_dir=whole" + settings).status, 0) << settings;
    ASSERT_EQ(run("train run.yaml" + settings).status, 0) << settings;
    fs::remove(folder_ / "out" / "model.safetensors");
    fs::remove_all(folder_ / "out" / "checkpoint-6");
    const Outcome resumed = run("train run.yaml resume_from_checkpoint=auto" + settings);
    ASSERT_EQ(resumed.status, 0) << resumed.errors;
    EXPECT_THAT(resumed.errors, HasSubstr("checkpoint-4"));
    EXPECT_THAT(resumed.output, HasSubstr("equal to the byte")) << settings;
    EXPECT_EQ(hash_file(folder_ / "out" / "model.safetensors"), hash_file(folder_ / "whole" / "model.safetensors"))
        << settings;
  }
}

TEST_F(EncoderDecoder, IsTheSameWithItsAdapterMerged) {
  ASSERT_EQ(run("train run.yaml output_dir=base").status, 0);
  adapt("base");
  const Json settings = read_json(folder_ / "adapter" / "adapter_config.json");
  EXPECT_EQ(settings.at("task_type"), "SEQ_2_SEQ_LM");
  EXPECT_EQ(settings.at("target_modules"), Json::array({"q", "v"}));
  const Outcome merged = run("export adapter --merge --out merged");
  ASSERT_EQ(merged.status, 0) << merged.errors;
  const std::vector<float> of_adapter = logits("adapter");
  EXPECT_LT(difference(logits("merged"), of_adapter), 1e-4);
  EXPECT_LT(difference(logits("base --adapter adapter"), of_adapter), 1e-6);
  EXPECT_GT(difference(logits("base"), of_adapter), 1e-3);
  for (const char* model : {"merged", "adapter", "base"}) {
    const Outcome said = run(std::string("generate ") + model + " --max-new-tokens 5 --prompt 'translate: one two'");
    EXPECT_EQ(said.status, 0) << model << "\n" << said.errors;
  }
  const Outcome scored = run("eval adapter");
  EXPECT_EQ(scored.status, 0) << scored.errors;
}

// Of T5 1.0, which leaves to its default that embedding and head are one matrix, and of FLAN-T5 as transformers 5
// writes it, which says so though they are two.
TEST_F(EncoderDecoder, TakesBackAnAdapterWithItsEmbedding) {
  for (const bool tied : {true, false}) {
    for (const char* folder : {"base", "adapter", "merged"}) fs::remove_all(folder_ / folder);
    if (tied) {
      Json first = config_;
      for (const char* key : {"tie_word_embeddings", "is_encoder_decoder"}) first.erase(key);
      write("model/config.json", first.dump());
    } else {
      write("model/config.json", config_.dump());
    }
    ASSERT_EQ(run("train run.yaml output_dir=base").status, 0);
    if (!tied) {
      Json written = read_json(folder_ / "base" / "config.json");
      written["tie_word_embeddings"] = true;
      written["scale_decoder_outputs"] = false;
      write("base/config.json", written.dump());
    }
    adapt("base", "'modules_to_save=[shared]'");
    const Json settings = read_json(folder_ / "adapter" / "adapter_config.json");
    EXPECT_EQ(settings.at("ensure_weight_tying"), tied);
    EXPECT_EQ(settings.at("task_type"), "SEQ_2_SEQ_LM");
    const Outcome merged = run("export adapter --merge --out merged");
    EXPECT_EQ(merged.status, 0) << merged.errors;
    EXPECT_LT(difference(logits("merged"), logits("adapter")), 1e-4) << (tied ? "tied" : "apart");
  }
}

// PEFT wraps each module for itself: an adapter's embedding is there under every name that the model reads it by.
TEST_F(EncoderDecoder, SavesAnAdaptersEmbeddingForEachOfItsStacks) {
  ASSERT_EQ(run("train run.yaml output_dir=base").status, 0);
  adapt("base", "'modules_to_save=[shared, lm_head]'");
  const fs::path file = folder_ / "adapter" / "adapter_model.safetensors";
  const Json settings = read_json(folder_ / "adapter" / "adapter_config.json");
  EXPECT_EQ(settings.at("modules_to_save"),
            Json::array({"shared", "lm_head", "encoder.embed_tokens", "decoder.embed_tokens"}));
  const std::string prefix = "base_model.model.", stack = prefix + "encoder.embed_tokens.weight";
  {
    const weights::SafetensorsFile stored(file);
    const weights::TensorInfo &shared = *stored.find(prefix + "shared.weight"), &again = *stored.find(stack);
    ASSERT_EQ(again.bytes, shared.bytes);
    EXPECT_EQ(std::memcmp(stored.data(again), stored.data(shared), static_cast<size_t>(shared.bytes)), 0);
    std::vector<float> apart(static_cast<size_t>(again.bytes) / sizeof(float), 0.5F);
    std::vector<weights::TensorSource> tensors;
    for (const weights::TensorInfo& info : stored.tensors()) {
      const bool changed = info.name == stack;
      tensors.push_back({info.name,
                         info.dtype,
                         info.shape,
                         {},
                         changed ? reinterpret_cast<const std::byte*>(apart.data()) : stored.data(info)});
    }
    weights::write_safetensors(folder_ / "apart.safetensors", tensors);
  }
  const Outcome went_on =
      run("train run.yaml model_name_or_path=base random_init=false method=lora lora_r=4 "
          "'modules_to_save=[shared, lm_head]' adapter_name_or_path=adapter output_dir=further");
  EXPECT_EQ(went_on.status, 0) << went_on.errors;
  fs::rename(folder_ / "apart.safetensors", file);
  const Outcome refused = run("generate base --adapter adapter --prompt one");
  EXPECT_NE(refused.status, 0);
  EXPECT_THAT(refused.errors, HasSubstr("differs from 'base_model.model.shared.weight'"));
}

// Old folders hold the embedding under three names.
TEST_F(EncoderDecoder, MergesAnEmbeddingUnderAllItsNames) {
  ASSERT_EQ(run("train run.yaml output_dir=base").status, 0);
  const fs::path file = folder_ / "base" / "model.safetensors";
  {
    const weights::SafetensorsFile stored(file);
    std::vector<weights::TensorSource> tensors;
    for (const weights::TensorInfo& info : stored.tensors()) {
      tensors.push_back({info.name, info.dtype, info.shape, {}, stored.data(info)});
    }
    const weights::TensorInfo& shared = *stored.find("shared.weight");
    for (const char* name : {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"}) {
      tensors.push_back({name, shared.dtype, shared.shape, {}, stored.data(shared)});
    }
    weights::write_safetensors(folder_ / "all.safetensors", tensors);
  }
  fs::rename(folder_ / "all.safetensors", file);
  adapt("base", "'modules_to_save=[shared]'");
  ASSERT_EQ(run("export adapter --merge --out merged").status, 0);
  const weights::SafetensorsFile merged(folder_ / "merged" / "model.safetensors");
  const weights::TensorInfo& shared = *merged.find("shared.weight");
  for (const char* name : {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"}) {
    const weights::TensorInfo* info = merged.find(name);
    if (info == nullptr) continue;
    ASSERT_EQ(info->bytes, shared.bytes);
    EXPECT_EQ(std::memcmp(merged.data(*info), merged.data(shared), static_cast<size_t>(shared.bytes)), 0) << name;
  }
}

TEST_F(EncoderDecoder, IsExportedAndQuantizedInCodes) {
  ASSERT_EQ(run("train run.yaml qat=int8").status, 0);
  const Outcome exported = run("export out --out codes");
  ASSERT_EQ(exported.status, 0) << exported.errors;
  EXPECT_EQ(read_json(folder_ / "codes" / "config.json").at("dtype"), "float32");
  ASSERT_EQ(run("train run.yaml output_dir=base").status, 0);
  ASSERT_EQ(run("quantize base --format int8 --out int8").status, 0);
  for (const std::string model : {"codes", "int8"}) {
    const Outcome said = run("generate " + model + " --max-new-tokens 4 --prompt 'translate: one two'");
    EXPECT_EQ(said.status, 0) << model << "\n" << said.errors;
  }
}

TEST_F(EncoderDecoder, LogitsNeedWhatBothRead) {
  ASSERT_EQ(run("train run.yaml").status, 0);
  const auto refusal = [&](const std::string& arguments) {
    const Outcome outcome = run("logits " + arguments + " --out l.safetensors");
    EXPECT_EQ(outcome.status, 2) << outcome.errors;
    EXPECT_FALSE(fs::exists(folder_ / "l.safetensors"));
    return outcome.errors;
  };
  EXPECT_THAT(refusal("out --ids 5,6,1"), HasSubstr("has a decoder beside its encoder"));
  EXPECT_THAT(refusal("out --decoder-ids 0"), HasSubstr("--ids"));
  EXPECT_THAT(refusal("out --ids 5,6,1 --decoder-ids 0,1112"), HasSubstr("--decoder-ids: 1112 is outside"));
  EXPECT_THAT(refusal("out --ids 5,1112 --decoder-ids 0"), HasSubstr("--ids: 1112 is outside"));
  EXPECT_THAT(refusal("out --ids 5,6,1 --decoder-ids 0,x"), HasSubstr("--decoder-ids: expected token ids"));
  EXPECT_THAT(refusal(std::string(FATHOM_SOURCE_DIR) + "/data/model --ids 5,6 --decoder-ids 0"),
              HasSubstr("--decoder-ids: the model is a decoder"));
  EXPECT_NE(logits("out"), std::vector<float>());
}

TEST_F(EncoderDecoder, RefusesWhatItCannotDo) {
  const Outcome packed = run("train run.yaml packing=true");
  EXPECT_EQ(packed.status, 2);
  EXPECT_THAT(packed.errors, HasSubstr("packing: true, but an encoder and decoder"));
  const Outcome narrow = run("train run.yaml fp16=true");
  EXPECT_EQ(narrow.status, 2);
  EXPECT_THAT(narrow.errors, AllOf(HasSubstr("fp16: true, but T5's"), HasSubstr("set bf16: true in place of fp16\n")));
  EXPECT_THAT(run("train run.yaml method=lora fp16=true dtype=float16").errors,
              HasSubstr("set bf16: true in place of fp16, and dtype: bfloat16 or float32 in place of float16"));
  write("text.jsonl", R"({"prompt": "translate: one", "completion": "two"})"
                      "\n");
  EXPECT_EQ(run("preview run.yaml train_file=text.jsonl").status, 0);
  write("text.jsonl", "\n{\"text\": \"one two\"}\n");
  const Outcome text = run("train run.yaml train_file=text.jsonl");
  EXPECT_EQ(text.status, 1);
  EXPECT_THAT(text.errors, HasSubstr("text.jsonl:2: is text, but an encoder and decoder learns sources and targets"));
  const Outcome length = run("advise run.yaml --budget 1GiB --vary length");
  EXPECT_EQ(length.status, 2);
  EXPECT_THAT(length.errors, HasSubstr("an encoder and decoder has two lengths, max_length and max_target_length"));
  EXPECT_EQ(run("advise run.yaml --budget 1GiB --vary batch").status, 0);
}

TEST_F(EncoderDecoder, PreviewCountsThePaddingOfBoth) {
  write("data.jsonl",
        "{\"input_ids\": [5, 6, 7, 1], \"labels\": [8, 1]}\n{\"input_ids\": [5, 1], \"labels\": [8, 9, 10, 1]}\n");
  const Outcome outcome = run("preview run.yaml per_device_train_batch_size=2 gradient_accumulation_steps=1 --json");
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  const Json preview = parse_json(outcome.output, "preview"), &pass = preview.at("pass");
  EXPECT_EQ(pass.at("tokens"), 12);
  EXPECT_EQ(pass.at("positions"), 2 * 4 + 2 * 4);
  EXPECT_EQ(pass.at("longest"), 16);
  EXPECT_EQ(preview.at("train").at("targets"), 6);
}

TEST_F(EncoderDecoder, HasARecipe) {
  const Outcome outcome = run("estimate " FATHOM_SOURCE_DIR
                              "/configs/flan-t5.yaml model_name_or_path=model random_init=true device=cpu "
                              "train_file=data.jsonl validation_file=data.jsonl --json");
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  const Json workload = parse_json(outcome.output, "estimate").at("workload");
  // q and v of two, and of three with cross-attention: r (d_model + heads * d_kv) each.
  EXPECT_EQ(workload.at("trained_parameters"), 16 * (2 + 3 + 3) * 2 * (32 + 24));
}

TEST_F(EncoderDecoder, OfAKnownShapeIsPlannedForAGpu) {
  const std::string settings =
      " --gpu H100 --placements 1 bf16=true max_length=512 max_target_length=128 per_device_train_batch_size=8 --json";
  const Outcome outcome =
      run("estimate " FATHOM_SOURCE_DIR "/configs/models/flan-t5-base" + settings, "OMP_NUM_THREADS=2 ");
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  const Json json = parse_json(outcome.output, "estimate");
  constexpr int64_t kParameters = 247'577'856;
  EXPECT_EQ(json.at("fits"), true);
  EXPECT_EQ(json.at("workload").at("trained_parameters"), kParameters);
  EXPECT_EQ(json.at("workload").at("steps"), Json::parse("[[[8, 128, 1024, 512]]]"));
  int64_t sum = 0;
  for (const char* component :
       {"weights", "optimizer_states", "gradients", "functionality", "activations", "temporary_buffers", "kernels"}) {
    sum += json.at("components").at(component).at("dry_run").get<int64_t>();
  }
  EXPECT_EQ(sum, json.at("peak").at("dry_run").get<int64_t>());
  const Json& components = json.at("components");
  EXPECT_GE(components.at("weights").at("dry_run").get<int64_t>(), 4 * kParameters);
  EXPECT_GE(components.at("optimizer_states").at("dry_run").get<int64_t>(), 8 * kParameters);
  EXPECT_GT(components.at("activations").at("dry_run").get<int64_t>(), 0);
}

TEST_F(EncoderDecoder, IsFoundByTheNamesOfItsShape) {
  const auto inference = [&](const std::string& subject) {
    const Outcome outcome = run("estimate " + subject + " --inference --json", "HF_HUB_CACHE=$PWD/none ");
    EXPECT_EQ(outcome.status, 0) << subject << "\n" << outcome.errors;
    return outcome.status == 0 ? parse_json(outcome.output, subject).at("inference") : Json();
  };
  const Json known = inference(FATHOM_SOURCE_DIR "/configs/models/flan-t5-base");
  EXPECT_EQ(known.at("weights")[0].at("bytes"), 4 * int64_t{247'577'856});
  for (const char* name : {"flan-t5-base", "google/flan-t5-base"}) EXPECT_EQ(inference(name), known) << name;
}

}  // namespace
}  // namespace fathom
