// GGUF files of models and adapters: every byte, what has no place in one, and nothing half-written.
#include "checkpoint/gguf_file.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <stdexcept>

#include "base/error.h"
#include "base/file.h"
#include "base/json_value.h"
#include "checkpoint/export.h"
#include "checkpoint/named_tensors.h"
#include "gguf/model_keys.h"
#include "quant/ggml_blocks.h"
#include "weights/gguf_writer.h"
#include "weights/safetensors.h"

namespace fathom::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;
using weights::GgufType;
namespace fs = std::filesystem;

constexpr int64_t kWidth = 64, kInner = 40, kTokens = 12;  // of kInner the rows are no whole blocks

// A Llama of one layer, two heads of 32 and one for keys and values.
class GgufFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("fathom_gguf_file_" + std::to_string(::getpid()));
    fs::remove_all(root_);
    fs::create_directories(root_ / "base");
    fs::create_directories(root_ / "adapter");
    config_ = {{"architectures", {"LlamaForCausalLM"}},
               {"model_type", "llama"},
               {"vocab_size", kTokens},
               {"hidden_size", kWidth},
               {"intermediate_size", kInner},
               {"num_hidden_layers", 1},
               {"num_attention_heads", 2},
               {"num_key_value_heads", 1},
               {"rms_norm_eps", 1e-6},
               {"max_position_embeddings", 128},
               {"dtype", "bfloat16"}};
    at::manual_seed(11);
    const std::string layer = "model.layers.0.";
    for (const auto& [name, shape] : std::vector<std::pair<std::string, std::vector<int64_t>>>{
             {"model.embed_tokens.weight", {kTokens, kWidth}},
             {layer + "input_layernorm.weight", {kWidth}},
             {layer + "self_attn.q_proj.weight", {kWidth, kWidth}},
             {layer + "self_attn.k_proj.weight", {kWidth / 2, kWidth}},
             {layer + "self_attn.v_proj.weight", {kWidth / 2, kWidth}},
             {layer + "self_attn.o_proj.weight", {kWidth, kWidth}},
             {layer + "post_attention_layernorm.weight", {kWidth}},
             {layer + "mlp.gate_proj.weight", {kInner, kWidth}},
             {layer + "mlp.up_proj.weight", {kInner, kWidth}},
             {layer + "mlp.down_proj.weight", {kWidth, kInner}},
             {"model.norm.weight", {kWidth}},
             {"lm_head.weight", {kTokens, kWidth}}}) {
      tensors_.emplace_back(name, at::randn(shape).to(at::kBFloat16));
    }
    save();
    request_.source = root_ / "base";
    request_.out = root_ / "model.gguf";
    request_.gguf = true;
  }
  void TearDown() override { fs::remove_all(root_); }

  void save() const {
    put("base/config.json", format_json(config_));
    weights::write_safetensors(root_ / "base/model.safetensors", tensor_sources(tensors_));
  }
  void put(const std::string& name, const std::string& text) const { std::ofstream(root_ / name) << text; }
  at::Tensor& tensor(const std::string& name) {
    for (auto& [other, tensor] : tensors_) {
      if (other.ends_with(name)) return tensor;
    }
    throw std::out_of_range(name);
  }
  // A LoRA adapter of rank 32 on q_proj; changes: of its adapter_config.json.
  void save_adapter(const Json& changes = Json::object()) {
    Json settings = {{"peft_type", "LORA"}, {"r", 32},
                     {"lora_alpha", 8},     {"target_modules", {"q_proj"}},
                     {"bias", "none"},      {"base_model_name_or_path", (root_ / "base").string()}};
    settings.update(changes);
    put("adapter/adapter_config.json", format_json(settings));
    weights::write_safetensors(root_ / "adapter/adapter_model.safetensors",
                               tensor_sources({{"lora_A.weight", a_}, {"lora_B.weight", b_}},
                                              "base_model.model.model.layers.0.self_attn.q_proj."));
    request_.source = root_ / "adapter";
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(root_)) names.push_back(entry.path().filename().string());
    return names;
  }
  std::string refusal() const {
    try {
      export_model(request_);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }
  // "35 tensors" of the source, which is one file.
  std::string tensor_count() const {
    const weights::SafetensorsFile file(request_.source / "model.safetensors");
    return std::to_string(file.tensors().size()) + " tensors";
  }
  static std::string in_fp32(const at::Tensor& tensor) {
    const at::Tensor wide = tensor.to(at::kFloat).contiguous();
    return {static_cast<const char*>(wide.const_data_ptr()), wide.nbytes()};
  }
  // Of a matrix whose heads of 32 rows llama.cpp has with their halves taking turns.
  static at::Tensor in_turns(const at::Tensor& matrix_ND) {
    return matrix_ND.view({-1, 2, 16, matrix_ND.size(1)}).transpose(1, 2).reshape_as(matrix_ND);
  }

  struct Expected {
    std::string name;
    at::Tensor values;
    GgufType type;
  };
  // The bytes of a file of these.
  std::string file_of(const weights::GgufKeys& keys, const std::vector<Expected>& tensors) const {
    std::vector<weights::GgufTensor> listed;
    listed.reserve(tensors.size());
    for (const Expected& each : tensors) listed.push_back({each.name, each.values.sizes().vec(), each.type});
    weights::GgufWriter writer(root_ / "expected", keys, listed);
    for (const Expected& each : tensors) {
      const at::Tensor wide = each.values.to(at::kFloat).contiguous();
      at::Tensor bytes = each.type == GgufType::kF32   ? wide
                         : each.type == GgufType::kF16 ? wide.to(at::kHalf)
                                                       : wide.to(at::kBFloat16);
      if (weights::is_quantized(each.type)) {
        const auto quantize = each.type == GgufType::kQ4_0 ? quant::quantize_q4_0 : quant::quantize_q8_0;
        bytes = at::empty({wide.numel() / 32 * (each.type == GgufType::kQ4_0 ? 18 : 34)}, at::kByte);
        quantize(wide.const_data_ptr<float>(), wide.numel(), static_cast<std::byte*>(bytes.mutable_data_ptr()));
      }
      writer.write(bytes.const_data_ptr(), static_cast<int64_t>(bytes.nbytes()));
    }
    writer.finish();
    std::string content = read_file(root_ / "expected");
    fs::remove(root_ / "expected");
    return content;
  }
  // Of a model without a tokenizer; number: of the file's type.
  weights::GgufKeys keys_of(const char* name, int64_t vocabulary, uint32_t number) const {
    const arch::Architecture architecture = arch::parse_architecture(config_, "config.json");
    weights::GgufKeys keys = {{"general.architecture", std::string(name)},
                              {"general.type", std::string("model")},
                              {"general.name", name_},
                              {"general.quantization_version", uint32_t{2}}};
    for (const auto& key : gguf::model_keys(architecture, gguf::llama_cpp_architecture(architecture, ""), vocabulary)) {
      keys.push_back(key);
    }
    keys.emplace_back("general.file_type", number);
    keys.emplace_back("tokenizer.ggml.model", std::string("none"));
    return keys;
  }
  // Of the whole model, whose matrices are of one type, the head's of another, and whose down_proj is of a third.
  std::string model_file(uint32_t number, GgufType matrices, GgufType head, GgufType down) {
    std::vector<Expected> tensors = {
        {"token_embd.weight", tensor("embed_tokens.weight"), matrices},
        {"blk.0.attn_norm.weight", tensor("input_layernorm.weight"), GgufType::kF32},
        {"blk.0.attn_q.weight", in_turns(tensor("q_proj.weight")), matrices},
        {"blk.0.attn_k.weight", in_turns(tensor("k_proj.weight")), matrices},
        {"blk.0.attn_v.weight", tensor("v_proj.weight"), matrices},
        {"blk.0.attn_output.weight", tensor("o_proj.weight"), matrices},
        {"blk.0.ffn_norm.weight", tensor("post_attention_layernorm.weight"), GgufType::kF32},
        {"blk.0.ffn_gate.weight", tensor("gate_proj.weight"), matrices},
        {"blk.0.ffn_up.weight", tensor("up_proj.weight"), matrices},
        {"blk.0.ffn_down.weight", tensor("down_proj.weight"), down},
        {"output_norm.weight", tensor("model.norm.weight"), GgufType::kF32},
        {"output.weight", tensor("lm_head.weight"), head}};
    return file_of(keys_of("llama", kTokens, number), tensors);
  }

  fs::path root_;
  Json config_;
  NamedTensors tensors_;
  std::string name_ = "base";
  at::Tensor a_ = at::randn({32, kWidth}), b_ = at::randn({kWidth, 32});
  ExportRequest request_;
};

