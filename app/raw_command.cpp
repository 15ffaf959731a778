// Reads the files that a command line names and checks its numbers.
#include "app/raw_command.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <iostream>
#include <iterator>
#include <numbers>
#include <sstream>

#include "app/installation.h"
#include "app/known_models.h"
#include "app/machine.h"
#include "app/used_model.h"
#include "base/bytes.h"
#include "base/count.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "config/load.h"
#include "config/precision.h"
#include "plan/techniques.h"
#include "weights/hub.h"

namespace fathom::app {
namespace {

std::vector<int64_t> parse_ids(const std::string& text) {
  std::vector<int64_t> ids;
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  while (true) {
    int64_t id = -1;
    const auto [next, error] = std::from_chars(at, end, id);
    if (error != std::errc() || id < 0 || (next != end && *next != ',')) {
      throw UsageError("--ids: expected token ids like 1,2,3, got '" + text.substr(0, 64) + "'");
    }
    ids.push_back(id);
    if (next == end) return ids;
    at = next + 1;
  }
}

std::vector<std::string> read_prompts(const RawCommand& raw) {
  if (!raw.prompt.empty()) return {raw.prompt};
  std::vector<std::string> prompts;
  if (raw.prompts_file.empty()) {
    if (::isatty(STDIN_FILENO) == 1) log_info("write the prompt here, and end it with Ctrl-D on a line of its own");
    std::string text((std::istreambuf_iterator<char>(std::cin)), {});
    while (!text.empty() && text.back() == '\n') text.pop_back();
    if (!text.empty()) prompts.push_back(text);
  } else {
    std::istringstream lines(read_file(raw.prompts_file, size_t{256} << 20));
    for (std::string line; std::getline(lines, line);) {
      if (!line.empty()) prompts.push_back(line);
    }
  }
  if (prompts.empty()) throw UsageError("there is no prompt", "give --prompt TEXT, --prompts FILE, or a text on stdin");
  return prompts;
}

void check_generation(const Invocation& invocation) {
  const auto require = [](bool holds, const std::string& option, const std::string& expected) {
    if (!holds) throw UsageError("--" + option + ": expected " + expected);
  };
  require(invocation.max_new_tokens >= 1, "max-new-tokens", "at least 1");
  require(std::isfinite(invocation.temperature) && invocation.temperature >= 0, "temperature", "a number, at least 0");
  require(invocation.top_k >= 0, "top-k", "at least 0");
  require(invocation.top_p > 0 && invocation.top_p <= 1, "top-p", "a number above 0 and at most 1");
}

// A number without its unit would be so many bytes.
void expect_size(const std::string& option, const std::string& text, int64_t bytes) {
  if (bytes >= kMiB) return;
  throw UsageError(option + ": expected a size of at least 1 MiB, as 24GiB, got '" + text.substr(0, 64) + "'");
}

std::optional<config::GpuSpec> gpu_of(const std::string& name, const std::string& memory) {
  if (name.empty()) return std::nullopt;
  config::GpuSpec gpu = config::find_gpu(config::load_gpus(gpus_file()), name);
  if (!config::is_supported(gpu.compute_capability)) {
    throw UsageError(gpu.name + " has compute capability " + gpu.compute_capability +
                         ", for which LibTorch 2.11 with CUDA 13 has no kernels: they begin with 7.5",
                     "plan for a T4 or a newer GPU");
  }
  if (!memory.empty()) gpu.memory_bytes = parse_bytes(memory);
  if (!memory.empty()) expect_size("--gpu-memory", memory, gpu.memory_bytes);
  return gpu;
}

// The device that the run uses on this machine, or pretends to.
config::Device device_of(const Invocation& invocation) {
  const config::Device wanted = invocation.config.device;
  if (invocation.phantom_gpu) {
    if (wanted == config::Device::kCpu) {
      throw UsageError("--phantom-gpu plays a CUDA run, but the config says device: cpu", "add device=cuda");
    }
    return config::Device::kCuda;
  }
  if (wanted == config::Device::kCpu || invocation.gpu) return config::Device::kCpu;
  const bool there = !this_gpus().empty();
  if (wanted == config::Device::kCuda && !there) {
    throw UsageError(
        "the config says device: cuda, but NVIDIA's driver lists no GPU here",
        "set device=cpu; without a GPU, `train --phantom-gpu NAME` plays the run and `estimate --gpu NAME` plans it");
  }
  return there ? config::Device::kCuda : config::Device::kCpu;
}

bool is_yaml(const std::filesystem::path& path) { return path.extension() == ".yaml" || path.extension() == ".yml"; }

// The model that `estimate` or `advise` is to look at: a folder, a .json file, a name of configs/models, or one on the
// Hugging Face hub; nothing for a config.
std::optional<std::string> model_of(const std::string& subject, bool takes_numbers) {
  const std::filesystem::path path = subject;
  if (std::filesystem::is_directory(path)) return subject;
  if (std::filesystem::is_regular_file(path)) {
    if (path.extension() != ".json") return std::nullopt;
    if (path.filename() != "config.json") return subject;
    return path.has_parent_path() ? path.parent_path().string() : ".";
  }
  if (is_yaml(path)) return std::nullopt;  // the config's reader says what is wrong
  if (weights::is_hub_name(subject)) return folder_or_known_shape(subject);
  if (path.has_parent_path()) return std::nullopt;
  if (const auto known = known_model(subject)) return (models_folder() / *known).string();
  throw UsageError(
      "'" + subject.substr(0, 64) + "' is neither a file or folder nor a known model",
      how_models_are_named(subject) + (takes_numbers ? "; a number of parameters is written like 7B" : ""));
}

// A plan of a run whose model is not here yet, by its shape alone where that is known. The lengths of its data are
// known with its tokenizer only.
void plan_without_model(config::RunConfig& run) {
  const std::string folder = folder_or_known_shape(run.model_name_or_path);
  if (folder == run.model_name_or_path) return;
  run.model_name_or_path = folder;
  if (run.train_file.empty() || run.dataset_format == config::DatasetFormat::kTokenIds) return;
  log_warning("the model's tokenizer is not here: planned with full batches of max_length " +
              std::to_string(run.max_length) + " in the place of train_file, and without evaluations");
  run.train_file.clear();
  run.validation_file.clear();
  run.validation_split = 0;
  run.eval_strategy = config::Cadence::kNo;
  run.eval_on_start = false;
}

// 0: not a number of parameters.
int64_t parameters_of(const std::string& subject) {
  constexpr double kMost = 1e15;
  if (std::filesystem::exists(subject)) return 0;
  const std::optional<double> count = parse_count(subject);
  return count && *count >= 1 && *count <= kMost ? std::llround(*count) : 0;
}

std::optional<double> count_of(const std::string& option, const std::string& text) {
  if (text.empty()) return std::nullopt;
  const std::optional<double> count = parse_count(text);
  if (!count || *count <= 0) {
    throw UsageError("--" + option + ": expected a number above 0 like 184320, 300M or 2T, got '" + text.substr(0, 64) +
                     "'");
  }
  return count;
}

std::vector<std::string> groups_of(const std::string& text) {
  std::vector<std::string> groups;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    if (std::find(std::begin(plan::kGroups), std::end(plan::kGroups), word) == std::end(plan::kGroups)) {
      std::string known;
      for (const char* group : plan::kGroups) known += std::string(known.empty() ? "" : ", ") + group;
      throw UsageError("--keep: unknown group '" + word.substr(0, 64) + "'", "groups are " + known);
    }
    groups.push_back(word);
  }
  return groups;
}

void read_advise(RawCommand& raw) {
  if (raw.vary == "batch") raw.invocation.vary = plan::Vary::kBatch;
  if (raw.vary == "length") raw.invocation.vary = plan::Vary::kLength;
  if (raw.vary == "rank") raw.invocation.vary = plan::Vary::kRank;
  raw.invocation.keep = groups_of(raw.keep);
  const auto& keep = raw.invocation.keep;
  const bool keeps_precision = std::find(keep.begin(), keep.end(), "precision") != keep.end();
  if (keeps_precision && config::rounds_weights_to_nearest(raw.invocation.config)) {
    throw UsageError("--keep precision: weights in BF16 that are rounded to nearest are never advised",
                     "set master_weights=stochastic or fp32, or let the precision vary");
  }
  if (raw.bound.empty()) return;
  try {
    raw.invocation.config.memory_budget = parse_bytes(raw.bound);
  } catch (const Error& error) {
    throw UsageError(std::string("--budget: ") + error.what());
  }
  expect_size("--budget", raw.bound, raw.invocation.config.memory_budget);
}

double number_of(const std::string& text, const char* where) {
  if (text == "pi") return std::numbers::pi;
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size()) return number;
  const bool range = error == std::errc::result_out_of_range;
  throw UsageError(std::string(where) + (range ? ": outside the range of FP64: '" : ": expected a number, got '") +
                       text.substr(0, 64) + "'",
                   range ? "" : "numbers are written like 3.14, -1e-8, 70000, inf, nan or pi");
}

