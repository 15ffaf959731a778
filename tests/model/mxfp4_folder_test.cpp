// A folder with experts in MXFP4, as gpt-oss's are published (scripts/golden/mxfp4.py): its logits, its codes as they
// are, what is trained beside them, and what such a folder refuses.
#include <gmock/gmock.h>

#include <cstring>

#include "tests/model/folder_in_codes.h"

namespace fathom::model::mxfp4_folder_test {
namespace {

using ::testing::HasSubstr;

class Mxfp4Folder : public ::testing::Test {
 protected:
  const FolderInCodes its_{"mxfp4"};
};

TEST_F(Mxfp4Folder, has_the_logits_of_transformers) {
  ASSERT_TRUE(its_.architecture().quantized);
  EXPECT_EQ(its_.architecture().quantized->scheme, quant::Scheme::kMxfp4);
  EXPECT_EQ(its_.architecture().dtype, DType::kBF16) << "as where config.json is silent";
  its_.expect_logits_of_transformers();
}

TEST_F(Mxfp4Folder, keeps_its_codes) {
  const Decoder model = its_.load();
  EXPECT_TRUE(model.trained_parameters().empty());
  size_t compared = 0;
  for (const Parameter& parameter : model.parameters()) {
    const auto blocks = its_.folder().find(parameter.name + "_blocks");
    if (!blocks) continue;
    ASSERT_EQ(parameter.tensor.nbytes(), static_cast<size_t>(blocks->info->bytes)) << parameter.name;
    EXPECT_EQ(std::memcmp(parameter.tensor.const_data_ptr(), blocks->data(), parameter.tensor.nbytes()), 0);
    ++compared;
  }
  EXPECT_EQ(compared, 4u);
}

// A and B of q_proj and of both stacks, in two layers.
TEST_F(Mxfp4Folder, lets_adapters_be_trained) { its_.expect_adapters_trained(12); }

TEST_F(Mxfp4Folder, is_a_frozen_base) {
  config::RunConfig run;
  EXPECT_THAT(its_.refusal(run), HasSubstr("set method: lora"));
  run.method = config::Method::kLora;
  run.target_modules = {"q_proj"};
  EXPECT_EQ(its_.refusal(run), "");
  EXPECT_EQ(arch::resolve(run, its_.architecture()).settings.base_scheme, quant::Scheme::kMxfp4);
  run.load_in_4bit = true;
  EXPECT_THAT(its_.refusal(run), HasSubstr("remove load_in_4bit"));
}

}  // namespace
}  // namespace fathom::model::mxfp4_folder_test