TEST_F(GgufFileTest, HoldsAModelInEveryType) {
  struct Case {
    const char* type;
    uint32_t number;
    GgufType matrices, head, down;
  };
  for (const Case& each : {Case{"auto", 32, GgufType::kBF16, GgufType::kBF16, GgufType::kBF16},
                           {"f32", 0, GgufType::kF32, GgufType::kF32, GgufType::kF32},
                           {"f16", 1, GgufType::kF16, GgufType::kF16, GgufType::kF16},
                           {"q8_0", 7, GgufType::kQ8_0, GgufType::kQ8_0, GgufType::kF16},
                           {"q4_0", 2, GgufType::kQ4_0, GgufType::kQ8_0, GgufType::kF16}}) {
    request_.gguf_type = each.type;
    const std::string told = export_model(request_);
    EXPECT_TRUE(read_file(request_.out) == model_file(each.number, each.matrices, each.head, each.down)) << each.type;
    EXPECT_THAT(told, HasSubstr("12 tensors"));
    EXPECT_EQ(told.find("1 of them in F16") != std::string::npos, each.type[0] == 'q') << told;
    EXPECT_THAT(names(), UnorderedElementsAre("base", "adapter", "model.gguf"));
    fs::remove(request_.out);
  }
}

TEST_F(GgufFileTest, LeavesATiedHeadOut) {
  config_["tie_word_embeddings"] = true;
  save();
  EXPECT_THAT(export_model(request_), HasSubstr("12 tensors")) << "a head that differs from the embedding is not tied";
  fs::remove(request_.out);
  tensor("lm_head.weight").copy_(tensor("embed_tokens.weight"));
  save();
  EXPECT_THAT(export_model(request_), HasSubstr("11 tensors"));
}