void read_formats(RawCommand& raw) {
  for (const std::string& text : raw.numbers) raw.invocation.numbers.push_back(number_of(text, "formats"));
  if (raw.numbers.empty()) raw.invocation.numbers = {std::numbers::pi, 0.1, 70000};
  if (raw.largest.empty()) return;
  const double largest = number_of(raw.largest, "--largest");
  raw.invocation.largest = largest;
  bool covers = std::isfinite(static_cast<float>(largest)) && largest > 0;
  for (const double number : raw.invocation.numbers) covers = covers && !(std::abs(number) > largest);
  if (!covers)
    throw UsageError("--largest: expected a number above 0 that no other exceeds, got '" + raw.largest + "'");
}

// How prompts are put to the model, told where that is not as they stand.
data::PromptForm prompt_form_of(const RawCommand& raw, const UsedModel& used,
                                const std::optional<config::RunConfig>& run) {
  using data::PromptForm;
  if (raw.prompt_format == "alpaca") return PromptForm::kAlpaca;
  if (raw.prompt_format == "chat") return PromptForm::kChat;
  if (raw.prompt_format == "plain" || raw.invocation.chat || !run) return PromptForm::kPlain;
  const std::string where = used.run.parent_path().string();
  const auto form = data::prompt_form_of(*run);
  if (!form) {
    log_warning("the data of " + where +
                " cannot be read, so that prompts are taken as they stand; if it was trained "
                "on instructions or conversations, add --prompt-format alpaca or chat");
  } else if (*form != PromptForm::kPlain) {
    const std::string words = *form == PromptForm::kAlpaca ? "inside alpaca's words" : "by the chat template";
    log_info("prompts are put as " + where + " was trained, " + words + "; --prompt-format plain: as they stand");
  }
  return form.value_or(PromptForm::kPlain);
}

