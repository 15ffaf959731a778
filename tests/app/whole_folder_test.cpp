// Folders that hold a model of text and pictures: their text part is trained, all else stays as it is.
#include <gmock/gmock.h>

#include <fstream>

#include "arch/architecture.h"
#include "base/json_value.h"
#include "base/split_mix.h"
#include "tests/app/run.h"
#include "tests/random/weights.h"
#include "weights/companion.h"
#include "weights/folder.h"
#include "weights/other_parts.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

constexpr const char* kGemma = R"({"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3",
    "image_token_index": 100, "dtype": "bfloat16", "vision_config": {"hidden_size": 8},
    "text_config": {"model_type": "gemma3_text", "vocab_size": 101, "hidden_size": 32, "intermediate_size": 48,
                    "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16,
                    "sliding_window": 8, "max_position_embeddings": 64}})";

class WholeFolder : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    make_folder("");
    std::string lines;
    for (int line = 0; line < 8; ++line) {
      Json ids = Json::array();
      for (int i = 0; i < 12; ++i) ids.push_back((7 * line + 5 * i) % 90 + 3);
      lines += Json{{"input_ids", ids}}.dump() + "\n";
    }
    write("data.jsonl", lines);
    write("run.yaml", R"(model_name_or_path: model
device: cpu
train_file: data.jsonl
per_device_train_batch_size: 2
max_steps: 4
learning_rate: 0.01
save_strategy: steps
save_steps: 2
output_dir: out
)");
  }
  // spelling: what tensors have in the place of "model."; empty: as transformers saves it.
  void make_folder(const std::string& spelling, bool own_head = false, size_t shards = 1) {
    fs::remove_all(folder_ / "model");
    write("model/config.json", kGemma);
    write("model/preprocessor_config.json", R"({"image_processor_type": "Gemma3ImageProcessor"})");
    arch::Architecture architecture = arch::parse_architecture(parse_json(kGemma, "config"), "config.json");
    if (!spelling.empty()) architecture.text_part->model = spelling;
    if (spelling.starts_with("model.")) architecture.text_part->head = "lm_head.";
    architecture.tie_word_embeddings = !own_head;
    SplitMix64 numbers(1);
    random::write_weights(architecture, DType::kBF16, shards, folder_ / "model", numbers);
  }
  Outcome succeed(const std::string& arguments) {
    const Outcome outcome = run(arguments, "OMP_NUM_THREADS=1 ");
    EXPECT_EQ(outcome.status, 0) << arguments << "\n" << outcome.errors;
    return outcome;
  }
  std::string refusal_of(const std::string& arguments) {
    const Outcome outcome = run(arguments, "OMP_NUM_THREADS=1 ");
    EXPECT_NE(outcome.status, 0) << arguments;
    return outcome.errors;
  }
  static std::string bytes_of(const weights::ModelFolder::Entry& entry) {
    return {reinterpret_cast<const char*>(entry.data()), static_cast<size_t>(entry.info->bytes)};
  }
  // All of `model` under its names, what is beside the text part byte for byte; at least one text tensor is another.
  void expect_trained(const std::string& name) const {
    const weights::ModelFolder before(folder_ / "model"), after(folder_ / name);
    EXPECT_EQ(after.names(), before.names());
    int others = 0, changed = 0;
    for (const std::string& tensor : before.names()) {
      const auto found = after.find(tensor);
      ASSERT_TRUE(found) << tensor;
      const bool same = bytes_of(*found) == bytes_of(*before.find(tensor));
      if (!weights::is_of_other_part(tensor)) {
        changed += !same;
        continue;
      }
      ++others;
      EXPECT_TRUE(same) << tensor;
      EXPECT_EQ(found->info->dtype, before.find(tensor)->info->dtype) << tensor;
      EXPECT_EQ(found->info->shape, before.find(tensor)->info->shape) << tensor;
    }
    EXPECT_GE(others, 2);
    EXPECT_GE(changed, 1);
    EXPECT_EQ(read_json(folder_ / name / "config.json")["vision_config"], Json({{"hidden_size", 8}}));
    EXPECT_EQ(read_file(folder_ / name / "preprocessor_config.json"),
              read_file(folder_ / "model/preprocessor_config.json"));
  }
  std::string logits_of(const std::string& arguments) {
    succeed("logits " + arguments + " dtype=float32 --ids 5,7,11,30 --out logits.safetensors");
    std::string bytes = read_file(folder_ / "logits.safetensors");
    fs::remove(folder_ / "logits.safetensors");
    return bytes;
  }
};