// T5's first models scale what the head reads, and share the head with the embedding.
TEST_F(GgufFileTest, ScalesAHeadByItself) {
  request_.source = FATHOM_SOURCE_DIR "/tests/model/golden/t5_first";
  request_.gguf_type = "f32";
  export_model(request_);
  const weights::ModelFolder folder(request_.source);
  const auto entry = folder.find("shared.weight");
  const at::Tensor embedding =
      at::from_blob(const_cast<std::byte*>(entry->data()), entry->info->shape, at::kHalf).to(at::kFloat);
  const std::string content = read_file(request_.out);
  for (const at::Tensor& part : {embedding, embedding.mul(1 / std::sqrt(18.0))}) {
    const std::string bytes(static_cast<const char*>(part.const_data_ptr()), part.nbytes());
    EXPECT_NE(content.find(bytes), std::string::npos);
  }
}

// Mixtral's folders have a matrix for each expert, Granite's two tensors of all.
TEST_F(GgufFileTest, StacksExperts) {
  request_.gguf_type = "f32";
  const auto stored = [&](const std::string& name) {
    const weights::ModelFolder folder(request_.source);
    const auto entry = folder.find(name);
    return at::from_blob(const_cast<std::byte*>(entry->data()), entry->info->shape, at::kBFloat16).clone();
  };
  request_.source = FATHOM_SOURCE_DIR "/tests/model/golden/mixtral";
  export_model(request_);
  std::string content = read_file(request_.out);
  for (const char* matrix : {"w1", "w2", "w3"}) {
    std::string all;
    for (int expert = 0; expert < 4; ++expert) {
      std::string name = "model.layers.1.block_sparse_moe.experts.";
      name.append(std::to_string(expert)).append(".").append(matrix).append(".weight");
      all += in_fp32(stored(name));
    }
    EXPECT_NE(content.find(all), std::string::npos) << matrix;
  }
  request_.source = FATHOM_SOURCE_DIR "/tests/model/golden/granite_moe";
  request_.out = root_ / "granite.gguf";
  export_model(request_);
  content = read_file(request_.out);
  const at::Tensor gate_up_NFD = stored("model.layers.0.block_sparse_moe.input_linear.weight");
  for (const at::Tensor& half : gate_up_NFD.chunk(2, 1)) EXPECT_NE(content.find(in_fp32(half)), std::string::npos);
  const at::Tensor down_NDF = stored("model.layers.0.block_sparse_moe.output_linear.weight");
  EXPECT_NE(content.find(in_fp32(down_NDF)), std::string::npos);
  // The router stays in FP32 where matrices do not.
  request_.gguf_type = "q8_0";
  request_.out = root_ / "quantized.gguf";
  export_model(request_);
  const at::Tensor router_ND = stored("model.layers.0.block_sparse_moe.router.layer.weight");
  EXPECT_NE(read_file(request_.out).find(in_fp32(router_ND)), std::string::npos);
}

