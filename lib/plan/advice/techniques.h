// Ways to train with more or less memory, as rows of one table: the search combines them, remedies name them one by
// one.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "arch/run.h"
#include "config/run_config.h"
#include "plan/plan.h"

namespace fathom::plan {

// When a search comes to a technique: to those of a later turn where nothing fits without, or where they are clearly
// faster. What the run has already is of the first.
enum class Turn {
  kFirst,
  kUntried,  // no GPU has run it yet (plan/advice/memory_keys.h)
  kLast,     // small savings that cost more than a search reckons with
};

struct Technique {
  std::string group;  // a run has one technique of each group: "precision"
  std::string name;   // "BF16 autocast"; empty: nothing to speak of
  std::string note;   // what it changes besides memory and time
  // The run with it, equal to the run that has it already; nullopt where the rest of the run excludes it.
  std::function<std::optional<config::RunConfig>(const config::RunConfig&)> apply;
  Turn turn = Turn::kFirst;
};

// What `fathom advise` can keep as it is.
inline constexpr const char* kGroups[] = {"method",  "precision", "optimizer", "checkpointing", "attention",
                                          "updates", "host",      "strategy",  "batch"};

// The 16 bits that a run may turn to: FP16 where it has them or where the GPU has no BF16.
DType narrow_type(const config::RunConfig& run, const Target& target);

// What a run changes about another's updates, the least first: nothing, the digits that states are kept in, that
// gradients are no longer clipped (with such states or without), or the rule itself.
enum class UpdateChange { kNone, kRounded, kUnclipped, kAnother };
UpdateChange update_change(const config::RunConfig& from, const config::RunConfig& to);

// All rows that make sense for the run and its model, which may be stored quantized, in the order in which groups are
// applied: method, precision, optimizer, checkpointing, attention, loss, evaluation, graphs, updates, host, strategy,
// batch. Those of `host` are a GPU's. The rows of `strategy` are of a run of several processes: what each holds of the
// model; a copy in each node too where the target says how many GPUs a node has. The rows of `batch` split the run's
// effective batch, smallest micro-batch first, and let through only runs whose keys do not exclude each other.
std::vector<Technique> techniques(const arch::Run& run, const Target& target);

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
