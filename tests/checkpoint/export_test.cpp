// Exported folders: merged weights rounded once, shards with their index, and nothing half-written.
#include "checkpoint/export.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "base/error.h"
#include "base/file.h"
#include "base/json_value.h"
#include "checkpoint/checkpoint.h"
#include "weights/folder.h"

namespace fathom::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;
namespace fs = std::filesystem;

constexpr char kModule[] = "base_model.model.model.layers.0.self_attn.q_proj.";

class ExportTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("fathom_export_" + std::to_string(::getpid()));
    fs::remove_all(root_);
    fs::create_directories(root_ / "base");
    fs::create_directories(root_ / "adapter");
    put("base/config.json", R"({"model_type": "llama", "torch_dtype": "bfloat16"})");
    put("base/generation_config.json", R"({"eos_token_id": 2})");
    put("base/tokenizer.json", "the base's");
    put("adapter/tokenizer.json", "the adapter's");
    put("adapter/chat_template.jinja", "{{ messages }}");
    at::manual_seed(3);
    q_ = at::randn({6, 4}).to(at::kBFloat16);
    norm_ = at::randn({4}).to(at::kBFloat16);
    a_ = at::randn({2, 4});
    b_ = at::randn({6, 2});
    save(root_ / "base/model.safetensors",
         {{"model.layers.0.self_attn.q_proj.weight", q_}, {"model.norm.weight", norm_}});
    put_adapter({{"lora_A.weight", a_}, {"lora_B.weight", b_}}, Json::object());
    request_.source = root_ / "adapter";
    request_.out = root_ / "out";
  }
  void TearDown() override { fs::remove_all(root_); }

  static void save(const fs::path& path, const NamedTensors& tensors) {
    weights::write_safetensors(path, tensor_sources(tensors));
  }
  void put(const std::string& name, const std::string& text) const { std::ofstream(root_ / name) << text; }
  void put_adapter(const NamedTensors& tensors, const Json& changes) const {
    Json config = {{"peft_type", "LORA"}, {"r", 2},
                   {"lora_alpha", 3},     {"target_modules", {"q_proj"}},
                   {"bias", "none"},      {"base_model_name_or_path", (root_ / "base").string()}};
    config.update(changes);
    put("adapter/adapter_config.json", format_json(config));
    weights::write_safetensors(root_ / "adapter/adapter_model.safetensors", tensor_sources(tensors, kModule));
  }
  std::vector<std::string> names(const fs::path& folder) const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
    return names;
  }
  at::Tensor exported(const std::string& name) const {
    const weights::ModelFolder folder(root_ / "out");
    const auto entry = folder.find(name);
    return at::from_blob(const_cast<std::byte*>(entry->data()), entry->info->shape, at::kBFloat16).clone();
  }
  std::string refusal() const {
    try {
      export_model(request_);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }

  fs::path root_;
  ExportRequest request_;
  at::Tensor q_, norm_, a_, b_;
};

TEST_F(ExportTest, MergesInFp32AndRoundsOnce) {
  request_.merge = true;
  EXPECT_THAT(export_model(request_), HasSubstr("merged"));
  EXPECT_THAT(names(root_ / "out"), UnorderedElementsAre("config.json", "generation_config.json", "tokenizer.json",
                                                         "chat_template.jinja", "model.safetensors"));
  const at::Tensor expected = (q_.to(at::kDouble) + 1.5 * at::mm(b_.to(at::kDouble), a_.to(at::kDouble)));
  EXPECT_TRUE(at::equal(exported("model.layers.0.self_attn.q_proj.weight"), expected.to(at::kFloat).to(at::kBFloat16)));
  EXPECT_TRUE(at::equal(exported("model.norm.weight"), norm_));
  EXPECT_EQ(read_json(root_ / "out/config.json")["torch_dtype"], "bfloat16");
  EXPECT_EQ(read_file(root_ / "out/tokenizer.json"), "the adapter's") << "what was trained with comes first";
}

TEST_F(ExportTest, RefusesTargetsThatTheBaseDoesNotHave) {
  request_.merge = true;
  put_adapter({{"lora_A.weight", a_}, {"lora_B.weight", b_}}, {{"target_modules", {"q_proj", "other"}}});
  EXPECT_THAT(refusal(), HasSubstr("adapter_config.json: target_modules: 'other' matches no linear layer"));
  EXPECT_FALSE(fs::exists(root_ / "out"));
  put_adapter({{"lora_A.weight", a_}, {"lora_B.weight", b_}}, {{"target_modules", R"(.*\.q_proj)"}});
  EXPECT_EQ(refusal(), "") << "a pattern of PEFT's";
  fs::remove_all(root_ / "out");
  put_adapter({{"lora_A.weight", a_}, {"lora_B.weight", b_}}, {{"target_modules", R"(.*\.other)"}});
  EXPECT_THAT(refusal(),
              HasSubstr("adapter_config.json: target_modules: '.*\\.other' matches the whole name of no linear"));
}

