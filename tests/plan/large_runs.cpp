// Draws the runs.
#include "tests/plan/large_runs.h"

#include <array>
#include <string>

#include "base/split_mix.h"

namespace fathom::plan::testing {
namespace {

struct KnownShape {
  const char* name;
  int64_t vocabulary, width, inner, layers, heads, key_value_heads, head_size;
  bool tied;
  DType dtype;
  bool biased = false, normed = false, mixed = false;  // as Qwen2, as Qwen3, as Qwen3.5
};
constexpr std::array<KnownShape, 13> kShapes = {{
    {"Llama_2_7B", 32000, 4096, 11008, 32, 32, 32, 128, false, DType::kF32},
    {"Llama_2_70B", 32000, 8192, 28672, 80, 64, 8, 128, false, DType::kBF16},
    {"Llama_3_8B", 128256, 4096, 14336, 32, 32, 8, 128, false, DType::kBF16},
    {"Llama_3_1B", 128256, 2048, 8192, 16, 32, 8, 64, true, DType::kBF16},
    {"Llama_3_3B", 128256, 3072, 8192, 28, 24, 8, 128, true, DType::kBF16},
    {"TinyLlama", 32000, 2048, 5632, 22, 32, 4, 64, false, DType::kBF16},
    {"SmolLM2_135M", 49152, 576, 1536, 30, 9, 3, 64, true, DType::kBF16},
    {"Qwen_2_5_0_5B", 151936, 896, 4864, 24, 14, 2, 64, true, DType::kBF16, true, false},
    {"Qwen_2_5_7B", 152064, 3584, 18944, 28, 28, 4, 128, false, DType::kBF16, true, false},
    {"Qwen_3_0_6B", 151936, 1024, 3072, 28, 16, 8, 128, true, DType::kBF16, false, true},
    {"Qwen_3_8B", 151936, 4096, 12288, 36, 32, 8, 128, false, DType::kBF16, false, true},
    {"Qwen_3_5_4B", 248320, 2560, 9216, 32, 16, 4, 256, true, DType::kBF16, false, true, true},
    {"bytes", 512, 1024, 2816, 12, 16, 1, 80, false, DType::kF32},  // a small vocabulary, a single key head
}};

class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}

  MatrixRun run(size_t place) {
    MatrixRun run;
    const KnownShape& known = kShapes[random_.below(kShapes.size())];
    run.architecture = architecture_of(known);
    run.config.random_init = true;
    run.config.num_threads = 2;
    run.name = std::to_string(place) + "_" + known.name;
    draw_method(run);
    draw_precision(run);
    run.config.gradient_checkpointing = coin(2);
    if (run.config.gradient_checkpointing) run.name += "_checkpointing";
    draw_batches(run);
    return run;
  }

 private:
  bool coin(uint64_t of) { return random_.below(of) == 0; }
  template <size_t N>
  int64_t one_of(const std::array<int64_t, N>& values) {
    return values[random_.below(N)];
  }

  static arch::Architecture architecture_of(const KnownShape& known) {
    arch::Architecture architecture;
    architecture.family = "LlamaForCausalLM";
    architecture.vocab_size = known.vocabulary;
    architecture.hidden_size = known.width;
    arch::LayerSpec layer{.mixer = arch::Attention{.heads = known.heads,
                                                   .key_value_heads = known.key_value_heads,
                                                   .head_dim = known.head_size,
                                                   .input_bias = known.biased,
                                                   .rotary = arch::Rotary{.width = known.head_size}},
                          .feed_forward = {.width = known.inner}};
    if (known.normed) layer.attention().query_key_norm = arch::QueryKeyNorm::kEachHead;
    architecture.layers.assign(static_cast<size_t>(known.layers), layer);
    if (known.mixed) mix(architecture);
    architecture.tie_word_embeddings = known.tied;
    architecture.dtype = known.dtype;
    return architecture;
  }

  // Three of four layers have states.
  static void mix(arch::Architecture& architecture) {
    architecture.family = "Qwen3_5ForCausalLM";
    architecture.norm_offset = 1;
    for (size_t number = 0; number < architecture.layers.size(); ++number) {
      arch::LayerSpec& layer = architecture.layers[number];
      layer.naming = arch::Naming::kQwen35;
      layer.attention().output_gate = true;
      layer.attention().rotary->width = layer.attention().head_dim / 4;
      if (number % 4 != 3) layer.mixer = arch::GatedDelta{16, 32, 128, 128, 4};
    }
  }

  void draw_method(MatrixRun& run) {
    const uint64_t method = random_.below(5);
    if (method < 2) {
      run.name += "_full";
      return;
    }
    run.config.method = config::Method::kLora;
    run.config.lora_r = one_of<3>({8, 16, 64});
    if (method == 3) run.config.target_modules = {"all-linear"};
    if (method == 4) run.config.target_modules = {"o_proj", "down_proj"};
    if (coin(3)) run.config.lora_dropout = 0.05;
    run.name += std::array{"", "", "_lora", "_lora_all_linear", "_lora_out"}[method];
    if (run.config.lora_dropout > 0) run.name += "_dropout";
  }

  void draw_precision(MatrixRun& run) {
    const uint64_t precision = random_.below(4);
    run.config.bf16 = precision == 1 || precision == 2;
    run.config.dtype = precision == 3 ? DType::kBF16 : DType::kF32;
    run.name += precision == 3 ? "_bf16" : run.config.bf16 ? "_autocast" : "_fp32";
  }

  void draw_batches(MatrixRun& run) {
    const bool math = coin(4);
    run.config.attn_implementation = math ? config::Attention::kMath : config::Attention::kFlash;
    const int64_t length =
        math ? one_of<4>({77, 512, 1024, 2048}) : one_of<10>({60, 128, 511, 1024, 1500, 2048, 3000, 4096, 8192, 32768});
    const int64_t rows = length >= 8192 ? 1 : one_of<5>({1, 2, 3, 4, 8});
    const int64_t micro_batches = one_of<2>({1, 2});
    run.config.per_device_train_batch_size = rows;
    run.config.max_length = length;
    run.config.gradient_accumulation_steps = micro_batches;
    run.steps = {schedule::StepShape(micro_batches, schedule::whole_batch(rows, length))};
    if (micro_batches > 1 && coin(3)) run.steps[0][1] = schedule::whole_batch(rows, length / 2 + 1);
    if (coin(4)) {
      run.config.eval_strategy = config::Cadence::kEpoch;
      run.evaluations = {schedule::whole_batch(rows * one_of<2>({1, 2}), length)};
    }
    run.name += math ? "_math_" : "_flash_";
    run.name += std::to_string(micro_batches) + "x" + std::to_string(rows) + "x" + std::to_string(length);
    if (!run.evaluations.empty()) run.name += "_evaluation";
  }

  SplitMix64 random_;
};

}  // namespace

std::vector<MatrixRun> large_runs(uint64_t seed, size_t count) {
  Draw draw(seed);
  std::vector<MatrixRun> runs;
  while (runs.size() < count) runs.push_back(draw.run(runs.size()));
  return runs;
}

}  // namespace fathom::plan::testing
