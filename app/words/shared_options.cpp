// Looks up the configs, GPUs, devices and models that words of a command line name.
#include "app/words/shared_options.h"

#include "app/installation.h"
#include "app/machine.h"
#include "app/words/known_models.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"
#include "phantom_gpu/gpu.h"
#include "weights/hub.h"

namespace fathom::app {
namespace {

bool is_yaml(const std::filesystem::path& path) { return path.extension() == ".yaml" || path.extension() == ".yml"; }

// The model that is planned for: a folder, a .json file, a name of configs/models, or one on the Hugging Face hub;
// nothing for a config.
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
  refuse_others(subject);
  throw UsageError(
      "'" + subject.substr(0, 64) + "' is neither a file or folder nor a known model",
      how_models_are_named(subject) + (takes_numbers ? "; a number of parameters is written like 7B" : ""));
}

// Whether the word names a model where a config's file may stand too: a folder, or no file at all but a name. Throws
// UsageError for names of models that no family here computes.
bool names_model(const std::string& subject) {
  const std::filesystem::path path = subject;
  std::error_code absent;
  if (std::filesystem::is_directory(path, absent)) return true;
  if (std::filesystem::exists(path, absent) || is_yaml(path) || path.extension() == ".jsonl") return false;
  refuse_others(subject);
  return weights::is_hub_name(subject) || known_model(subject).has_value();
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

// Whether the run uses a GPU on this machine, or pretends to.
bool is_on_gpu(const Invocation& invocation) {
  const config::Device wanted = invocation.config.device;
  if (invocation.phantom_gpu) {
    if (wanted != config::Device::kCpu) return true;
    throw UsageError("--phantom-gpu plays a CUDA run, but the config says device: cpu", "add device=cuda");
  }
  if (wanted == config::Device::kCpu || invocation.gpu) return false;
  const bool there = !this_gpus().empty();
  if (wanted == config::Device::kCuda && !there) {
    throw UsageError(
        "the config says device: cuda, but NVIDIA's driver lists no GPU here",
        "set device=cpu; without a GPU, `train --phantom-gpu NAME` plays the run and `estimate --gpu NAME` plans it");
  }
  return there;
}

}  // namespace

void ConfigWords::plan_processes(int64_t gpus) {
  const std::string count = std::to_string(gpus);
  for (const std::string& word : overrides) {
    const std::string key = "num_processes=";
    if (word == key + count) return;
    if (word.starts_with(key)) {
      throw UsageError("--gpus " + count + " beside " + word + ", which is the same", "leave one of them out");
    }
  }
  overrides.push_back("num_processes=" + count);
}

config::RunConfig ConfigWords::read(const char* command, config::Purpose purpose, std::set<std::string>* given) const {
  const bool is_model = names_model(subject);
  if (is_model) {
    find_used_model(subject, /*with_base=*/false);
    refuse_no_model(command, subject);
  }
  config::RunConfig config = is_model ? config::config_of_model(subject, overrides, purpose, given)
                                      : config::load_config(subject, overrides, purpose, given);
  refuse_no_model(command, config.model_name_or_path);
  return config;
}

std::optional<config::GpuSpec> GpuWords::find() const {
  if (name.empty()) return std::nullopt;
  config::GpuSpec gpu = config::find_gpu(config::load_gpus(gpus_file()), name);
  if (!config::is_supported(gpu.compute_capability)) {
    throw UsageError(gpu.name + " has compute capability " + gpu.compute_capability +
                         ", for which LibTorch 2.11 with CUDA 13 has no kernels: they begin with 7.5",
                     "plan for a T4 or a newer GPU");
  }
  if (!memory.empty()) gpu.memory_bytes = size_of("--gpu-memory", memory);
  return gpu;
}

int64_t size_of(const std::string& option, const std::string& text) {
  constexpr int64_t kLeast = kMiB, kMost = phantom_gpu::kUnlimitedBytes;
  try {
    const int64_t bytes = parse_bytes(text);
    if (bytes >= kLeast && bytes <= kMost) return bytes;
  } catch (const Error&) {  // which says of the text alone what follows
  }
  throw UsageError(option + ": expected a size from 1 MiB to 8 TiB, got '" + text.substr(0, 64) + "'",
                   "write a number and a unit: 24GiB, 80GB");
}

void choose_device(Invocation& invocation) {
  if (is_on_gpu(invocation)) invocation.device = config::Device::kCuda;
  std::optional<bool>& own_kernels = invocation.config.cuda_kernels;
  if (own_kernels || !(invocation.gpu || invocation.device == config::Device::kCuda)) return;
  own_kernels = std::filesystem::exists(cuda_kernels_file());
  invocation.chose_kernels = true;
  if (!*own_kernels) log_warning("fathom was built without nvcc: LibTorch's operators run in place of its own kernels");
}

void take_ddp_alone(config::RunConfig& config) {
  if (config.num_processes == 1 && config.strategy == config::Strategy::kAuto) config.strategy = config::Strategy::kDdp;
}

bool read_planned(const ConfigWords& words, bool takes_numbers, Invocation& invocation) {
  const std::optional<std::string> model = model_of(words.subject, takes_numbers);
  if (model) {
    invocation.config = config::config_of_model(*model, words.overrides);
  } else {
    invocation.config = config::load_config(words.subject, words.overrides, config::Purpose::kEstimate);
    plan_without_model(invocation.config);
  }
  refuse_no_model(invocation.name, invocation.config.model_name_or_path);
  return model.has_value();
}

FoundModel find_model(const ConfigWords& words, ModelUse& use) {
  UsedModel used = find_used_model(words.subject);
  if (!used.adapter.empty() && !use.adapter.empty()) {
    throw UsageError("--adapter " + use.adapter.string() + " beside " + words.subject + ", which is an adapter",
                     "leave --adapter out, or name the base model before it");
  }
  const std::string model = used.model;
  const bool is_subjects = use.adapter.empty();
  if (!is_subjects) used = find_used_model(use.adapter.string(), /*with_base=*/false);
  const std::optional<config::RunConfig> run = run_behind(used);
  if (is_subjects) use.adapter = used.adapter;
  use.config =
      config::config_of_model(model, run && is_subjects ? with_storage_of(*run, words.overrides) : words.overrides);
  refuse_no_model(use.name, use.config.model_name_or_path);
  return {used, run};
}

}  // namespace fathom::app
