// `fathom doctor --calibrate`, and its children that measure, on the command line.
#pragma once

#include "app/installation.h"
#include "app/words/shared_options.h"

namespace fathom::app {

// What `doctor` runs when told to; no words of the command line name it.
class Calibrate final : public Invocation {
 public:
  Calibrate(bool json, std::optional<config::GpuSpec> gpu) : Invocation("calibrate"), json(json) {
    phantom_gpu = std::move(gpu);
  }
  std::vector<Option> options() override { return {}; }

  const bool json;
};

class AnswerOverhead final : public Invocation {
 public:
  AnswerOverhead() : Invocation("answer-overhead") {}
  std::vector<Option> options() override {
    return {{"--bf16", config.bf16},
            {"--math", math},
            {"--lora", lora},
            {"--gradient-checkpointing", config.gradient_checkpointing},
            pretended.name_option("--phantom-gpu", "")};
  }
  void complete() override {
    if (math) config.attn_implementation = config::Attention::kMath;
    if (lora) config.method = config::Method::kLora;
    phantom_gpu = pretended.find();
    device = config::Device::kCuda;
    config.cuda_kernels = std::filesystem::exists(cuda_kernels_file());
  }

  bool math = false, lora = false;
  GpuWords pretended;
};

class AnswerOperators final : public Invocation {
 public:
  AnswerOperators() : Invocation("answer-operators") {}
  std::vector<Option> options() override { return {pretended.name_option("--phantom-gpu", "")}; }
  void complete() override {
    phantom_gpu = pretended.find();
    device = config::Device::kCuda;
  }

  GpuWords pretended;
};

}  // namespace fathom::app