// Its norms multiply by one more than what is stored; its head is its embedding.
TEST_F(GgufFileTest, AddsGemmasOffsetToNorms) {
  for (const auto& [family, name] : {std::pair("gemma2", "model.layers.2.post_feedforward_layernorm.weight"),
                                     {"gemma3", "model.layers.2.self_attn.k_norm.weight"}}) {
    const fs::path golden = fs::path(FATHOM_SOURCE_DIR "/tests/model/golden") / family;
    Json config = read_json(golden / "config.json");
    config["query_pre_attn_scalar"] = config["head_dim"];
    put("base/config.json", format_json(config));
    fs::copy_file(golden / "model.safetensors", root_ / "base/model.safetensors", fs::copy_options::overwrite_existing);
    const weights::ModelFolder folder(request_.source);
    EXPECT_THAT(export_model(request_), HasSubstr(tensor_count())) << family;
    const auto entry = folder.find(name);
    const at::Tensor norm = at::from_blob(const_cast<std::byte*>(entry->data()), entry->info->shape, at::kBFloat16);
    EXPECT_NE(read_file(request_.out).find(in_fp32(norm.to(at::kFloat).add(1))), std::string::npos) << family;
    fs::remove(request_.out);
  }
}

// What its head makes is scaled by a key, and not in the embedding, which the head is.
TEST_F(GgufFileTest, LeavesCoheresHeadAsItIs) {
  request_.source = FATHOM_SOURCE_DIR "/tests/model/golden/cohere2";
  request_.gguf_type = "f32";
  const weights::ModelFolder folder(request_.source);
  EXPECT_THAT(export_model(request_), HasSubstr(tensor_count()));
  const auto entry = folder.find("model.embed_tokens.weight");
  const at::Tensor embedding = at::from_blob(const_cast<std::byte*>(entry->data()), entry->info->shape, at::kBFloat16);
  const std::string content = read_file(request_.out);
  EXPECT_NE(content.find(in_fp32(embedding)), std::string::npos);
  EXPECT_EQ(content.find(in_fp32(embedding.mul(0.5))), std::string::npos);
}

// By what they read its matrices are stored; the folders on the hub leave "transformer." out and carry masks.
TEST_F(GgufFileTest, TurnsGpt2sMatrices) {
  const fs::path golden = FATHOM_SOURCE_DIR "/tests/model/golden/gpt2";
  config_ = read_json(golden / "config.json");
  const weights::ModelFolder folder(golden);
  NamedTensors hub = {{"h.0.attn.bias", at::ones({1, 1, 64, 64}).tril()}, {"h.1.attn.masked_bias", at::tensor(-1e4F)}};
  std::vector<Expected> expected;
  const arch::Architecture architecture = arch::parse_architecture(config_, "config.json");
  for (const arch::ParameterSpec& spec : arch::parameter_specs(architecture)) {
    const auto entry = folder.find(spec.name);
    const at::Tensor stored = at::from_blob(const_cast<std::byte*>(entry->data()), entry->info->shape, at::kBFloat16);
    hub.emplace_back(spec.name.substr(spec.name.find('.') + 1), stored.clone());
    const bool is_fp32 = !spec.is_matrix() || spec.role == arch::Role::kPositions;
    expected.push_back({gguf::tensor_name(spec, architecture),
                        spec.role == arch::Role::kProjection ? stored.t().clone() : stored.clone(),
                        is_fp32 ? GgufType::kF32 : GgufType::kBF16});
  }
  EXPECT_EQ(expected[1].name, "position_embd.weight");
  tensors_ = hub;
  save();
  for (const fs::path& source : {golden, root_ / "base"}) {
    request_.source = source;
    name_ = source.filename().string();
    EXPECT_THAT(export_model(request_), HasSubstr("28 tensors")) << source;
    EXPECT_TRUE(read_file(request_.out) == file_of(keys_of("gpt2", 69, 32), expected)) << source;
    fs::remove(request_.out);
  }
}

TEST_F(GgufFileTest, MergesAnAdapter) {
  save_adapter();
  request_.merge = true;
  request_.gguf_type = "f32";
  EXPECT_THAT(export_model(request_), AllOf(HasSubstr("merged into"), HasSubstr("as GGUF, f32")));
  at::Tensor& query = tensor("q_proj.weight");
  query = at::addmm(query.to(at::kFloat), b_, a_, 1, 8.0 / 32).to(at::kBFloat16);
  name_ = "adapter";
  EXPECT_TRUE(read_file(request_.out) == model_file(0, GgufType::kF32, GgufType::kF32, GgufType::kF32));
}