TEST_F(WholeFolder, IsTrainedInItsTextPartAndResumed) {
  const Outcome trained = succeed("train run.yaml");
  EXPECT_THAT(trained.output, HasSubstr("equal to the byte"));
  expect_trained("out");
  expect_trained("out/checkpoint-2");
  const std::string whole = read_file(folder_ / "out/model.safetensors");
  succeed("train run.yaml output_dir=again resume_from_checkpoint=out/checkpoint-2");
  EXPECT_EQ(read_file(folder_ / "again/model.safetensors"), whole);
  EXPECT_THAT(
      succeed("inspect out").output,
      AllOf(ContainsRegex("a Gemma3ForConditionalGeneration, of which the text[ \n]+part is used, a Gemma3ForCausalLM"),
            ContainsRegex("left as they are +2 other tensors, 60 B")));
  succeed("eval out validation_file=data.jsonl");
}

TEST_F(WholeFolder, KeepsTheSpellingThatItHas) {
  for (const char* spelling : {"model.language_model.", "model.", "model.language_model.model.", "language_model."}) {
    SCOPED_TRACE(spelling);
    make_folder(spelling);
    succeed("train run.yaml save_strategy=no max_steps=1");
    expect_trained("out");
    fs::remove_all(folder_ / "out");
  }
}

TEST_F(WholeFolder, HasAHeadOfItsOwnWhereItDiffers) {
  make_folder("", /*own_head=*/true, /*shards=*/2);
  EXPECT_TRUE(weights::ModelFolder(folder_ / "model").find("language_model.lm_head.weight"));
  succeed("train run.yaml save_strategy=no");
  const weights::ModelFolder before(folder_ / "model"), after(folder_ / "out");
  EXPECT_EQ(after.names(), before.names());
  EXPECT_NE(bytes_of(*after.find("language_model.lm_head.weight")),
            bytes_of(*after.find("language_model.model.embed_tokens.weight")));
}

TEST_F(WholeFolder, IsWrittenByAllProcesses) {
  succeed("train run.yaml num_processes=2 strategy=fsdp per_device_train_batch_size=1");
  expect_trained("out");
  expect_trained("out/checkpoint-4");
  const std::string whole = read_file(folder_ / "out/model.safetensors");
  succeed(
      "train run.yaml num_processes=2 strategy=fsdp per_device_train_batch_size=1 output_dir=again "
      "resume_from_checkpoint=out/checkpoint-2");
  EXPECT_EQ(read_file(folder_ / "again/model.safetensors"), whole);
}

TEST_F(WholeFolder, HasAdaptersNamedAfterTheWholeModel) {
  succeed("train run.yaml method=lora 'target_modules=.*language_model.*(q|v)_proj'");
  const weights::SafetensorsFile adapter(folder_ / "out/adapter_model.safetensors");
  EXPECT_NE(adapter.find("base_model.model.model.language_model.layers.1.self_attn.v_proj.lora_B.weight"), nullptr);
  EXPECT_EQ(adapter.tensors().size(), 8);
  EXPECT_THAT(read_json(folder_ / "out/adapter_config.json")["exclude_modules"].get<std::string>(),
              HasSubstr("vision_tower"));
  const std::string base = logits_of("model"), adapted = logits_of("out");
  EXPECT_NE(adapted, base);
  // In the spellings of older libraries.
  for (const char* spelling : {"model.", "language_model.model."}) {
    std::vector<weights::TensorSource> renamed;
    for (const weights::TensorInfo& tensor : adapter.tensors()) {
      std::string name = tensor.name;
      constexpr std::string_view kInWhole = "model.language_model.";
      name.replace(name.find(kInWhole), kInWhole.size(), spelling);
      renamed.push_back({name, tensor.dtype, tensor.shape, {}, adapter.data(tensor)});
    }
    fs::create_directories(folder_ / "older");
    fs::copy_file(folder_ / "out/adapter_config.json", folder_ / "older/adapter_config.json",
                  fs::copy_options::overwrite_existing);
    weights::write_safetensors(folder_ / "older/adapter_model.safetensors", renamed);
    EXPECT_EQ(logits_of("older"), adapted) << spelling;
  }
  succeed(
      "train run.yaml method=lora 'target_modules=.*language_model.*(q|v)_proj' output_dir=again "
      "resume_from_checkpoint=out/checkpoint-2");
  EXPECT_EQ(read_file(folder_ / "again/adapter_model.safetensors"),
            read_file(folder_ / "out/adapter_model.safetensors"));
  succeed("export out --merge --out merged");
  expect_trained("merged");
  EXPECT_NE(logits_of("merged"), base);
}