TEST_F(ExportTest, MergesLargeWeightsInBlocksOfRows) {
  q_ = at::randn({5000, 4096}).to(at::kBFloat16);  // more than one block of rows
  a_ = at::randn({2, 4096});
  b_ = at::randn({5000, 2});
  save(root_ / "base/model.safetensors", {{"model.layers.0.self_attn.q_proj.weight", q_}});
  put_adapter({{"lora_A.weight", a_}, {"lora_B.weight", b_}}, {{"lora_alpha", 8}});
  request_.merge = true;
  export_model(request_);
  const at::Tensor expected = at::addmm(q_.to(at::kFloat), b_, a_, 1, 4.0).to(at::kBFloat16);
  const at::Tensor difference =
      (exported("model.layers.0.self_attn.q_proj.weight").to(at::kFloat) - expected.to(at::kFloat)).abs();
  EXPECT_LE(difference.max().item<float>(), 0.25f) << "half a unit in the last place of the largest";
  EXPECT_LE(difference.mean().item<float>(), 1e-5f);
}

// modules_to_save, in FP32 over a base in 16 bits, with two tokens more than the base knows: the head, which the
// adapter leaves alone, gets rows for them too.
TEST_F(ExportTest, TakesWhatTheAdapterHoldsWhole) {
  put("base/config.json",
      R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 3, "hidden_size": 4,
          "intermediate_size": 6, "num_hidden_layers": 1, "num_attention_heads": 2, "torch_dtype": "bfloat16"})");
  const at::Tensor head = at::randn({3, 4}).to(at::kBFloat16), embedding = at::randn({5, 4}), norm = at::randn({4});
  save(root_ / "base/model.safetensors", {{"model.embed_tokens.weight", at::zeros({3, 4}, at::kBFloat16)},
                                          {"model.layers.0.self_attn.q_proj.weight", q_},
                                          {"model.norm.weight", norm_},
                                          {"lm_head.weight", head}});
  put_adapter({}, {{"modules_to_save", {"embed_tokens", "model.norm"}}});
  const auto put_whole = [&](const at::Tensor& whole_norm) {
    save(root_ / "adapter/adapter_model.safetensors", {{"base_model.model.model.embed_tokens.weight", embedding},
                                                       {"base_model.model.model.norm.weight", whole_norm}});
  };
  put_whole(norm);
  fs::remove(root_ / "adapter/tokenizer.json");
  request_.merge = true;
  export_model(request_);
  EXPECT_TRUE(at::equal(exported("model.embed_tokens.weight"), embedding.to(at::kBFloat16)));
  EXPECT_TRUE(at::equal(exported("model.norm.weight"), norm.to(at::kBFloat16)));
  const at::Tensor grown = exported("lm_head.weight");
  ASSERT_EQ(grown.size(0), 5);
  EXPECT_TRUE(at::equal(grown.narrow(0, 0, 3), head));
  for (const int64_t row : {3, 4}) {
    EXPECT_TRUE(at::allclose(grown[row].to(at::kFloat), head.to(at::kFloat).mean(0), 1e-2, 1e-3));
  }
  EXPECT_EQ(read_json(root_ / "out/config.json")["vocab_size"], 5);

  fs::remove_all(root_ / "out");
  put_whole(at::randn({5}));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("model.norm.weight"), HasSubstr("another shape")));
}

TEST_F(ExportTest, NamesTheBaseThatItIsGiven) {
  const auto named = [&](const fs::path& base) {
    fs::remove_all(root_ / "out");
    request_.base = base;
    export_model(request_);
    return read_json(root_ / "out/adapter_config.json")["base_model_name_or_path"].get<std::string>();
  };
  EXPECT_EQ(named("meta-llama/Llama-3.1-8B"), "meta-llama/Llama-3.1-8B") << "not a path in the working folder";
  EXPECT_EQ(named(root_ / "adapter/../base"), (root_ / "base").string());
  fs::remove_all(root_ / "out");
  request_.base = root_ / "nowhere";
  EXPECT_THAT(refusal(), HasSubstr("neither a folder nor the name of a model on the hub"));
}

TEST_F(ExportTest, WritesAnAdapterAsItIs) {
  export_model(request_);
  EXPECT_THAT(names(root_ / "out"), UnorderedElementsAre("adapter_config.json", "adapter_model.safetensors",
                                                         "tokenizer.json", "chat_template.jinja"));
  EXPECT_EQ(read_file(root_ / "out/adapter_model.safetensors"), read_file(root_ / "adapter/adapter_model.safetensors"));
}

