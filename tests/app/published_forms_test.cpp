// Models in the form in which they are published, made small (published_forms.json): each is planned, shown, trained,
// asked and exported from its folder as it is, with weights in the type and in as many files as the form says.
#include <gmock/gmock.h>

#include "arch/architecture.h"
#include "base/json_value.h"
#include "base/split_mix.h"
#include "quant/float_format.h"
#include "tests/app/run.h"
#include "tests/random/weights.h"
#include "weights/folder.h"
#include "weights/other_parts.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

const Json& forms() {
  static const Json forms = read_json(FATHOM_SOURCE_DIR "/tests/app/published_forms.json");
  return forms;
}

// The numbers of a tensor, whatever their type.
std::vector<double> numbers_of(const weights::ModelFolder::Entry& entry) {
  const DType type = entry.info->dtype;
  const auto& format = type == DType::kF32 ? quant::kFp32 : type == DType::kF16 ? quant::kFp16 : quant::kBf16;
  std::vector<double> numbers;
  for (int64_t at = 0; at < entry.info->bytes; at += size_of(type)) {
    uint32_t code = 0;
    std::memcpy(&code, entry.data() + at, static_cast<size_t>(size_of(type)));
    numbers.push_back(quant::decode(format, code));
  }
  return numbers;
}

class PublishedForm : public ProgramTest, public ::testing::WithParamInterface<size_t> {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    Json config = form_.value("bare", false) ? Json::object() : forms()["base"];
    config.update(form_["config"]);
    write("model/config.json", config.dump());
    architecture_ = arch::parse_architecture(config, "config.json");
    if (form_.value("own_head", false)) architecture_.tie_word_embeddings = false;
    type_ = dtype_name(architecture_.dtype);
    SplitMix64 numbers(1);
    random::write_weights(architecture_, architecture_.dtype, form_["shards"].get<size_t>(), folder_ / "model",
                          numbers);
    for (const Json& name : form_.value("beside", Json::array())) {
      write("model/" + name.get<std::string>(), R"({"image_processor_type": "AnyImageProcessor"})");
    }
    write("model/generation_config.json", form_["generation"].dump());
    if (form_.contains("template")) write("model/chat_template.jinja", form_["template"].get<std::string>());
    for (const char* file : {"tokenizer.json", "tokenizer_config.json", "spiece.model", "special_tokens_map.json"}) {
      if (fs::exists(tokenizer_ / file)) fs::copy_file(tokenizer_ / file, folder_ / "model" / file);
    }
    write("run.yaml", R"(model_name_or_path: model
device: cpu
train_file: data.jsonl
per_device_train_batch_size: 2
max_length: 64
max_steps: 2
learning_rate: 0
save_strategy: no
output_dir: out
)");
    const Json said = {{{"role", "user"}, {"content", " How much memory is 12 GiB?\n"}},
                       {{"role", "assistant"}, {"content", "Größe: 12 × 2³⁰ bytes \U0001f642"}}};
    const Json line = form_.contains("template")   ? Json{{"messages", said}}
                      : form_["tokenizer"] == "t5" ? Json{{"prompt", "How much?"}, {"completion", "12 GiB"}}
                                                   : Json{{"text", "memory of 12 GiB: Größe \U0001f642"}};
    write("data.jsonl", line.dump() + "\n" + line.dump() + "\n");
  }
  static fs::path tokenizer_of(const Json& form) {
    const fs::path all = FATHOM_SOURCE_DIR "/tests/tokenizer";
    const auto name = form["tokenizer"].get<std::string>();
    return fs::exists(all / "published" / name) ? all / "published" / name : all / name;
  }
  Outcome succeed(const std::string& arguments) {
    const Outcome outcome = run(arguments, "OMP_NUM_THREADS=1 ");
    EXPECT_EQ(outcome.status, 0) << arguments << "\n" << outcome.errors;
    return outcome;
  }

  const Json& form_ = forms()["models"][GetParam()];
  const fs::path tokenizer_ = tokenizer_of(form_);
  arch::Architecture architecture_;
  std::string type_;  // of the weights
};

TEST_P(PublishedForm, WorksFromItsFolder) {
  EXPECT_THAT(succeed("inspect model").output,
              ::testing::AllOf(ContainsRegex("stored as +" + type_), HasSubstr("tokenizer"), Not(HasSubstr("not read")),
                               Not(HasSubstr("not for training"))));
  EXPECT_THAT(succeed("estimate model max_length=32 per_device_train_batch_size=1").errors,
              Not(HasSubstr("needs no tokenizer")));
  EXPECT_THAT(succeed("preview run.yaml").output, HasSubstr("GiB"));
  EXPECT_THAT(succeed("train run.yaml").output, HasSubstr("equal to the byte"));
  succeed("generate out --prompt 'memory of' --max-new-tokens 4");
  succeed("export out --out exported");
  for (const auto& entry : fs::directory_iterator(folder_ / "model")) {
    const fs::path name = entry.path().filename();
    if (name == "config.json" || name.string().starts_with("model")) continue;
    EXPECT_EQ(read_file(folder_ / "exported" / name), read_file(entry.path())) << name;
  }
  // At a learning rate of 0 training gives the weights back, under their names, in FP32.
  const weights::ModelFolder published(folder_ / "model"), exported(folder_ / "exported");
  ASSERT_EQ(exported.names(), published.names());
  for (const std::string& name : published.names()) {
    EXPECT_EQ(numbers_of(*exported.find(name)), numbers_of(*published.find(name))) << name;
    if (!weights::is_of_other_part(name)) continue;
    EXPECT_EQ(exported.find(name)->info->dtype, published.find(name)->info->dtype) << name;
  }
  if (architecture_.text_part) {
    Json config = read_json(folder_ / "exported/config.json");
    EXPECT_EQ(config["architectures"], form_["config"]["architectures"]);
    EXPECT_EQ(config["vision_config"], form_["config"]["vision_config"]);
    EXPECT_THAT(succeed("inspect out").output, HasSubstr(architecture_.text_part->whole));
    const Outcome gguf = run("export out --format gguf --out text.gguf");
    if (architecture_.family.starts_with("Qwen")) {
      EXPECT_THAT(gguf.errors, HasSubstr("an architecture of its own"));
    } else if (architecture_.family.starts_with("Gemma")) {  // as text alone: its form has no tokenizer.model
      EXPECT_THAT(gguf.errors, HasSubstr("merges such a tokenizer's characters by scores"));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, PublishedForm, ::testing::Range(size_t{0}, forms()["models"].size()),
                         [](const ::testing::TestParamInfo<size_t>& number) {
                           const std::string known = forms()["models"][number.param]["name"];
                           std::string name;
                           for (const char letter : known) {
                             if (std::isalnum(static_cast<unsigned char>(letter))) name += letter;
                           }
                           return name;
                         });

}  // namespace
}  // namespace fathom