void refuse_bare_prompts(const std::vector<std::string>& overrides) {
  for (const std::string& text : overrides) {
    const size_t end = text.find_first_of("= ");
    if (end != std::string::npos && text[end] == '=') continue;
    throw UsageError("generate: expected key=value, got '" + text.substr(0, 64) + "'",
                     "a prompt stands behind --prompt, an option's value behind its name");
  }
}

// The model that `generate` or `logits` is to use.
void read_used_model(RawCommand& raw) {
  Invocation& invocation = raw.invocation;
  if (invocation.command == "generate") refuse_bare_prompts(raw.overrides);
  UsedModel used = find_used_model(raw.subject);
  if (!used.adapter.empty() && !invocation.adapter.empty()) {
    throw UsageError("--adapter " + invocation.adapter.string() + " beside " + raw.subject + ", which is an adapter",
                     "leave --adapter out, or name the base model before it");
  }
  const std::string model = used.model;
  if (!invocation.adapter.empty()) used = find_used_model(invocation.adapter.string(), /*with_base=*/false);
  const std::optional<config::RunConfig> run = run_behind(used);
  const bool is_subjects = invocation.adapter.empty();
  if (is_subjects) invocation.adapter = used.adapter;
  invocation.config =
      config::config_of_model(model, run && is_subjects ? with_storage_of(*run, raw.overrides) : raw.overrides);
  if (invocation.command == "generate") invocation.prompt_form = prompt_form_of(raw, used, run);
}

// What a run trained, on what it is evaluated on; a model that belongs to none, on what the command line names.
void read_evaluated_folder(RawCommand& raw) {
  Invocation& invocation = raw.invocation;
  const UsedModel used = find_used_model(raw.subject);
  if (used.run.empty()) {
    invocation.config = config::config_of_model(used.model, raw.overrides, config::Purpose::kEvaluate);
    if (invocation.adapter.empty()) invocation.adapter = used.adapter;
    return;
  }
  std::vector<std::string> overrides = raw.overrides;
  overrides.insert(overrides.begin(), "model_name_or_path=" + used.model);
  if (used.adapter.empty()) overrides.emplace_back("random_init=false");
  if (invocation.adapter.empty()) invocation.adapter = used.adapter;
  invocation.config = config::load_config(used.run, overrides, config::Purpose::kEvaluate);
}

