// The decoder against itself: checkpointing, attention kernels, adapters, caches, precisions, loading and drawing
// weights.
#include "model/decoder.h"

#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "arch/parameter_table.h"
#include "base/error.h"
#include "model/stored_parameters.h"
#include "ops/autocast.h"
#include "ops/quantized/quantized_matrix.h"
#include "tests/model/golden.h"

namespace fathom::model {
namespace {

struct Step {
  double loss = 0;
  std::map<std::string, at::Tensor> gradients;
};

Step run(const Golden& golden, Decoder& model, bool autocast = false) {
  Step step;
  at::Tensor loss;
  {
    const ops::AutocastScope scope(at::kCPU, autocast);
    loss = golden.loss(model);
  }
  torch::autograd::backward({loss}, {});
  step.loss = loss.item<double>();
  step.gradients = gradients_of(model);
  return step;
}

void expect_bit_equal(const Step& a, const Step& b) {
  EXPECT_EQ(a.loss, b.loss);
  ASSERT_EQ(a.gradients.size(), b.gradients.size());
  for (const auto& [name, gradient] : a.gradients) EXPECT_TRUE(gradient.equal(b.gradients.at(name))) << name;
}

// shape, LoRA, autocast, 16-bit storage
class Equivalence : public ::testing::TestWithParam<std::tuple<std::string, bool, bool, DType>> {
 protected:
  Golden golden_{std::get<0>(GetParam())};
  bool lora_ = std::get<1>(GetParam()), autocast_ = std::get<2>(GetParam());

  // The golden weights are wild, so that parity is hard; rounding to 8 bits is measured on gentler ones.
  static void calm(const Decoder& model) {
    const at::NoGradGuard no_gradients;
    for (const Parameter& parameter : model.parameters()) {
      if (parameter.tensor.dim() > 1) parameter.tensor.mul_(0.5);
    }
  }

