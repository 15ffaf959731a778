// What the command line asked for, as one value: what the torch-free program hands to the engine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/devices.h"
#include "config/run_config.h"
#include "data/prompt_form.h"
#include "plan/cost.h"
#include "plan/search.h"

namespace fathom::app {

// Members are set by the commands that are named; the others leave the defaults.
struct Invocation {
  std::string command;  // "train", "eval", "generate", "logits", "export", "estimate", "advise", "inspect", "doctor",
                        // "report", "preview", "formats", "list", "quantize", "calibrate" (doctor --calibrate),
                        // "answer-plan", "answer-overhead"

  std::string command_line;  // as it was typed, quoted for a shell
  std::string version;       // of the program: "0.1.0"

  // train, eval, estimate: the file with overrides. generate, logits, quantize and estimate MODEL: the model with
  // overrides; of quantize, with the file to evaluate on.
  config::RunConfig config;
  // The device that the run uses: kCpu or kCuda, never kAuto. For kCuda libtorch_cuda and libfathom_cuda are loaded,
  // for every name visible (RTLD_GLOBAL); a phantom GPU's stubs stand beneath them if phantom_gpu is set.
  config::Device device = config::Device::kCpu;
  std::optional<config::GpuSpec> phantom_gpu;  // train, answer-plan: the pretended GPU
  uint64_t placement = 0;                      // train on a phantom GPU: where its segments lie,
  std::filesystem::path segments;              //   or the trace of a run whose segments lie there
  std::filesystem::path trace;                 // train on CUDA: a file for the allocator's events; empty: none
  std::filesystem::path profile;               // train: a file for LibTorch's profile of a few steps; empty: none
  bool force = false;                          // train: also what is predicted not to fit

  // estimate
  bool model_alone = false;            // MODEL instead of CONFIG: batches of max_length
  bool price_alone = false;            // of the budget's GPU hours, for which nothing need be planned
  std::optional<config::GpuSpec> gpu;  // another GPU to plan for; unset: the config's device
  std::optional<int> placements;       // of segments, for the ranges of allocated and reserved bytes; unset: as many as
                                       //   can differ
  bool json = false;                   // estimate, advise, inspect, doctor, calibrate, preview, formats, quantize
  plan::Budget budget;                 // tokens or GPU hours, GPUs and price
  bool inference = false;              // memory to use the model, instead of to train it
  bool explain = false;                // how the figures come about, besides
  std::filesystem::path page;          // a page of the plan to write too; empty: none
  bool attention = false;              // attention's memory and time over lengths, on this machine
  int64_t parameters = 0;              // > 0: a bare number of them instead of a model

  // advise
  std::optional<plan::Vary> vary;  // the setting whose largest value is asked for; unset: techniques
  std::vector<std::string> keep;   // groups of techniques that stay as the run has them

  // eval, generate, logits
  std::filesystem::path adapter;  // a folder with adapter_config.json; empty: none
  bool int8_activations = false;  // products of INT8 by INT8 in the decoder's layers

  // generate, logits
  std::vector<std::string> prompts;  // at least one, but for a chat
  int64_t max_new_tokens = 128;
  double temperature = 0;  // 0: greedy
  int64_t top_k = 0;       // 0: no limit
  double top_p = 1;
  uint64_t seed = 42;
  data::PromptForm prompt_form = data::PromptForm::kPlain;  // generate: how they are put to the model
  std::vector<std::string> stops;                           // generate: texts at which an answer ends, not part of it
  bool chat = false;          // generate: a conversation over stdin and stdout instead of prompts,
  std::string system_prompt;  //   with this system message; empty: none
  std::vector<int64_t> ids;   // logits: at least one
  std::filesystem::path out;  // logits: the safetensors file to write; export, quantize: the folder; report: the page,
                              //   empty: in the run's folder

  int64_t samples = 3;                  // preview: how many are shown,
  std::optional<int64_t> sample_index;  //   or which one

  // formats
  std::vector<double> numbers;    // at least one
  std::optional<double> largest;  // of the values that a scale is for; unset: a power of two above each number

  std::string listed;  // list: gpus or models

  std::string format;  // quantize: one of quant/format_names.h

  // export
  bool merge = false;          // the adapter into its base
  std::filesystem::path base;  // in place of the one that the adapter names; empty: that one

  std::filesystem::path subject;   // inspect: a folder or a file; report, export: a run's folder
  std::filesystem::path snapshot;  // report: the snapshot to write too; empty: none
};

}  // namespace fathom::app
