// Plans with ddp, asks the others, and plans with fsdp if one of them has no room.
#include "app/run/strategy.h"

#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"
#include "config/checks.h"
#include "plan/bound.h"

namespace fathom::app {
namespace {

// "96.20 GiB of 79.10 GiB"
std::string of_capacity(int64_t bytes, const plan::Target& target) {
  return format_bytes(bytes) + " of " + format_bytes(target.capacity_bytes);
}

std::string name_of(size_t rank, const dist::Group* group) {
  return group != nullptr ? "rank " + std::to_string(rank) : std::string("a rank");
}

// "with ddp a rank would need 96.20 GiB of 79.10 GiB", of the first rank that has no room for the run; empty: all have.
std::string why_not_ddp(const plan::Plan& plan, dist::Group* group) {
  const int64_t missing = plan::missing_bytes(plan);
  const std::string mine = missing > 0 ? of_capacity(plan.target.capacity_bytes + missing, plan.target) : "";
  const std::vector<std::string> all = group != nullptr ? group->gather(mine) : std::vector<std::string>{mine};
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty()) continue;
    return "with ddp " + name_of(rank, group) + " would need " + all[rank];
  }
  return "";
}

// The rules between keys are those of the config's strategy, which was not known when it was read.
void refuse_what_fsdp_does_not_take(const config::RunConfig& run, const std::string& why) {
  config::Problems problems("");
  config::check_together(run, {}, config::Purpose::kEstimate, problems);
  try {
    problems.throw_if_any();
  } catch (const UsageError& error) {
    throw UsageError("strategy: auto cannot take fsdp, and " + why + ": " + error.what());
  }
}

}  // namespace

Planned plan_with_strategy(arch::Run run, dist::Group* group, const PlanRun& plan) {
  const auto planned = [&plan](arch::Run candidate) {
    plan::Plan made = plan(candidate);
    return Planned{std::move(candidate), std::move(made)};
  };
  if (run.config.strategy != config::Strategy::kAuto) return planned(std::move(run));
  Planned whole = planned(arch::resolve(with_strategy(run.config, config::Strategy::kDdp), run.architecture));
  const std::string why = why_not_ddp(whole.plan, group);
  if (why.empty()) {
    log_info("strategy: auto takes ddp: with it " + name_of(0, group) + " needs " +
             of_capacity(plan::needed_bytes(whole.plan), whole.plan.target));
    return whole;
  }
  const config::RunConfig shared = with_strategy(run.config, config::Strategy::kFsdp);
  refuse_what_fsdp_does_not_take(shared, why);
  log_info("strategy: auto takes fsdp: " + why);
  return planned(arch::resolve(shared, run.architecture));
}

config::RunConfig with_strategy(config::RunConfig config, config::Strategy strategy) {
  config.strategy = strategy;
  return config;
}

}  // namespace fathom::app