  Step step(config::Attention attention, bool checkpointing, double dropout = 0, bool calmed = false) {
    ModelOptions options;
    options.parameters.dtype = std::get<3>(GetParam());
    options.attention = attention;
    options.gradient_checkpointing = checkpointing;
    golden_.lora.dropout = dropout;
    Decoder model = golden_.make(options, lora_);
    if (calmed) calm(model);
    at::manual_seed(77);
    return run(golden_, model, autocast_);
  }
};

TEST_P(Equivalence, checkpointing_changes_no_bit) {
  for (const auto attention : {config::Attention::kFlash, config::Attention::kMath}) {
    expect_bit_equal(step(attention, true), step(attention, false));
  }
}

// Also after a step has changed the adapters, in both passes of a checkpointed layer.
TEST_P(Equivalence, adapters_that_stay_cast_change_no_bit) {
  if (!lora_ || !autocast_) GTEST_SKIP() << "of adapters under autocast";
  for (const bool checkpointing : {false, true}) {
    Step steps[2];
    for (const bool stay : {false, true}) {
      ModelOptions options;
      options.parameters.dtype = std::get<3>(GetParam());
      options.gradient_checkpointing = checkpointing;
      if (stay) options.adapter_casts = at::kBFloat16;
      Decoder model = golden_.make(options, lora_);
      run(golden_, model, autocast_);
      const at::NoGradGuard no_gradients;
      for (const Parameter& parameter : model.parameters()) {
        if (parameter.tensor.requires_grad()) parameter.tensor.mul_(1.5).mutable_grad().reset();
      }
      const at::AutoGradMode gradients(true);
      steps[stay ? 1 : 0] = run(golden_, model, autocast_);
    }
    expect_bit_equal(steps[0], steps[1]);
  }
}

TEST_P(Equivalence, flash_and_math_agree) {
  const bool narrow = autocast_ || std::get<3>(GetParam()) == DType::kBF16;
  const Step flash = step(config::Attention::kFlash, false, 0, narrow);
  const Step math = step(config::Attention::kMath, false, 0, narrow);
  // FP32: sums in another order. BF16: probabilities and their gradients are rounded to 8 bits at other places.
  const double tolerance = narrow ? 0.05 : 2e-5;
  EXPECT_NEAR(flash.loss, math.loss, narrow ? 0.01 : 1e-5);
  for (const auto& [name, gradient] : flash.gradients) {
    EXPECT_LE(relative_difference(gradient, math.gradients.at(name)), tolerance) << name;
  }
}

TEST_P(Equivalence, narrow_precision_is_near_float32) {
  const Step actual = step(config::Attention::kFlash, false, 0, true);
  Decoder exact_model = golden_.make({}, lora_);
  calm(exact_model);
  const Step exact = run(golden_, exact_model);
  EXPECT_NEAR(actual.loss, exact.loss, 0.005 * exact.loss);
  for (const auto& [name, gradient] : actual.gradients) {
    EXPECT_LE(relative_difference(gradient, exact.gradients.at(name)), 0.08) << name;
  }
}

std::string case_name(const ::testing::TestParamInfo<Equivalence::ParamType>& info) {
  const auto& [shape, lora, autocast, dtype] = info.param;
  return shape + (lora ? "_lora_" : "_full_") + std::string(dtype_name(dtype)) + (autocast ? "_autocast" : "");
}

INSTANTIATE_TEST_SUITE_P(Modes, Equivalence,
                         ::testing::Combine(::testing::Values("grouped", "tied"), ::testing::Bool(), ::testing::Bool(),
                                            ::testing::Values(DType::kF32, DType::kBF16)),
                         case_name);

// Only adapters drop out.
class Dropout : public Equivalence {};

TEST_P(Dropout, is_repeated_in_recomputation) {
  const Step plain = step(config::Attention::kFlash, false, 0.2);
  expect_bit_equal(step(config::Attention::kFlash, true, 0.2), plain);
  EXPECT_NE(plain.loss, step(config::Attention::kFlash, false, 0).loss);
}

INSTANTIATE_TEST_SUITE_P(Modes, Dropout,
                         ::testing::Combine(::testing::Values("grouped", "tied"), ::testing::Values(true),
                                            ::testing::Bool(), ::testing::Values(DType::kF32, DType::kBF16)),
                         case_name);

// Below the first adapted layer nothing needs a gradient, and there is nothing to compute again.
TEST(Lora, on_some_layers_alone_is_checkpointed_too) {
  const Golden golden("multi_query");
  for (const char* module : {"layers.0.self_attn.q_proj", "layers.1.mlp.up_proj", "layers.2.mlp.down_proj"}) {
    const auto step = [&](bool checkpointing) {
      ModelOptions options;
      options.gradient_checkpointing = checkpointing;
      options.parameters.lora = arch::LoraOptions{4, 8, 0, {module}};
      Decoder model(golden.architecture, options);
      model.initialise(3);
      model.set_training(true);
      const std::vector<Parameter> trained = model.trained_parameters();
      EXPECT_EQ(trained.size(), 2U);
      at::manual_seed(5);
      for (const Parameter& parameter : trained) parameter.tensor.detach().normal_(0, 0.3);
      return run(golden, model);
    };
    const Step plain = step(false);
    expect_bit_equal(step(true), plain);
    for (const auto& [name, gradient] : plain.gradients) EXPECT_GT(gradient.abs().max().item<double>(), 0) << name;
  }
}

TEST(Lora, is_scaled_by_the_root_of_the_rank_where_asked) {
  const Golden golden("grouped");
  const auto logits = [&](double alpha, bool rank_stabilised) {
    ModelOptions options;
    options.parameters.lora = arch::LoraOptions{4, alpha, 0, {"all-linear"}, rank_stabilised};
    Decoder model(golden.architecture, options);
    model.initialise(3);
    const at::NoGradGuard no_gradients;
    at::manual_seed(5);
    for (const Parameter& parameter : model.trained_parameters()) parameter.tensor.normal_(0, 0.3);
    return model.forward(golden.ids_BS);
  };
  EXPECT_TRUE(logits(8, true).equal(logits(16, false))) << "8 / sqrt(4) = 16 / 4";
  EXPECT_FALSE(logits(8, true).equal(logits(8, false)));
}

TEST(Lora, with_b_zero_equals_the_base) {
  for (const std::string& name : golden_shapes()) {
    const Golden golden(name);
    const at::NoGradGuard no_gradients;
    Decoder adapted = golden.make({}, true), base = golden.make({}, false);
    const at::Tensor before = adapted.forward(golden.inputs);
    EXPECT_FALSE(before.equal(base.forward(golden.inputs)));
    for (const Parameter& parameter : adapted.parameters()) {
      if (parameter.name.ends_with("lora_B.weight")) parameter.tensor.zero_();
    }
    EXPECT_TRUE(adapted.forward(golden.inputs).equal(base.forward(golden.inputs))) << name;
  }
}

// The same logits as a base that holds, unquantized, the values that the codes stand for.
TEST(Lora, on_a_quantized_base_computes_as_on_the_base_read_back) {
  const at::NoGradGuard no_gradients;
  for (const quant::Scheme scheme :
       {quant::Scheme::kInt8, quant::Scheme::kFp8, quant::Scheme::kNf4, quant::Scheme::kNf4DoubleQuant}) {
    const Golden golden("grouped");
    ModelOptions options;
    options.parameters.base_scheme = scheme;
    Decoder quantized = golden.make(options, true), plain = golden.make({}, true);
    std::map<std::string, at::Tensor> parts;
    for (const Parameter& parameter : quantized.parameters()) parts[parameter.name] = parameter.tensor;
    int64_t matrices = 0;
    for (const Parameter& parameter : plain.parameters()) {
      if (!parts.contains(parameter.name + ".scales")) continue;
      ops::QuantizedMatrix matrix;
      matrix.scheme = scheme;
      matrix.rows = parameter.tensor.size(0);
      matrix.columns = parameter.tensor.size(1);
      matrix.codes = parts.at(parameter.name);
      matrix.scales = parts.at(parameter.name + ".scales");
      matrix.outer_scales = parts[parameter.name + ".outer_scales"];
      const at::Tensor values_ND = ops::dequantize(matrix, at::kFloat);
      EXPECT_LT((values_ND - parameter.tensor).norm().item<double>(), 0.15 * parameter.tensor.norm().item<double>());
      parameter.tensor.copy_(values_ND);
      ++matrices;
    }
    EXPECT_EQ(matrices, 7 * golden.architecture.num_hidden_layers());
    EXPECT_TRUE(quantized.forward(golden.ids_BS).equal(plain.forward(golden.ids_BS)));
  }
}

TEST(Lora, freezes_the_base_and_starts_as_peft_does) {
  const Golden golden("grouped");
  ModelOptions options;
  options.parameters.dtype = DType::kBF16;
  options.parameters.lora = arch::LoraOptions{4, 8, 0, {}};
  Decoder model(golden.architecture, options);
  model.load(golden.folder, 3);
  EXPECT_EQ(model.trained_parameters().size(), 2U * 2 * 2);
  for (const Parameter& parameter : model.parameters()) {
    const bool adapter = parameter.name.find(".lora_") != std::string::npos;
    EXPECT_EQ(parameter.trained, adapter) << parameter.name;
    EXPECT_EQ(parameter.tensor.requires_grad(), adapter);
    EXPECT_EQ(parameter.tensor.scalar_type(), adapter ? at::kFloat : at::kBFloat16);
    EXPECT_EQ(parameter.decays, parameter.tensor.dim() > 1);
    const double largest = parameter.tensor.abs().max().item<double>();
    if (parameter.name.ends_with("lora_B.weight")) {
      EXPECT_EQ(largest, 0);
    }
    if (parameter.name.ends_with("lora_A.weight")) {
      const double bound = 1 / std::sqrt(static_cast<double>(parameter.tensor.size(1)));
      EXPECT_LE(largest, bound);
      EXPECT_GT(largest, 0.8 * bound);
    }
  }
  EXPECT_EQ(model.trained_parameters()[0].name, "model.layers.0.self_attn.q_proj.lora_A.weight");
}

TEST(Cache, gives_the_logits_of_the_full_forward) {
  for (const std::string& name : golden_shapes()) {
    for (const auto attention : {config::Attention::kFlash, config::Attention::kMath}) {
      const Golden golden(name);
      ModelOptions options;
      options.attention = attention;
      Decoder model = golden.make(options, true);
      const at::NoGradGuard no_gradients;
      const int64_t rows = golden.ids_BS.size(0), length = golden.ids_BS.size(1);
      KeyValueCache cache(golden.architecture, rows, length, at::kCPU, at::kFloat);
      // A prompt, then one by one, then several at once.
      int64_t done = 0;
      for (const int64_t count : {int64_t{3}, int64_t{1}, int64_t{1}, length - 5}) {
        Inputs inputs = golden.inputs;
        inputs.ids_BS = golden.ids_BS.narrow(1, done, count);
        if (done > 0) inputs.source_BS.reset();
        const at::Tensor logits_BV = model.forward(inputs, cache);
        done += count;
        Inputs so_far = golden.inputs;
        so_far.ids_BS = golden.ids_BS.narrow(1, 0, done);
        const at::Tensor expected_BV = model.forward(so_far).select(1, done - 1);
        EXPECT_LE(relative_difference(logits_BV, expected_BV), 1e-5) << name << " at " << done;
      }
      EXPECT_EQ(cache.length, length);
      EXPECT_THROW(model.forward(golden.ids_BS.narrow(1, 0, 1), cache), Error);
    }
  }
}

// Where transformers' convolutions and states look over the border of documents, and where every text has the sinks.
TEST(Packed, documents_of_other_mixers_have_the_logits_of_each_alone) {
  for (const std::string name : {"lfm2", "lfm2_adjusted", "lfm2_far", "qwen35", "qwen35_grouped", "qwen35_tied",
                                 "gpt_oss", "gpt_oss_balanced"}) {
    const Golden golden(name);
    Decoder model = golden.make({}, true);
    const at::NoGradGuard no_gradients;
    ops::Documents documents;
    documents.lengths = {4, 1, 7};
    documents.longest = 7;
    documents.positions_T = at::cat({at::arange(4, at::kInt), at::arange(1, at::kInt), at::arange(7, at::kInt)});
    documents.offsets = at::tensor({0, 4, 5, 12}, at::kInt);
    const at::Tensor ids_1T = golden.ids_BS.narrow(0, 0, 1).narrow(1, 0, 12);
    const at::Tensor packed = model.forward({ids_1T, std::make_shared<const ops::Documents>(documents)});
    int64_t first = 0;
    for (const int64_t length : documents.lengths) {
      const at::Tensor alone = model.forward(ids_1T.narrow(1, first, length));
      EXPECT_LE(relative_difference(packed.narrow(1, first, length), alone), 1e-5) << name << " at " << first;
      first += length;
    }
  }
}

TEST(Initialise, draws_as_transformers_and_repeats_by_seed) {
  Golden golden("tied");
  golden.architecture.initializer_range = 0.05;
  Decoder first(golden.architecture, {}), second(golden.architecture, {}), third(golden.architecture, {});
  first.initialise(7);
  second.initialise(7);
  third.initialise(8);
  for (size_t i = 0; i < first.parameters().size(); ++i) {
    const at::Tensor tensor = first.parameters()[i].tensor.detach();
    EXPECT_TRUE(tensor.equal(second.parameters()[i].tensor));
    if (tensor.dim() == 1) {
      EXPECT_TRUE(tensor.eq(1).all().item<bool>());
      continue;
    }
    EXPECT_NEAR(standard_deviation(tensor), 0.05, 0.005);
    EXPECT_FALSE(tensor.equal(third.parameters()[i].tensor));
  }
}

TEST(Load, gives_added_tokens_the_mean_of_the_rows) {
  for (const std::string name : {"grouped", "tied", "multi_query"}) {  // stored as F32, BF16, F16
    const Golden golden(name);
    const at::NoGradGuard no_gradients;
    Decoder model = golden.make({}, false),
            grown = golden.make({}, false, arch::with_added_tokens(golden.architecture, 3));
    const int64_t rows = golden.architecture.vocab_size;
    const at::Tensor old_VD = model.parameters().front().tensor, new_VD = grown.parameters().front().tensor;
    EXPECT_EQ(new_VD.size(0), rows + 3);
    EXPECT_TRUE(new_VD.narrow(0, 0, rows).equal(old_VD));
    for (int64_t row = rows; row < rows + 3; ++row) {
      EXPECT_TRUE(new_VD[row].equal(old_VD.to(at::kDouble).mean(0).to(at::kFloat))) << name;
    }
    EXPECT_TRUE(grown.parameters().back().tensor.size(0) == rows + 3 || golden.architecture.tie_word_embeddings);
    const at::Tensor logits = grown.forward(golden.ids_BS), before = model.forward(golden.ids_BS);
    EXPECT_LE(relative_difference(logits.narrow(-1, 0, rows), before), 1e-6) << "what was there is as it was";
    EXPECT_LE(relative_difference(logits.select(-1, rows), before.mean(-1)), 1e-5);
  }
}

TEST(Load, converts_dtypes_and_names_what_is_wrong) {
  const Golden golden("multi_query");
  Decoder model(golden.architecture, {});
  model.load(golden.folder, 1);  // F16 in the file, F32 here
  const auto entry = golden.folder.find("model.layers.2.mlp.down_proj.weight");
  const at::Tensor stored = at::from_blob(const_cast<std::byte*>(entry->data()), entry->info->shape, at::kHalf);
  EXPECT_TRUE(model.parameters().back().name == "lm_head.weight");
  for (const Parameter& parameter : model.parameters()) {
    if (parameter.name == "model.layers.2.mlp.down_proj.weight") {
      EXPECT_TRUE(parameter.tensor.equal(stored.to(at::kFloat)));
    }
  }
  const auto failure = [&golden](const arch::Architecture& architecture) {
    try {
      Decoder(architecture, {}).load(golden.folder, 1);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  arch::Architecture wider = golden.architecture;
  for (arch::LayerSpec& layer : wider.layers) ++layer.feed_forward.width;
  EXPECT_THAT(failure(wider),
              ::testing::HasSubstr("model.layers.0.mlp.gate_proj.weight is [58, 35], but config.json makes it"));
  arch::Architecture deeper = golden.architecture;
  deeper.layers.push_back(deeper.layers.back());
  EXPECT_THAT(failure(deeper), ::testing::HasSubstr("there is no tensor model.layers.3.input_layernorm.weight"));
  arch::Architecture shallower = golden.architecture;
  shallower.layers.pop_back();
  EXPECT_THAT(failure(shallower), ::testing::HasSubstr("model.layers.2.input_layernorm.weight has no place"));
  arch::Architecture tied = golden.architecture;
  tied.tie_word_embeddings = true;
  EXPECT_EQ(failure(tied), "");  // a tied model's file may carry the head
}

TEST(IsIgnored, HoldsOfMasksThatGpt2FoldersCarry) {
  const arch::Architecture gpt2 = Golden("gpt2").architecture, llama = Golden("grouped").architecture;
  for (const char* mask : {"h.0.attn.bias", "transformer.h.1.attn.bias", "h.0.attn.masked_bias"}) {
    EXPECT_TRUE(is_ignored(mask, gpt2)) << mask;
    EXPECT_FALSE(is_ignored(mask, llama)) << mask;
  }
  EXPECT_FALSE(is_ignored("h.0.attn.c_attn.bias", gpt2));
}

TEST(LearnedPositions, AreAllThatATextMayHave) {
  const Golden golden("gpt2_narrow");
  Decoder model = golden.make({}, /*with_lora=*/false);
  const at::NoGradGuard no_gradients;
  const at::Tensor ids_BS = at::full({1, golden.architecture.max_position_embeddings + 1}, 5, at::kLong);
  EXPECT_NO_THROW(model.forward(ids_BS.narrow(1, 1, ids_BS.size(1) - 1)));
  try {
    model.forward(ids_BS);
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("65 tokens, but the model has learned 64 positions"));
  }
}

}  // namespace
}  // namespace fathom::model