void read_config(RawCommand& raw) {
  Invocation& invocation = raw.invocation;
  const std::string& command = invocation.command;
  if (command == "train") invocation.config = config::load_config(raw.subject, raw.overrides, config::Purpose::kTrain);
  if (command == "eval" && std::filesystem::is_directory(raw.subject)) {
    read_evaluated_folder(raw);
  } else if (command == "eval") {
    invocation.config = config::load_config(raw.subject, raw.overrides, config::Purpose::kEvaluate);
  }
  if (command == "preview") {
    invocation.config = config::load_config(raw.subject, raw.overrides, config::Purpose::kEstimate);
  }
  const bool plans = command == "estimate" || command == "advise";
  if (plans) {
    const std::optional<std::string> model = model_of(raw.subject, command == "estimate");
    invocation.model_alone = model.has_value();
    if (model) raw.subject = *model;
  }
  if (plans && !invocation.model_alone) {
    invocation.config = config::load_config(raw.subject, raw.overrides, config::Purpose::kEstimate);
    plan_without_model(invocation.config);
  }
  if (command == "generate" || command == "logits") read_used_model(raw);
  if (invocation.model_alone || command == "quantize") {
    invocation.config = config::config_of_model(raw.subject, raw.overrides);
  }
  refuse_no_model(command, invocation.config.model_name_or_path);
  if (!raw.evaluated.empty()) invocation.config.validation_file = {raw.evaluated};
}

}  // namespace

bool is_parameter_count(const std::string& subject) { return parameters_of(subject) > 0; }

Invocation complete(RawCommand& raw) {
  Invocation& invocation = raw.invocation;
  invocation.subject = raw.subject;
  if (raw.calibrate) {
    invocation.command = "calibrate";
    invocation.phantom_gpu = gpu_of(raw.phantom_gpu, "");
    return invocation;
  }
  if (invocation.command == "answer-overhead") {
    if (raw.math) invocation.config.attn_implementation = config::Attention::kMath;
    if (raw.lora) invocation.config.method = config::Method::kLora;
    invocation.phantom_gpu = gpu_of(raw.phantom_gpu, "");
    invocation.device = config::Device::kCuda;
    return invocation;
  }
  if (invocation.command == "formats") read_formats(raw);
  for (const char* command : {"inspect", "doctor", "report", "export", "formats", "list"}) {
    if (invocation.command == command) return invocation;
  }
  if (invocation.command == "estimate") {
    invocation.parameters = parameters_of(raw.subject);
    if (invocation.parameters > 0) return invocation;
    invocation.budget.tokens = count_of("tokens", raw.tokens);
    invocation.budget.gpu_hours = count_of("gpu-hours", raw.gpu_hours);
    if (invocation.budget.price_per_hour && !std::isfinite(*invocation.budget.price_per_hour)) {
      throw UsageError("--price-per-hour: expected a number of dollars");
    }
  }
  read_config(raw);
  if (invocation.command == "preview") return invocation;
  invocation.phantom_gpu = gpu_of(raw.phantom_gpu, raw.gpu_memory);
  if (invocation.command == "answer-plan") invocation.phantom_gpu = raw.answering_gpu;
  invocation.gpu = gpu_of(raw.gpu, raw.gpu_memory);
  const bool asks_of_a_plan = !raw.overrides.empty() || invocation.gpu || invocation.placements || invocation.explain ||
                              invocation.json || !invocation.page.empty();
  invocation.price_alone = invocation.budget.gpu_hours && invocation.model_alone && !asks_of_a_plan;
  if (invocation.command == "advise") read_advise(raw);
  if (invocation.command == "logits") invocation.ids = parse_ids(raw.ids);
  if (invocation.command == "generate") {
    check_generation(invocation);
    if (!invocation.chat) invocation.prompts = read_prompts(raw);
  }
  invocation.device = device_of(invocation);
  return invocation;
}

}  // namespace fathom::app
