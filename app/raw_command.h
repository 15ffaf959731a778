// From the words of a command line to what they name: configs, models, GPUs, prompts. Read before LibTorch is loaded,
// so that mistakes are told at once.
#pragma once

#include <string>
#include <vector>

#include "app/invocation.h"

namespace fathom::app {

// What stands on the command line, before it is looked at.
struct RawCommand {
  Invocation invocation;
  std::string subject;  // CONFIG or MODEL
  std::vector<std::string> overrides;
  std::string prompt, prompts_file;
  std::string prompt_format = "auto";  // generate: plain, alpaca, chat; auto: as the run that trained the model
  std::string ids;
  std::string gpu, phantom_gpu;  // names in configs/gpus.yaml
  std::string gpu_memory;        // in place of that GPU's
  std::string bound;             // of memory, for advise
  std::string vary = "techniques";
  std::string keep;                  // names with commas between
  std::string tokens, gpu_hours;     // of estimate's budget
  std::vector<std::string> numbers;  // formats
  std::string largest;               // formats
  std::string evaluated;             // quantize: a file
  bool calibrate = false;            // doctor
  bool math = false, lora = false;   // answer-overhead
  config::GpuSpec answering_gpu;     // answer-plan: any, listed or not
};

// "7B": a bare number of parameters. A file or folder of that name comes first.
bool is_parameter_count(const std::string& subject);

// Reads what the words name. Throws UsageError for what is wrong with them, or with the config.
Invocation complete(RawCommand& raw);

}  // namespace fathom::app
