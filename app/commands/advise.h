// `fathom advise` on the command line.
#pragma once

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>

#include "app/words/shared_options.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/writable.h"
#include "config/precision.h"
#include "plan/advice/search.h"

namespace fathom::app {

class Advise final : public Invocation {
 public:
  Advise() : Invocation("advise", "What fits: the largest batch, length or rank, or the fastest settings") {}
  std::vector<Option> options() override {
    return {
        words.subject_option("CONFIG|MODEL",
                             "A YAML file, a folder with config.json, a .json file, or a known model (llama-2-7b)"),
        {"--budget", bound, "SIZE", "Of memory, as 24GiB; without it memory_budget, or what the device has"},
        within.name_option("--gpu", "Within the memory of a GPU of configs/gpus.yaml"),
        within.memory_option("with --gpu NAME"),
        Option("--host-memory", host, "SIZE",
               "That may lie in the host's for a GPU, pinned; without it what is free here, or, of another machine, "
               "twice the GPU's and at least 48GiB"),
        Option("--gpus", gpus, "N", "So many processes, a GPU each: what each holds of the model is searched too")
            .within(1, 1024)
            .used_only(!within.name.empty(), "with --gpu NAME"),
        Option("--vary", varied, "WHAT",
               "batch, length, rank: its largest value; gpus: how many; techniques: the fastest combination")
            .one_of({"batch", "length", "rank", "gpus", "techniques"}),
        Option("--keep", kept, "GROUP,...",
               "Techniques that stay: method, precision, optimizer, checkpointing, attention, updates, host, strategy, "
               "batch")
            .used_only(varied == "techniques" || varied == "gpus",
                       "with --vary techniques or gpus: with one setting varied, all others stay"),
        Option("--write", written, "FILE.yaml", "Also the answer as a config for `train`, with the reason of each line")
            .used_only(varied == "techniques", "with --vary techniques"),
        Option("--overwrite", overwrites, "", "Also over a file that is there")
            .used_only(!written.empty(), "with --write"),
        json_option(json),
        words.overrides_option()};
  }
  void complete() override {
    gpu = within.find();
    if (gpus && varied == "gpus")
      throw UsageError("--gpus beside --vary gpus, which tries 1 to 64", "remove one of them");
    if (gpus) words.plan_processes(*gpus);
    is_model = read_planned(words, /*takes_numbers=*/false, *this);
    if (varied != "gpus") take_ddp_alone(config);
    refuse_auto_strategy();
    if (varied == "batch") vary = plan::Vary::kBatch;
    if (varied == "length") vary = plan::Vary::kLength;
    if (varied == "rank") vary = plan::Vary::kRank;
    if (!host.empty()) host_bytes = size_of("--host-memory", host);
    read_groups();
    try_written();
    if (keep.contains("precision") && config::rounds_weights_to_nearest(config)) {
      throw UsageError("--keep precision: weights in BF16 that are rounded to nearest are never advised",
                       "set master_weights=stochastic or fp32, or let the precision vary");
    }
    read_bound();
    choose_device(*this);
  }

  ConfigWords words;
  GpuWords within;
  std::string bound, varied = "techniques", kept;  // kept: names with commas between
  std::string host;
  std::optional<int64_t> host_bytes;  // that may be pinned; unset: see Planner
  std::optional<int64_t> gpus;        // processes; unset: as the config says
  std::optional<plan::Vary> vary;     // the setting whose largest value is asked for; unset: techniques
  std::set<std::string> keep;         // groups of techniques that stay as the run has them
  bool is_model = false;              // the subject, and no config
  std::filesystem::path written;      // for the answer; empty: none
  bool overwrites = false;            // a file that is there
  bool json = false;

 private:
  // So that no search ends at a file that cannot be.
  void try_written() const {
    if (written.empty()) return;
    if (!overwrites && std::filesystem::exists(written)) {
      throw UsageError("--write " + written.string() + ": the file is there", "name another, or add --overwrite");
    }
    require_writable(written);
  }
  void read_groups() {
    std::istringstream groups(kept);
    for (std::string group; std::getline(groups, group, ',');) {
      if (std::find(std::begin(plan::kGroups), std::end(plan::kGroups), group) == std::end(plan::kGroups)) {
        std::string known;
        for (const char* each : plan::kGroups) known += std::string(known.empty() ? "" : ", ") + each;
        throw UsageError("--keep: unknown group '" + group.substr(0, 64) + "'", "groups are " + known);
      }
      keep.insert(group);
    }
  }
  // Beside what is searched stands the run as it is, with one strategy.
  void refuse_auto_strategy() const {
    if (config.strategy != config::Strategy::kAuto) return;
    throw UsageError("strategy: auto leaves open from what `advise` is to begin",
                     "set strategy=ddp or strategy=fsdp: where techniques vary, it looks at the other too");
  }
  void read_bound() {
    if (!bound.empty()) config.memory_budget = size_of("--budget", bound);
  }
};

}  // namespace fathom::app
