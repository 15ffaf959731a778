// Folders in FP8 with a scale for each block of 128 rows and columns (scripts/golden/fp8_blocks.py): their logits,
// their codes and scales as they are, what is trained beside them, and what such a folder refuses.
#include <gmock/gmock.h>

#include <bit>
#include <cstring>

#include "base/json_value.h"
#include "tests/model/folder_in_codes.h"

namespace fathom::model::fp8_blocks_folder_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Fp8BlocksFolder : public ::testing::TestWithParam<const char*> {
 protected:
  const FolderInCodes its_{std::string("fp8_blocks/") + GetParam()};
};

TEST_P(Fp8BlocksFolder, has_the_logits_of_transformers) {
  ASSERT_TRUE(its_.architecture().quantized);
  EXPECT_EQ(its_.architecture().quantized->scheme, quant::Scheme::kFp8Block128);
  EXPECT_EQ(its_.architecture().dtype, DType::kBF16);
  its_.expect_logits_of_transformers();
}

TEST_P(Fp8BlocksFolder, keeps_its_codes) {
  const Decoder model = its_.load();
  EXPECT_TRUE(model.trained_parameters().empty());
  int64_t bytes = 0, stored = 0;
  for (const Parameter& parameter : model.parameters()) {
    if (parameter.tensor.scalar_type() != at::kFloat8_e4m3fn) continue;
    bytes += static_cast<int64_t>(parameter.tensor.nbytes());
    const auto codes = its_.folder().find(parameter.name);
    if (!codes) continue;
    EXPECT_EQ(std::memcmp(parameter.tensor.const_data_ptr(), codes->data(), parameter.tensor.nbytes()), 0);
  }
  for (const std::string& name : its_.folder().names()) {
    if (its_.folder().find(name + "_scale_inv")) stored += its_.folder().find(name)->info->bytes;
  }
  EXPECT_EQ(bytes, stored);
}

TEST_P(Fp8BlocksFolder, lets_adapters_be_trained) {
  its_.expect_adapters_trained(its_.architecture().experts() != nullptr ? 6 : 2);
}

TEST_P(Fp8BlocksFolder, is_a_frozen_base) {
  config::RunConfig run;
  EXPECT_THAT(its_.refusal(run), AllOf(HasSubstr("projections in FP8, blocks of 128"), HasSubstr("set method: lora")));
  run.method = config::Method::kLora;
  run.target_modules = {"q_proj"};
  EXPECT_EQ(its_.refusal(run), "");
  run.load_in_fp8 = true;
  EXPECT_THAT(its_.refusal(run), HasSubstr("remove load_in_fp8"));
}

TEST_P(Fp8BlocksFolder, is_refused_with_rows_that_end_within_a_block) {
  Json config = its_.folder().config();
  config["hidden_size"] = 192;
  try {
    arch::parse_architecture(config, "config.json");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("do not divide model.layers.0.self_attn.q_proj.weight's 192"));
  }
}

INSTANTIATE_TEST_SUITE_P(Folders, Fp8BlocksFolder, ::testing::Values("llama", "qwen3_moe"),
                         [](const auto& info) { return std::string(info.param); });

// Experts are put together of theirs: expert by expert, the gate above the up projection.
TEST(Fp8Blocks, of_experts_lie_one_below_the_other) {
  const FolderInCodes its("fp8_blocks/qwen3_moe");
  const Decoder model = its.load();
  const auto tensor = [&](const std::string& name) {
    for (const Parameter& parameter : model.parameters()) {
      if (parameter.name == name) return parameter.tensor;
    }
    return at::Tensor();
  };
  const std::string module = "model.layers.0.mlp.experts";
  const at::Tensor codes = tensor(module + ".gate_up_proj"), scales = tensor(module + ".gate_up_proj.scales");
  ASSERT_EQ(codes.sizes(), (at::IntArrayRef{4 * 2 * 128, 128}));
  ASSERT_EQ(scales.numel(), 4 * 2 * 128);
  for (int64_t expert = 0; expert < 4; ++expert) {
    for (const bool up : {false, true}) {
      const std::string name = module + "." + std::to_string(expert) + (up ? ".up_proj.weight" : ".gate_proj.weight");
      const int64_t first = (expert * 2 + (up ? 1 : 0)) * 128;
      const auto stored = its.folder().find(name), scale = its.folder().find(name + "_scale_inv");
      EXPECT_EQ(std::memcmp(codes.narrow(0, first, 128).const_data_ptr(), stored->data(), 128 * 128), 0) << name;
      uint16_t bits = 0;
      std::memcpy(&bits, scale->data(), sizeof bits);
      const float value = std::bit_cast<float>(uint32_t{bits} << 16);
      EXPECT_TRUE(scales.narrow(0, first, 128).eq(value).all().item<bool>()) << name;
    }
  }
}

}  // namespace
}  // namespace fathom::model::fp8_blocks_folder_test
