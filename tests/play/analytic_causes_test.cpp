// Runs each of whose largest instants is of one kind: the analytic estimate is within 1 % of their dry runs, and these
// are what the runs take, to the byte.
#include <gmock/gmock.h>

#include <functional>

#include "phantom/device.h"
#include "plan/estimate/analytic.h"
#include "play/make_plan.h"
#include "tests/play/matrix_run.h"

namespace fathom::play::analytic_causes_test {
namespace {

struct Case {
  std::string name;
  std::function<void(plan::testing::MatrixRun&)> change;
};
void PrintTo(const Case& each, std::ostream* out) { *out << each.name; }

// One layer that is trained whole, in FP32.
plan::testing::MatrixRun base_run() {
  plan::testing::MatrixRun run;
  run.config.random_init = true;
  run.config.device = config::Device::kCpu;
  run.config.num_threads = 1;
  run.config.optim = config::Optimizer::kSgd;
  run.config.eval_strategy = config::Cadence::kNo;
  run.architecture.family = "LlamaForCausalLM";
  run.architecture.vocab_size = 101;
  run.architecture.hidden_size = 72;
  run.architecture.layers.assign(
      1,
      {.mixer = arch::Attention{.heads = 6, .key_value_heads = 6, .head_dim = 12, .rotary = arch::Rotary{.width = 12}},
       .feed_forward = {.width = 201}});
  run.steps = {{schedule::whole_batch(5, 101)}};
  return run;
}

void train_adapters(config::RunConfig& config, std::vector<std::string> modules) {
  config.method = config::Method::kLora;
  config.lora_r = 4;
  config.target_modules = std::move(modules);
  config.dtype = DType::kBF16;
}

// On one token, so that the evaluation behind it is larger.
void evaluate(plan::testing::MatrixRun& run, schedule::BatchShape batch) {
  run.config.eval_strategy = config::Cadence::kEpoch;
  run.config.per_device_eval_batch_size = batch.rows;
  run.evaluations = {std::move(batch)};
  run.steps = {{schedule::whole_batch(1, 2)}};
}

void set_experts(plan::testing::MatrixRun& run) {
  run.architecture.family = "Qwen3MoeForCausalLM";
  run.architecture.router_aux_loss_coef = 0.01;
  run.architecture.layers.front().feed_forward.experts = {.count = 5, .per_token = 2, .normalised = true};
}

void set_gpt2(plan::testing::MatrixRun& run) {
  run.architecture.family = "GPT2LMHeadModel";
  run.architecture.dropout = run.architecture.embedding_dropout = 0.1;
  run.architecture.learned_positions = run.architecture.centred_norms = run.architecture.biased_norms = true;
  run.architecture.max_position_embeddings = 300;
  arch::LayerSpec& layer = run.architecture.layers.front();
  layer.naming = arch::Naming::kGpt2;
  layer.attention().fused = true;
  layer.attention().rotary.reset();
  layer.feed_forward = {.width = 201, .gated = false, .activation = Activation::kGelu};
}

void set_parallel(plan::testing::MatrixRun& run) {
  run.architecture.family = "Cohere2ForCausalLM";
  run.architecture.centred_norms = run.architecture.layers.front().parallel = true;
}

// Weights and what they multiply, in groups of 32 numbers.
void round_inputs(plan::testing::MatrixRun& run) {
  run.config.qat = config::Qat::kInt4;
  run.config.qat_activations = config::QatActivations::kInt8;
  run.architecture.hidden_size = 64;
  arch::LayerSpec& layer = run.architecture.layers.front();
  layer.attention().heads = layer.attention().key_value_heads = 4;
  layer.attention().head_dim = layer.attention().rotary->width = 16;
  layer.feed_forward.width = 256;
}

void set_norms_after(plan::testing::MatrixRun& run) {
  run.architecture.family = "Olmo2ForCausalLM";
  run.architecture.layers.front().norms = arch::NormPlacement::kAfter;
  run.architecture.layers.front().attention().query_key_norm = arch::QueryKeyNorm::kAllHeads;
}

// Two layers that attend by scores, the first over the source.
void set_t5(plan::testing::MatrixRun& run) {
  run.architecture.family = "T5ForConditionalGeneration";
  run.architecture.encoder = arch::Encoder{1, 0};
  run.architecture.relative = arch::RelativePositions{32, 128};
  arch::LayerSpec layer = run.architecture.layers.front();
  layer.naming = arch::Naming::kT5;
  layer.attention().scaled = false;
  layer.attention().rotary.reset();
  layer.feed_forward.gated = false;
  layer.feed_forward.activation = Activation::kRelu;
  run.architecture.layers.assign(2, layer);
  run.architecture.layers.back().cross = true;
}

// A layer with states before one that attends.
void set_qwen35(plan::testing::MatrixRun& run) {
  run.architecture.family = "Qwen3_5ForCausalLM";
  run.architecture.norm_offset = 1;
  arch::LayerSpec& layer = run.architecture.layers.front();
  layer.naming = arch::Naming::kQwen35;
  layer.attention().output_gate = true;
  layer.attention().query_key_norm = arch::QueryKeyNorm::kEachHead;
  run.architecture.layers.push_back(layer);
  run.architecture.layers.front().mixer = arch::GatedDelta{2, 6, 20, 24, 4};
}

schedule::BatchShape documents(std::vector<int64_t> lengths) {
  int64_t tokens = 0;
  for (const int64_t length : lengths) tokens += length;
  return {1, tokens, tokens - std::ssize(lengths), std::move(lengths)};
}

const std::vector<Case>& cases() {
  using Run = plan::testing::MatrixRun;
  static const auto* all = new std::vector<Case>{
      {"adapters_in_fp32_of_every_projection", [](Run& run) { train_adapters(run.config, {"all-linear"}); }},
      {"adapters_with_dropout",
       [](Run& run) {
         train_adapters(run.config, {"all-linear"});
         run.config.lora_dropout = 0.1;
         run.config.gradient_checkpointing = true;
       }},
      {"an_evaluation_of_parallel_branches",
       [](Run& run) {
         train_adapters(run.config, {"q_proj", "v_proj"});
         set_parallel(run);
         evaluate(run, schedule::whole_batch(5, 101));
       }},
      {"key_norms_that_no_gradient_reaches",
       [](Run& run) {
         train_adapters(run.config, {"q_proj", "v_proj"});
         run.architecture.family = "Qwen3ForCausalLM";
         run.architecture.layers.front().attention().query_key_norm = arch::QueryKeyNorm::kEachHead;
       }},
      {"a_window_in_bf16",
       [](Run& run) {
         run.config.dtype = DType::kBF16;
         run.architecture.layers.front().feed_forward.width = 32;
         run.architecture.layers.front().attention().window = 17;
       }},
      {"documents_by_the_formula",
       [](Run& run) {
         run.config.attn_implementation = config::Attention::kMath;
         run.config.packing = true;
         run.architecture.layers.front().attention().key_value_heads = 2;
         run.steps = {{documents({193, 40, 101})}};
       }},
      {"experts_of_several_batches",
       [](Run& run) {
         set_experts(run);
         run.steps = {{schedule::whole_batch(1, 33), schedule::whole_batch(1, 33)}};
       }},
      {"an_evaluation_of_experts",
       [](Run& run) {
         set_experts(run);
         train_adapters(run.config, {"q_proj"});
         evaluate(run, schedule::whole_batch(5, 101));
       }},
      {"an_evaluation_by_the_formula_of_what_trains_by_scores",
       [](Run& run) {
         run.config.attn_implementation = config::Attention::kMath;
         set_gpt2(run);
         evaluate(run, schedule::whole_batch(2, 260));
       }},
      {"a_gate_that_no_gradient_reaches",
       [](Run& run) {
         set_parallel(run);
         train_adapters(run.config, {"o_proj", "down_proj"});
         run.config.dtype = DType::kF32;
         run.config.gradient_checkpointing = true;
       }},
      {"parallel_branches_that_share_a_norm",
       [](Run& run) {
         set_parallel(run);
         run.config.attn_implementation = config::Attention::kMath;
       }},
      {"parallel_branches_that_run_again",
       [](Run& run) {
         set_parallel(run);
         train_adapters(run.config, {"o_proj", "down_proj"});
         run.config.modules_to_save = {"embed_tokens", "lm_head"};
         run.config.attn_implementation = config::Attention::kMath;
         run.config.gradient_checkpointing = true;
       }},
      {"the_input_of_a_layer_without_norms_before",
       [](Run& run) {
         set_norms_after(run);
         train_adapters(run.config, {"o_proj", "down_proj"});
         run.config.attn_implementation = config::Attention::kMath;
         run.config.packing = true;
         run.steps = {{documents({193, 40, 101})}};
       }},
      {"what_an_encoder_made_beside_a_decoder",
       [](Run& run) {
         set_t5(run);
         train_adapters(run.config, {"o", "wo"});
         run.config.dtype = DType::kF32;
         run.config.bf16 = run.config.load_in_fp8 = true;
         run.architecture.hidden_size = 127;
         for (arch::LayerSpec& layer : run.architecture.layers) {
           layer.attention().head_dim = 6;
           layer.feed_forward.width = 429;
         }
         run.steps = {{{1, 68, 68, {}, 199}}};
       }},
      {"an_evaluation_by_scores_of_one_head_of_keys",
       [](Run& run) {
         run.architecture.family = "Gemma2ForCausalLM";
         run.architecture.norm_offset = 1;
         run.architecture.embedding_scale = 6;
         run.architecture.head_softcap = 30;
         arch::LayerSpec& layer = run.architecture.layers.front();
         layer.norms = arch::NormPlacement::kBoth;
         layer.feed_forward.activation = Activation::kGelu;
         layer.attention().softcap = 50;
         layer.attention().key_value_heads = 1;
         evaluate(run, schedule::whole_batch(5, 101));
       }},
      {"an_evaluation_by_the_formula_of_one_head_of_keys",
       [](Run& run) {
         run.config.attn_implementation = config::Attention::kMath;
         run.architecture.layers.front().attention().key_value_heads = 1;
         evaluate(run, schedule::whole_batch(5, 64));
       }},
      {"learned_positions_of_several_batches",
       [](Run& run) {
         set_gpt2(run);
         run.steps = {{schedule::whole_batch(1, 5), schedule::whole_batch(1, 5)}};
       }},
      {"dropout_of_branches_alone",
       [](Run& run) {
         set_gpt2(run);
         train_adapters(run.config, {"c_proj"});
         run.config.gradient_checkpointing = true;
         run.steps = {{schedule::whole_batch(5, 33)}};
       }},
      {"rounded_inputs_that_no_gradient_reaches",
       [](Run& run) {
         set_norms_after(run);
         round_inputs(run);
         train_adapters(run.config, {"o_proj", "down_proj"});
         run.config.gradient_checkpointing = true;
       }},
      {"an_evaluation_that_rounds_inputs",
       [](Run& run) {
         round_inputs(run);
         evaluate(run, schedule::whole_batch(5, 101));
       }},
      {"an_input_that_is_rounded_once_more",
       [](Run& run) {
         round_inputs(run);
         run.architecture.family = "Phi3ForCausalLM";
         run.architecture.hidden_size = 512;
         arch::LayerSpec& layer = run.architecture.layers.front();
         layer.attention().heads = layer.attention().key_value_heads = 2;
         layer.attention().fused = layer.feed_forward.fused = true;
         layer.feed_forward.width = 128;
         run.steps = {{schedule::whole_batch(20, 101)}};
       }},
      {"a_sum_that_becomes_the_gradient_of_the_head",
       [](Run& run) {
         run.config.dtype = DType::kBF16;
         run.config.loss_chunk_size = 101;
         run.architecture.vocab_size = 4001;
         run.steps = {{schedule::whole_batch(2, 101)}};
         run = plan::testing::of_preferences(std::move(run)).value();
       }},
      {"outputs_of_heads_that_share_keys",
       [](Run& run) {
         run.config.qat = config::Qat::kInt4;
         run.architecture.hidden_size = 32;
         arch::LayerSpec& layer = run.architecture.layers.front();
         layer.attention().heads = 4;
         layer.attention().key_value_heads = 2;
         layer.attention().head_dim = layer.attention().rotary->width = 32;
         layer.feed_forward.width = 64;
         run.steps = {{schedule::whole_batch(3, 5)}};
       }},
      {"states_of_documents",
       [](Run& run) {
         set_qwen35(run);
         run.config.packing = true;
         run.steps = {{documents({193, 40, 101})}};
       }},
      {"states_that_run_again",
       [](Run& run) {
         set_qwen35(run);
         train_adapters(run.config, {"all-linear"});
         run.config.gradient_checkpointing = true;
       }},
      {"states_that_no_gradient_reaches",
       [](Run& run) {
         set_qwen35(run);
         train_adapters(run.config, {"out_proj", "o_proj"});
       }},
      {"adapters_with_dropout_in_a_lower_layer",
       [](Run& run) {
         train_adapters(run.config, {"all-linear"});
         run.config.lora_dropout = 0.1;
         run.config.gradient_checkpointing = true;
         run.architecture.layers.push_back(run.architecture.layers.front());
         run.steps = {{schedule::whole_batch(1, 40)}};
       }},
  };
  return *all;
}

class AnalyticCauses : public ::testing::TestWithParam<Case> {};

TEST_P(AnalyticCauses, AreInTheFormulas) {
  plan::testing::MatrixRun run = base_run();
  GetParam().change(run);
  plan::Target target = cpu_target();
  target.threads = run.config.num_threads;
  target.attention_kernel = attention_kernel(arch::resolve(run.config, run.architecture), phantom::device());
  const plan::Analytic analytic =
      plan::estimate_analytic(arch::resolve(run.config, run.architecture), target, testing::workload_of(run));
  const memory::Memory dry_run = testing::predict(run);
  EXPECT_NEAR(static_cast<double>(analytic.peak) / static_cast<double>(dry_run.peak), 1, 0.01)
      << analytic.peak << " at the " << analytic.instant << " against " << dry_run.peak;
  EXPECT_THAT(testing::differences(dry_run, testing::measure(run)), ::testing::IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Each, AnalyticCauses, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace fathom::play::analytic_causes_test
