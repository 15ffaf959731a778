// A small Llama in plain ATen for tests: RMSNorm, RoPE, grouped queries, SwiGLU, cross-entropy, clipping, fused AdamW;
// with the marks and claims that the trainer sets in the ledger.
#pragma once

#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ledger/ledger.h"

namespace fathom::phantom {

struct TinyShape {
  int64_t layers = 2, hidden = 24, heads = 3, kv_heads = 1, ffn = 40, vocabulary = 50, sequence = 11, batch = 2;
  bool tied = false;
};

enum class Precision { kFloat, kAutocast, kBFloat16 };

struct TinyRun {
  TinyShape shape;
  Precision precision = Precision::kFloat;
  bool checkpointing = false, lora = false, flash = true;
  double dropout = 0;
  int steps = 2, accumulation = 1;
  std::string describe() const;
};

// Plays the run on `device` and returns what `ledger` saw of it; the ledger must be told of that device's allocations.
// Everything that the run made is gone afterwards. after_step: called when a step has been labelled.
memory::Memory play(const TinyRun& run, at::Device device, ledger::Ledger& ledger,
                    const std::function<void()>& after_step = {});

}  // namespace fathom::phantom
