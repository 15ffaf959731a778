// Options that several commands share, and what their words name.
#pragma once

#include "app/invocation.h"
#include "app/words/used_model.h"
#include "config/load.h"

namespace fathom::app {

inline Option json_option(bool& json) { return {"--json", json, "", "One JSON object on stdout and nothing else"}; }

// A config or a model, and key=value behind all options.
struct ConfigWords {
  std::string subject;
  std::vector<std::string> overrides;

  Option subject_option(const char* name, const char* help) { return Option(name, subject, "", help).require(); }
  Option overrides_option() {
    return {"overrides", overrides, "key=value", "Config keys, in place of the file's or the defaults"};
  }
  // --gpus: of the config, num_processes. Throws UsageError where the words say another number.
  void plan_processes(int64_t gpus);
  // Of the file that `subject` names, or of the model and no file, for this command. given: the keys that have a value.
  config::RunConfig read(const char* command, config::Purpose purpose, std::set<std::string>* given = nullptr) const;
};

// A GPU of configs/gpus.yaml, and memory in place of its own.
struct GpuWords {
  std::string name, memory;

  Option name_option(const char* option, const char* help) { return {option, name, "NAME", help}; }
  Option memory_option(const char* used) {
    return Option("--gpu-memory", memory, "SIZE", "Memory in place of that GPU's, as 24GiB")
        .used_only(!name.empty(), used);
  }
  std::optional<config::GpuSpec> find() const;  // nothing where no GPU is named
};

// The size that an option's text says. Throws UsageError for none, for one that no memory has, and for a number without
// its unit, which would be so many bytes.
int64_t size_of(const std::string& option, const std::string& text);

// Sets the device that the run uses on this machine, or pretends to, and whether it takes fathom's own kernels there.
void choose_device(Invocation& invocation);

// strategy: auto is ddp for one process, which has no others to share the model with.
void take_ddp_alone(config::RunConfig& config);

// Sets the config of a command that plans a run, or what a model alone would take; true for the latter.
bool read_planned(const ConfigWords& words, bool takes_numbers, Invocation& invocation);

// A command that uses a model, and how.
class ModelUse : public Invocation {
 public:
  using Invocation::Invocation;
  Option adapter_option() { return {"--adapter", adapter, "DIR", "A folder with adapter_config.json"}; }
  Option activations_option() {
    return Option("--activations", activations, "none|int8",
                  "int8: the layers' projections and what they multiply in INT8")
        .one_of({"none", "int8"});
  }

  std::filesystem::path adapter;  // a folder with adapter_config.json; empty: none
  std::string activations;        // int8: products of INT8 by INT8 in the decoder's layers
  uint64_t seed = 42;
};

// The model that the words and --adapter name: sets the command's config and adapter.
struct FoundModel {
  UsedModel used;
  std::optional<config::RunConfig> run;  // that made it, if its config.yaml is there
};
FoundModel find_model(const ConfigWords& words, ModelUse& use);

}  // namespace fathom::app