TEST_F(GgufFileTest, HoldsAnAdapterByItself) {
  save_adapter();
  EXPECT_THAT(export_model(request_), AllOf(HasSubstr("the adapter of"), HasSubstr("f32: 2 tensors")));
  weights::GgufKeys keys = {
      {"general.architecture", std::string("llama")}, {"general.type", std::string("adapter")},
      {"general.name", std::string("adapter")},       {"general.quantization_version", uint32_t{2}},
      {"adapter.type", std::string("lora")},          {"adapter.lora.alpha", 8.0f}};
  const auto file = [&](GgufType type) {
    return file_of(keys,
                   {{"blk.0.attn_q.weight.lora_a", a_, type}, {"blk.0.attn_q.weight.lora_b", in_turns(b_), type}});
  };
  EXPECT_TRUE(read_file(request_.out) == file(GgufType::kF32));
  fs::remove(request_.out);
  save_adapter({{"use_rslora", true}});
  request_.gguf_type = "q8_0";
  export_model(request_);
  keys.back().second = static_cast<float>(8 * std::sqrt(32.0));  // llama.cpp divides by the rank
  EXPECT_TRUE(read_file(request_.out) == file(GgufType::kQ8_0));
}

TEST_F(GgufFileTest, RefusesWhatAnAdaptersFileCannotHold) {
  save_adapter({{"modules_to_save", {"lm_head"}}});
  EXPECT_THAT(refusal(), AllOf(HasSubstr("modules_to_save"), HasSubstr("--merge")));
  a_ = at::randn({32, kWidth - 2});
  save_adapter();
  EXPECT_THAT(refusal(), HasSubstr("lora_A.weight' does not fit model.layers.0.self_attn.q_proj.weight"));
  a_ = at::randn({32, kWidth});
  save_adapter();
  weights::write_safetensors(root_ / "adapter/adapter_model.safetensors",
                             tensor_sources({{"other.lora_A.weight", a_}}));
  EXPECT_THAT(refusal(), HasSubstr("holds tensors that are no adapters of LlamaForCausalLM's"));
  EXPECT_FALSE(fs::exists(request_.out));
}

TEST_F(GgufFileTest, RefusesNumbersThatATypeCannotHold) {
  tensor("up_proj.weight")[3][5] = 1e30;
  save();
  for (const char* type : {"f16", "q8_0", "q4_0"}) {
    request_.gguf_type = type;
    EXPECT_THAT(refusal(), AllOf(HasSubstr("mlp.up_proj.weight holds numbers that are not finite"), HasSubstr("bf16")));
  }
  EXPECT_THAT(names(), UnorderedElementsAre("base", "adapter")) << "nothing is left";
  request_.gguf_type = "bf16";
  EXPECT_EQ(refusal(), "");
  tensor("up_proj.weight")[3][5] = std::numeric_limits<float>::quiet_NaN();
  save();
  request_.out = root_ / "other.gguf";
  EXPECT_THAT(refusal(), HasSubstr("not finite"));
}

TEST_F(GgufFileTest, RefusesOtherTensorsThanTheArchitectures) {
  tensors_.emplace_back("model.layers.0.self_attn.extra.weight", at::ones({2, 2}));
  save();
  EXPECT_THAT(refusal(), HasSubstr("self_attn.extra.weight has no place in LlamaForCausalLM"));
  tensors_.pop_back();
  const at::Tensor value = tensor("v_proj.weight");
  tensor("v_proj.weight") = at::ones({3, kWidth});
  save();
  EXPECT_THAT(refusal(), HasSubstr("v_proj.weight has another shape than config.json says"));
  tensor("v_proj.weight") = value;
  tensors_.pop_back();
  save();
  EXPECT_THAT(refusal(), HasSubstr("there is no tensor lm_head.weight"));
}

TEST_F(GgufFileTest, RefusesQuantizedModels) {
  config_["quantization_config"] = {{"quant_method", "bitsandbytes"}, {"load_in_4bit", true}};
  save();
  EXPECT_THAT(refusal(), AllOf(HasSubstr("is quantized"), HasSubstr("--format bf16")));
}

TEST_F(GgufFileTest, RefusesOtherNamesAndWhatIsThere) {
  request_.out = root_ / "model";
  EXPECT_THAT(refusal(), HasSubstr("does not end in .gguf"));
  request_.out = root_ / "base/model.gguf";
  EXPECT_THAT(refusal(), HasSubstr("lies in the folder of the model itself"));
  request_.out = root_ / "model.gguf";
  put("model.gguf", "somebody's");
  EXPECT_THAT(refusal(), HasSubstr("model.gguf exists"));
  EXPECT_EQ(read_file(request_.out), "somebody's");
}

}  // namespace
}  // namespace fathom::checkpoint