TEST_F(ExportTest, DividesALargeModelAndIndexesIt) {
  request_.source = root_ / "base";
  request_.shard_bytes = 50;  // q_proj has 48 bytes, the norm 8
  export_model(request_);
  EXPECT_THAT(names(root_ / "out"),
              testing::IsSupersetOf({"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                                     "model.safetensors.index.json"}));
  EXPECT_EQ(read_json(root_ / "out/model.safetensors.index.json")["metadata"]["total_size"], 56);
  EXPECT_TRUE(at::equal(exported("model.layers.0.self_attn.q_proj.weight"), q_));
  EXPECT_TRUE(at::equal(exported("model.norm.weight"), norm_));
}

TEST_F(ExportTest, TakesTheNewestCheckpointOfAnUnfinishedRun) {
  const ModelFiles files{root_ / "base", std::nullopt};
  const at::Tensor later = at::ones({4}, at::kBFloat16);
  checkpoint::save(root_ / "run", 1, {{{"model.norm.weight", norm_}}, {}, Json::object()}, files, 0);
  checkpoint::save(root_ / "run", 2, {{{"model.norm.weight", later}}, {}, Json::object()}, files, 0);
  request_.source = root_ / "run";
  put("run/config.yaml", "");
  for (const char* source : {"run", "run/checkpoint-2", "run/../run/"}) {
    for (const char* inside : {"sub", "sub/deeper"}) {
      request_.source = root_ / source;
      request_.out = root_ / "run" / inside;
      EXPECT_THAT(refusal(), HasSubstr("lies in the folder of the model itself")) << source;
      EXPECT_FALSE(fs::exists(root_ / "run" / "sub"));
    }
  }
  request_.source = root_ / "run";
  request_.out = root_ / "out";
  EXPECT_THAT(export_model(request_), HasSubstr("checkpoint-2"));
  EXPECT_TRUE(at::equal(exported("model.norm.weight"), later));
  EXPECT_FALSE(fs::exists(root_ / "out/optimizer.safetensors"));
  fs::remove_all(root_ / "out");
  put("run/checkpoint-1/model.safetensors", "damaged");
  request_.source = root_ / "run/checkpoint-1";
  EXPECT_THAT(refusal(), HasSubstr("the manifest says"));
  EXPECT_FALSE(fs::exists(root_ / "out"));
}

TEST_F(ExportTest, RefusesWhatDoesNotFitTogether) {
  request_.merge = true;
  put_adapter({{"lora_A.weight", at::zeros({2, 5})}, {"lora_B.weight", b_}}, Json::object());
  EXPECT_THAT(refusal(), AllOf(HasSubstr("lora_A"), HasSubstr("does not fit")));
  put_adapter({{"lora_A.weight", a_}}, Json::object());
  EXPECT_THAT(refusal(), HasSubstr("no lora_B beside it"));
  put_adapter({{"lora_A.weight", a_}, {"lora_B.weight", b_}, {"other.lora_A.weight", a_}, {"other.lora_B.weight", b_}},
              Json::object());
  EXPECT_THAT(refusal(), HasSubstr("which the base does not have"));
  put_adapter({{"lora_A.weight", a_}, {"lora_B.weight", b_}}, {{"base_model_name_or_path", "/absent"}});
  EXPECT_THAT(refusal(), AllOf(HasSubstr("/absent"), HasSubstr("--base")));
  request_.base = root_ / "base";
  EXPECT_EQ(refusal(), "");
  EXPECT_THAT(refusal(), HasSubstr("exists"));
  request_.out = root_ / "base" / "sub";
  EXPECT_THAT(refusal(), HasSubstr("lies in the folder of the model itself"));
  put("file", "");
  request_.out = root_ / "file" / "out";
  EXPECT_THAT(refusal(), AllOf(HasSubstr("cannot create"), HasSubstr("Not a directory"), HasSubstr("another folder")));
  request_.out = root_ / "model.gguf";
  EXPECT_THAT(refusal(), AllOf(HasSubstr("is the name of a file"), HasSubstr("--format gguf")));
  request_.out = root_ / "out";
  request_.source = root_ / "base";
  EXPECT_THAT(refusal(), HasSubstr("no adapter"));
  request_.source = root_ / "absent";
  EXPECT_THAT(refusal(), HasSubstr("not a folder"));
  EXPECT_THAT(names(root_), UnorderedElementsAre("base", "adapter", "out", "file")) << "no staging folder is left";
}

}  // namespace
}  // namespace fathom::checkpoint