TEST_F(WholeFolder, IsQuantizedInItsTextPart) {
  for (const char* format : {"nf4", "fp8"}) {
    SCOPED_TRACE(format);
    const std::string out = format;
    succeed("quantize model --format " + out + " --out " + out);
    const weights::ModelFolder before(folder_ / "model"), after(folder_ / out);
    for (const std::string& name : before.names()) {
      if (!weights::is_of_other_part(name)) continue;
      ASSERT_TRUE(after.find(name)) << name;
      EXPECT_EQ(bytes_of(*after.find(name)), bytes_of(*before.find(name))) << name;
    }
    EXPECT_THAT(read_json(folder_ / out / "config.json")["quantization_config"].dump(),
                HasSubstr("model.vision_tower"));
    EXPECT_THAT(
        succeed("train run.yaml method=lora save_strategy=no output_dir=lora-" + out + " model_name_or_path=" + out)
            .output,
        HasSubstr("equal to the byte"));
    succeed("quantize " + out + " --format bf16 --out back-" + out);
    EXPECT_EQ(weights::ModelFolder(folder_ / ("back-" + out)).names(), before.names());
  }
}

TEST_F(WholeFolder, IsRoundedWhileItIsTrained) {
  succeed("train run.yaml qat=int8 save_strategy=no");
  succeed("export out --out exported");
  const weights::ModelFolder exported(folder_ / "exported");
  EXPECT_TRUE(exported.find("vision_tower.encoder.layers.0.mlp.fc1.weight"));
  EXPECT_EQ(exported.find("language_model.model.layers.0.mlp.up_proj.weight")->info->dtype, DType::kI8);
  EXPECT_FALSE(exported.find("language_model.model.layers.0.mlp.up_proj.int8_log_steps"));
}

TEST_F(WholeFolder, RefusesWhatStandsInThePlaceOfPictures) {
  write("picture.jsonl", "{\"input_ids\": [5, 6, 7]}\n{\"input_ids\": [5, 100, 7]}\n");
  EXPECT_THAT(refusal_of("train run.yaml train_file=picture.jsonl"),
              AllOf(HasSubstr("picture.jsonl:2"), HasSubstr("holds the token 100"), HasSubstr("picture or sound")));
  write("parts.jsonl",
        Json{{"messages",
              {{{"role", "user"}, {"content", {{{"type", "image"}}}}}, {{"role", "assistant"}, {"content", "a cat"}}}}}
                .dump() +
            "\n");
  EXPECT_THAT(refusal_of("train run.yaml train_file=parts.jsonl"),
              AllOf(HasSubstr("parts.jsonl:1"), HasSubstr("messages[0].content: a part is of type \"image\"")));
}

TEST_F(WholeFolder, IsRefusedWhereTensorsAreMissingOrOfNoPart) {
  make_folder("", /*own_head=*/false, /*shards=*/2);
  fs::remove(folder_ / "model/model-00002-of-00002.safetensors");
  EXPECT_THAT(refusal_of("train run.yaml"), HasSubstr("model-00002-of-00002.safetensors"));
  make_folder("");
  const weights::ModelFolder model(folder_ / "model");
  std::vector<weights::TensorSource> sources;
  for (const std::string& name : model.names()) sources.push_back(weights::copy_of(*model.find(name)));
  sources.push_back(sources.back());
  sources.back().name = "smell_tower.weight";
  fs::create_directories(folder_ / "odd");
  weights::write_safetensors(folder_ / "odd/model.safetensors", sources);
  fs::copy_file(folder_ / "model/config.json", folder_ / "odd/config.json");
  EXPECT_THAT(refusal_of("train run.yaml model_name_or_path=odd"),
              HasSubstr("tensor smell_tower.weight has no place in Gemma3ForCausalLM"));
}

}  // namespace
}  // namespace fathom
