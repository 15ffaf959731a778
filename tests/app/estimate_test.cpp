// `fathom estimate` of bare shapes: an 8B model's largest allocations as a person counts them, known models by name,
// time and cost by arithmetic.
#include <gmock/gmock.h>

#include "base/json_value.h"
#include "tests/app/run.h"

namespace fathom {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Estimate : public ProgramTest {
 protected:
  Json estimate(const std::string& arguments) {
    const Outcome outcome = run("estimate " + arguments + " --json", "OMP_NUM_THREADS=2 ");
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    return outcome.status == 0 ? parse_json(outcome.output, arguments) : Json();
  }
};

// Llama 3 8B in BF16 under LoRA of q and v, one row of 4,096 tokens; V = 128,256, D = 4,096, F = 14,336, 32 layers. The
// head is frozen, so that its logits go through in chunks of 64 MiB, and the peak is where the backward pass begins, in
// the feed-forward of the last layer:
//   the embedding and the head        128,256 x 4,096 x 2 bytes = 1,050,673,152 each
//   of each layer three weights       14,336 x 4,096 x 2 bytes = 117,440,512 each
//   and what two inner products made  4,096 tokens x 14,336 x 2 bytes, as many, kept for the backward pass
//   three of as many, for a moment    the gradient of the gate's output, silu of the gate, which becomes that of `up`,
//                                     and the gradient times `up`
TEST_F(Estimate, AgreesWithAnAccountOfTheTenLargestAllocations) {
  const Json json = estimate(
      "llama-3-8b --gpu H100 --placements 1 method=lora dtype=bfloat16 per_device_train_batch_size=1 max_length=4096");
  struct Row {
    const char* what;
    const char* component;
    int64_t bytes, count;
  };
  const std::vector<Row> by_hand = {
      {"model.embed_tokens.weight", "weights", 1'050'673'152, 1},
      {"lm_head.weight", "weights", 1'050'673'152, 1},
      {"model.layers.*.mlp.gate_proj.weight", "weights", 117'440'512, 32},
      {"model.layers.*.mlp.up_proj.weight", "weights", 117'440'512, 32},
      {"model.layers.*.mlp.down_proj.weight", "weights", 117'440'512, 32},
      {"model.layers.*.mlp.gate_proj, fathom::mm", "activations", 117'440'512, 32},
      {"model.layers.*.mlp.up_proj, fathom::mm", "activations", 117'440'512, 32},
      {"model.layers.*.mlp.down_proj, fathom::mm", "temporary_buffers", 117'440'512, 1},
      {"model.layers.*.mlp, aten::empty_strided", "temporary_buffers", 117'440'512, 2},
      {"model.layers.*.self_attn.q_proj.weight", "weights", 33'554'432, 32},
  };
  ASSERT_EQ(json.at("largest_blocks").size(), by_hand.size());
  for (size_t i = 0; i < by_hand.size(); ++i) {
    const Json& block = json.at("largest_blocks")[i];
    EXPECT_EQ(block.at("what"), by_hand[i].what);
    EXPECT_EQ(block.at("component"), by_hand[i].component) << by_hand[i].what;
    EXPECT_EQ(block.at("bytes"), by_hand[i].bytes) << by_hand[i].what;
    EXPECT_EQ(block.at("count"), by_hand[i].count) << by_hand[i].what;
  }
  // 6 x 7.5e9 weights of products would be full training; frozen ones take no gradient: about 4.
  EXPECT_NEAR(json.at("arithmetic").at("matrix_flops").get<double>(), 4.0 * 7.505e9 * 4096, 0.01 * 4 * 7.505e9 * 4096);
  EXPECT_NEAR(json.at("time").at("matrix_flops_per_second").get<double>(), 640e12, 60e12);
  EXPECT_NEAR(json.at("time").at("tokens_per_second").get<double>() * json.at("time").at("step_seconds").get<double>(),
              4096, 1e-6);
}

// Steps of benchmarks/gpu-nvidia-h100-80gb-hbm3, of which the GPU's table knows the operators.
TEST_F(Estimate, ExpectsTheTimeThatStepsTook) {
  const std::string fast = " attn_implementation=cudnn cuda_graphs=true";
  const std::string full = "llama-3.2-1b method=full dtype=bfloat16 per_device_train_batch_size=4 max_length=2048";
  const std::string lora =
      "llama-3.1-8b method=lora lora_r=8 target_modules=all-linear dtype=bfloat16 bf16=true "
      "per_device_train_batch_size=2 max_length=2048";
  const std::string small = "smollm2-135m method=full dtype=bfloat16 per_device_train_batch_size=4 max_length=512";
  for (const auto& [run_of, seconds] :
       {std::pair(full + fast, 0.1298), std::pair(full + fast + " loss_chunk_size=0", 0.1268),
        std::pair(lora + fast, 0.2570), std::pair(lora + fast + " load_in_4bit=true", 0.2657),
        std::pair(lora + fast + " load_in_fp8=true fp8=true", 0.1971),
        std::pair(small + " attn_implementation=cudnn", 0.0417)}) {
    const Json time = estimate(run_of + " --gpu H100 --placements 1").at("time");
    EXPECT_EQ(time.at("source"), "operators measured on NVIDIA H100 80GB HBM3 on 2026-11-27");
    EXPECT_NEAR(time.at("step_seconds").get<double>(), seconds, 0.05 * seconds) << run_of;
  }
  EXPECT_EQ(estimate(full + " --gpu H200 --placements 1").at("time").at("source"), "configs/gpus.yaml");
  const std::string tf32 = "smollm2-135m max_length=64 tf32=true --gpu H100 --placements 1";
  EXPECT_EQ(estimate(tf32).at("time").at("source"), "configs/gpus.yaml") << "whose products were not measured";
}

// How it is computed: by what was measured, of runs whose batches have few shapes.
TEST_F(Estimate, NamesWhatTheSameRunIsFasterWith) {
  const std::string small = "smollm2-135m dtype=bfloat16 per_device_train_batch_size=4 max_length=512 --placements 1";
  const Json faster = estimate(small + " --gpu H100").at("faster");
  ASSERT_EQ(faster.size(), 2);
  EXPECT_EQ(faster[0].at("settings"), "cuda_graphs: true");
  EXPECT_EQ(faster[1].at("settings"), "attn_implementation: cudnn, cuda_graphs: true");
  const Json both = estimate(small + " --gpu H100 attn_implementation=cudnn cuda_graphs=true");
  EXPECT_EQ(both.at("time").at("step_seconds"), faster[1].at("step_seconds"));
  EXPECT_EQ(both.at("reserved").at("dry_run"), faster[1].at("reserved"));
  EXPECT_EQ(both.at("faster").size(), 0);
  EXPECT_EQ(estimate(small + " --gpu A100-80GB").at("faster").size(), 0) << "of which no operator was measured";
  EXPECT_EQ(estimate(small + " --gpu H100 gradient_accumulation_steps=2").at("faster").size(), 0) << "no graphs";
  for (const std::string more : {" num_processes=8 strategy=ddp", " offload_optimizer=true"}) {
    const std::string slow =
        "llama-3.2-1b dtype=bfloat16 per_device_train_batch_size=8 max_length=512 --placements 1 --gpu H100" + more;
    for (const Json& each : estimate(slow).at("faster")) {
      const bool graphs = each.at("settings").get<std::string>().find("graphs") != std::string::npos;
      const bool cudnn = each.at("settings").get<std::string>().find("cudnn") != std::string::npos;
      const Json told =
          estimate(slow + (cudnn ? " attn_implementation=cudnn" : "") + (graphs ? " cuda_graphs=true" : ""));
      EXPECT_EQ(told.at("time").at("step_seconds"), each.at("step_seconds")) << slow << each;
    }
  }
  EXPECT_THAT(run("estimate " + small + " --gpu H100").output,
              HasSubstr("The same run, expected to be faster:\n  cuda_graphs: true: "));
}

// The sums of a step's operators are what the plan counts of the whole.
TEST_F(Estimate, ListsWhatAStepGivesTheGpu) {
  const std::string run_of =
      "smollm2-135m --gpu H100 --placements 1 method=full dtype=bfloat16 master_weights=stochastic "
      "per_device_train_batch_size=4 max_length=512";
  const Json arithmetic = estimate(run_of).at("arithmetic");
  std::string without_placements = run_of;
  without_placements.erase(without_placements.find("--placements 1 "), 15);
  const Json kernels = estimate(without_placements + " --kernels").at("kernels");
  int64_t launches = 0, matrix_flops = 0, attention_flops = 0, bytes_moved = 0;
  for (const Json& row : kernels.at("rows")) {
    launches += row.at("launches").get<int64_t>();
    matrix_flops += row.at("matrix_flops").get<int64_t>();
    attention_flops += row.at("attention_flops").get<int64_t>();
    const bool multiplies = row.at("matrix_flops") != 0 || row.at("attention_flops") != 0;
    if (!multiplies) bytes_moved += row.at("bytes").get<int64_t>();
    EXPECT_TRUE(row.at("least_seconds").is_number()) << row;
  }
  EXPECT_EQ(matrix_flops, arithmetic.at("matrix_flops"));
  EXPECT_EQ(attention_flops, arithmetic.at("attention_flops"));
  EXPECT_EQ(bytes_moved, arithmetic.at("bytes_moved"));
  EXPECT_EQ(launches, kernels.at("launches")) << "some are given outside of any operator";
  EXPECT_GT(launches, 500);
  const Outcome shown = run("estimate " + without_placements + " --kernels");
  EXPECT_THAT(shown.output, AllOf(HasSubstr("  layers.*.mlp.up_proj "), HasSubstr("\nstep ")));
}

TEST_F(Estimate, PricesAKnownModel) {
  const Json json = estimate("Llama-2-7B --gpu-hours 184320 --gpus 8 --price-per-hour 33 max_length=16");
  EXPECT_EQ(json.at("cost").at("hours"), 23'040);
  EXPECT_EQ(json.at("cost").at("dollars"), 760'320);
  const std::string asked = "estimate llama-2-7b --gpu-hours 184320 --gpus 8 --price-per-hour 33";
  EXPECT_EQ(run(asked).output,
            "184,320 GPU hours, 23,040 hours on 8 GPUs, $760,320 at $33.00 an hour for all of\n  them.\n")
      << "for which nothing is planned";
  EXPECT_THAT(run(asked + " max_length=16").output, AllOf(HasSubstr("at the peak"), HasSubstr("$760,320")));
}

// Two trillion tokens took 184,320 hours on A100s (Touvron et al. 2023, arXiv 2307.09288, table 2).
TEST_F(Estimate, ReckonsTheHoursOfLlama2WithinAnEighth) {
  const Json json = estimate(
      "llama-2-7b --gpu A100-80GB --placements 1 bf16=true per_device_train_batch_size=1 max_length=4096 --tokens 2T "
      "cuda_kernels=false");
  EXPECT_NEAR(json.at("cost").at("gpu_hours").get<double>(), 184'320, 23'040);
}

TEST_F(Estimate, TakesAShapeInAnyForm) {
  const Json by_name = estimate("smollm2-135m max_length=64");
  std::filesystem::create_directories(folder_ / "m");
  for (const char* name : {"m/config.json", "shape.json"}) {
    std::filesystem::copy_file(FATHOM_SOURCE_DIR "/configs/models/smollm2-135m/config.json", folder_ / name);
  }
  for (const char* subject : {"m", "m/config.json", "shape.json"}) {
    const Json json = estimate(std::string(subject) + " max_length=64");
    EXPECT_EQ(json.at("peak"), by_name.at("peak")) << subject;
    EXPECT_EQ(json.at("largest_blocks"), by_name.at("largest_blocks")) << subject;
  }
}

TEST_F(Estimate, TellsTheNearestKnownModel) {
  const Outcome outcome = run("estimate lama-2-7b");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.errors,
              AllOf(HasSubstr("lama-2-7b"), HasSubstr("did you mean llama-2-7b?"), HasSubstr("fathom list models")));
}

// Of another size or version nothing is the same; of a family that is not here nothing need be downloaded.
TEST_F(Estimate, ProposesNoModelOfAnotherSize) {
  const auto told = [&](const std::string& name) {
    const Outcome outcome = run("estimate " + name + " --gpu H100", "HF_HUB_CACHE=$PWD/none ");
    EXPECT_EQ(outcome.status, 2) << name << outcome.output;
    return outcome.errors;
  };
  for (const char* name : {"gemma-3-99b", "qwen3-5b", "qwen2-58b", "llama-3.5-8b", "llama-5-8b"}) {
    EXPECT_THAT(told(name), Not(HasSubstr("did you mean"))) << name;
  }
  EXPECT_THAT(told("llama31-8b"), HasSubstr("did you mean llama-3.1-8b?"));
  // Of families whose mixtures are others.
  EXPECT_THAT(told("qwen3.5"), HasSubstr("did you mean qwen3.5-27b or qwen3.5-35b-a3b or qwen3.5-4b or qwen3.5-9b?"));
  for (const char* name : {"Qwen/Qwen3.5-0.8B", "Qwen/Qwen3.6-27B", "Qwen/Qwen3.5-122B-A10B", "LiquidAI/LFM2-2.6B",
                           "LiquidAI/LFM2.5-1.2B"}) {
    EXPECT_THAT(run("estimate " + std::string(name), "HF_HUB_CACHE=$PWD/none ").errors, HasSubstr("hf download"))
        << name;
  }
  EXPECT_THAT(told("gemma-3"),
              HasSubstr("did you mean gemma-3-12b or gemma-3-1b or gemma-3-270m or gemma-3-27b or gemma-3-4b?"));
  for (const char* name :
       {"google/gemma-3n-E4B-it", "google/gemma-4-E2B-it", "google/gemma-4-26B-A4B-it", "microsoft/phi-2",
        "meta-llama/Llama-3.2-11B-Vision-Instruct", "deepseek-ai/DeepSeek-V3.2", "Qwen/Qwen3-VL-30B-A3B-Instruct",
        "ibm-granite/granite-4.0-h-tiny", "moonshotai/Kimi-K2-Instruct"}) {
    EXPECT_THAT(told(name), AllOf(HasSubstr("is of no family that fathom trains"), HasSubstr("fathom phantom"),
                                  Not(HasSubstr("hf download"))))
        << name;
  }
  for (const char* name : {"rinna/gemma-2-baku-2b", "some/llama-4bit-tuned"}) {
    EXPECT_THAT(run("estimate " + std::string(name), "HF_HUB_CACHE=$PWD/none ").errors, HasSubstr("hf download"));
  }
  EXPECT_THAT(run("estimate deepseek-ai/DeepSeek-R1-Distill-Llama-8B", "HF_HUB_CACHE=$PWD/none ").errors,
              HasSubstr("hf download"));
  const std::string kept = "--inference --json";
  EXPECT_EQ(run("estimate Llama3.2-1B " + kept).output, run("estimate llama-3.2-1b " + kept).output);
}

// By the names that the hub has for it, as an argument and in a run's own YAML, before anything is downloaded.
TEST_F(Estimate, FindsAShapeByItsNameOnTheHub) {
  const std::string no_cache = "HF_HUB_CACHE=$PWD/none ";
  const auto peak = [&](const std::string& subject) {
    const Outcome outcome = run("estimate " + subject + " max_length=64 --json", no_cache);
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    return outcome.status == 0 ? parse_json(outcome.output, subject).at("peak") : Json();
  };
  const Json known = peak("smollm2-135m");
  EXPECT_EQ(peak("HuggingFaceTB/SmolLM2-135M"), known);
  EXPECT_EQ(peak("HuggingFaceTB/SmolLM2-135M-Instruct"), known);
  EXPECT_THAT(run("estimate CohereLabs/c4ai-command-r-v01 --gpu H100 max_length=64", no_cache).errors,
              HasSubstr("shape of configs/models/command-r-v01"));
  write("run.yaml",
        "model_name_or_path: HuggingFaceTB/SmolLM2-135M\ntrain_file: data.jsonl\nvalidation_file: eval.jsonl\n"
        "eval_strategy: epoch\noutput_dir: out\n");
  EXPECT_EQ(peak("run.yaml"), known);
  EXPECT_EQ(peak("run.yaml model_name_or_path=smollm2-135m"), known);
  EXPECT_THAT(run("estimate run.yaml max_length=64", no_cache).errors,
              AllOf(HasSubstr("shape of configs/models/smollm2-135m"), HasSubstr("full batches of max_length 64")));
  EXPECT_EQ(run("estimate nobody/nothing-8b", no_cache).status, 1);
}

TEST_F(Estimate, FindsPathsBelowTheHomeFolder) {
  std::filesystem::create_directories(folder_ / "home");
  std::filesystem::copy(FATHOM_SOURCE_DIR "/configs/models/smollm2-135m", folder_ / "home" / "m");
  write("run.yaml", "model_name_or_path: ~/m\nrandom_init: true\n");
  EXPECT_EQ(run("estimate run.yaml max_length=64", "HOME=$PWD/home ").status, 0);
}

// A T4 multiplies in FP16 alone.
TEST_F(Estimate, RefusesBf16OnAGpuWithoutIt) {
  const std::string on_t4 = "estimate smollm2-135m --gpu T4 max_length=64 ";
  for (const char* settings : {"bf16=true", "dtype=bfloat16 master_weights=stochastic", "method=lora"}) {
    const Outcome outcome = run(on_t4 + settings);
    EXPECT_EQ(outcome.status, 2) << settings;
    EXPECT_THAT(outcome.errors, HasSubstr("T4 (compute capability 7.5) does not multiply in BF16")) << settings;
  }
  EXPECT_EQ(run(on_t4 + "fp16=true").status, 0);
  EXPECT_EQ(run(on_t4 + "method=lora fp16=true").status, 0);
}

// What cuDNN takes is known of one kind of GPU.
TEST_F(Estimate, RefusesCudnnsAttentionWhereItsMemoryIsNotKnown) {
  const auto refused = [&](const std::string& settings, const std::string& why) {
    const Outcome outcome = run("estimate smollm2-135m max_length=64 attn_implementation=cudnn " + settings);
    EXPECT_EQ(outcome.status, 2) << settings;
    EXPECT_THAT(outcome.errors, AllOf(HasSubstr(why), HasSubstr("set attn_implementation: flash"))) << settings;
  };
  refused("--gpu A100-80GB bf16=true", "A100-80GB has compute capability 8.0");
  refused("--gpu H100", "computes in 16 bits");
  refused("bf16=true", "needs a GPU");
  EXPECT_EQ(run("estimate smollm2-135m max_length=64 attn_implementation=cudnn --gpu H100 bf16=true").status, 0);
}

TEST_F(Estimate, KnowsRulesForBareNumbers) {
  const Outcome one = run("estimate 1B");
  EXPECT_EQ(one.status, 0) << one.errors;
  EXPECT_THAT(one.output, AllOf(HasSubstr("4.00 GB"), HasSubstr("2.00 GB"), HasSubstr("1.00 GB"), HasSubstr("0.5 GB"),
                                HasSubstr("16.00 GB"), HasSubstr("24.00 GB")));
  EXPECT_THAT(run("estimate 7B").output, HasSubstr("168.0 GB"));
  EXPECT_EQ(estimate("7B").at("weights")[1].at("bytes"), 14'000'000'000);
}

TEST_F(Estimate, ShowsInferenceWhenAsked) {
  const Json json = estimate("llama-3.2-1b --inference per_device_train_batch_size=1 max_length=16");
  // Two of keys and values, 16 layers, 8 heads of 64, 2 bytes.
  EXPECT_EQ(json.at("inference").at("cache_bytes_per_token"), 32'768);
  EXPECT_EQ(json.at("inference").at("weights")[0].at("bytes"), 4 * int64_t{1'235'814'400});
  const std::string text = run("estimate llama-3.2-1b --inference --gpu L4").output;
  EXPECT_THAT(text, AllOf(HasSubstr("Inference, in GB"), HasSubstr("(142.4)"), HasSubstr("more than L4's 23.65 GB")));
  EXPECT_THAT(text, Not(HasSubstr("Dry run"))) << "a plan of training, which nobody asked for";
  EXPECT_THAT(run("estimate llama-3.2-1b max_length=16").output, Not(HasSubstr("Inference, in GB")));
}

// A rank of them is planned, with what it sends the others; what does not fit has no price but that of a wish.
TEST_F(Estimate, PlansARankOfSeveralGpus) {
  const std::string of_8 = "smollm2-135m --gpu L4 max_length=64 bf16=true --placements 1 --gpus 8 ";
  EXPECT_THAT(run("estimate " + of_8 + "--tokens 1B").output,
              AllOf(HasSubstr("Each GPU sends and receives "), HasSubstr("All 8 together: "),
                    HasSubstr("measured by nobody"), HasSubstr("1B tokens: "), Not(HasSubstr("If it did"))));
  const Outcome exceeds = run("estimate " + of_8 + "--tokens 1B --gpu-memory 1GiB");
  EXPECT_THAT(exceeds.output, AllOf(HasSubstr("The run does not fit. If it did: 1B tokens: "),
                                    HasSubstr("\n  strategy=fsdp  "), HasSubstr("What would help most")));
  const Json whole = estimate(of_8), shared = estimate(of_8 + "strategy=fsdp");
  const int64_t parameters = 134'515'008, bytes = 4 * parameters;
  EXPECT_EQ(whole.at("communication").at("processes"), 8);
  EXPECT_NEAR(whole.at("communication").at("summed_bytes").get<double>(), 2.0 * 7 / 8 * bytes, 1e5);
  EXPECT_NEAR(shared.at("communication").at("reduced_bytes").get<double>(), 7.0 / 8 * bytes, 1e5);
  EXPECT_LT(shared.at("peak").at("dry_run"), whole.at("peak").at("dry_run"));
  const double step = shared.at("time").at("step_seconds"), exposed = shared.at("communication").at("exposed_seconds");
  EXPECT_GT(exposed, 0);
  EXPECT_GT(step, exposed);
  EXPECT_NEAR(shared.at("communication").at("tokens_per_second_of_all").get<double>(),
              8 * shared.at("time").at("tokens_per_second").get<double>(), 1e-3);
  EXPECT_EQ(estimate("smollm2-135m --gpu L4 max_length=64").at("communication"), nullptr);
}

// As they are shipped, before their models are downloaded.
TEST_F(Estimate, PlansTheRecipesForSeveralGpus) {
  const auto plan = [&](const std::string& recipe) {
    const Outcome outcome =
        run("estimate " FATHOM_SOURCE_DIR "/configs/" + recipe + " --placements 1 --json", "HF_HUB_CACHE=$PWD/none ");
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    return Json::parse(outcome.output);
  };
  const Json full = plan("fsdp.yaml --gpu H100"), adapters = plan("fsdp-qlora.yaml --gpu RTX-4090");
  EXPECT_EQ(full.at("fit"), "fits");
  EXPECT_EQ(full.at("communication").at("processes"), 8);
  // An eighth of 8.03e9 parameters in BF16.
  EXPECT_NEAR(full.at("components").at("weights").at("dry_run").get<double>(), 2 * 8.03e9 / 8, 1e7);
  EXPECT_EQ(adapters.at("fit"), "fits") << "70B on four cards of 24 GB";
  EXPECT_EQ(adapters.at("communication").at("processes"), 4);
}

TEST_F(Estimate, TellsGpusFromProcesses) {
  const Outcome contradicts = run("estimate smollm2-135m --gpu L4 --gpus 8 num_processes=4");
  EXPECT_EQ(contradicts.status, 2);
  EXPECT_THAT(contradicts.errors, HasSubstr("--gpus 8 beside num_processes=4"));
  const Outcome nowhere = run("estimate smollm2-135m device=cpu --gpus 8");
  EXPECT_EQ(nowhere.status, 2);
  EXPECT_THAT(nowhere.errors, AllOf(HasSubstr("of which GPU"), HasSubstr("num_processes=8")));
}

TEST_F(Estimate, HasNoPriceForAnUnknownSpeed) {
  EXPECT_EQ(estimate("smollm2-135m --gpu L4 max_length=64 --tokens 1B --gpu-memory 1GiB").at("cost").at("fits"), false);
  const Outcome unknown =
      run("estimate smollm2-135m max_length=64 device=cpu --tokens 1B", "FATHOM_CALIBRATION=$PWD/none ");
  EXPECT_EQ(unknown.status, 2);
  EXPECT_THAT(unknown.errors, HasSubstr("fathom doctor --calibrate"));
}

TEST_F(Estimate, RefusesWrongBudgets) {
  for (const char* options : {"--tokens many", "--tokens -3", "--tokens 0", "--gpus 0", "--gpu-hours x",
                              "--price-per-hour -1", "--price-per-hour nan"}) {
    EXPECT_EQ(run(std::string("estimate smollm2-135m ") + options).status, 2) << options;
  }
}

}  // namespace
}  // namespace fathom
