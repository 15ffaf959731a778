// Ways to train with more or less memory, as rows of one table: the search combines them, remedies name them one by
// one.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "arch/architecture.h"
#include "config/run_config.h"
#include "plan/plan.h"

namespace fathom::plan {

struct Technique {
  std::string group;  // a run has one technique of each group: "precision"
  std::string name;   // "BF16 autocast"
  std::string note;   // what it changes besides memory and time
  // The run with it, equal to the run that has it already; nullopt where the rest of the run excludes it.
  std::function<std::optional<config::RunConfig>(const config::RunConfig&)> apply;
};

// What `fathom advise` can keep as it is.
inline constexpr const char* kGroups[] = {"method",    "precision", "optimizer", "checkpointing",
                                          "attention", "strategy",  "batch"};

// The 16 bits that a run may turn to: FP16 where it has them or where the GPU has no BF16.
DType narrow_type(const config::RunConfig& run, const Target& target);

// What another optimizer changes about what is learned: nothing but the digits that states are kept in, or the update
// itself.
enum class UpdateChange { kNone, kRounded, kAnother };
UpdateChange update_change(config::Optimizer from, config::Optimizer to);

// All rows that make sense for the run and its model, which may be stored quantized, in the order in which groups are
// applied: method, precision, optimizer, checkpointing, attention, loss, strategy, batch. narrow: see narrow_type. The
// rows of `strategy` are of a run of several processes: what each holds of the model; a copy in each node too where
// gpus_per_node is known. The rows of `batch` split the run's effective batch, smallest micro-batch first.
std::vector<Technique> techniques(const config::RunConfig& run, const arch::Architecture& architecture, DType narrow,
                                  int64_t gpus_per_node = 0);

// The run with the whole model in each of its processes.
config::RunConfig with_whole_models(config::RunConfig run);
// The run in so many processes, without what one alone can do.
config::RunConfig with_processes(config::RunConfig run, int64_t processes);
// The run in so many processes that share its model, where that can be: its optimizer's states can be divided.
std::optional<config::RunConfig> with_shares(config::RunConfig run, int64_t processes);

// The settings that make `from` into `to`, as the command line takes them: {"method=lora", "bf16=true"}. Keys that mean
// nothing in `to` are left out.
std::vector<std::string> settings_between(const config::RunConfig& from, const config::RunConfig& to);

}  // namespace fathom::plan
