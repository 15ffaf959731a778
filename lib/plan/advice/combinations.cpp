// Applies one technique of each group after the other.
#include "plan/advice/combinations.h"

#include <algorithm>

#include "plan/advice/remedies.h"
#include "plan/estimate/analytic.h"
#include "plan/host.h"
#include "plan/time/communication.h"
#include "schedule/inputs.h"

namespace fathom::plan {

using config::RunConfig;

Combinations::Combinations(const Question& question, const std::set<std::string>& keep) : question_(question) {
  for (Technique& row : techniques(question.run, question.target)) {
    const auto changed = row.apply(question.run.config);
    if (keep.count(row.group) > 0 && changed != question.run.config) continue;
    if (groups_.empty() || groups_.back().front().group != row.group) groups_.emplace_back();
    groups_.back().push_back(std::move(row));
  }
}

std::vector<Family> Combinations::of_turn(Turn turn) {
  families_.clear();
  combine(turn, {}, question_.run.config, groups_.begin(), Turn::kFirst);
  return std::move(families_);
}

void Combinations::combine(Turn turn, Family chosen, const RunConfig& run, Groups::const_iterator group, Turn latest) {
  if (group->front().group == "batch") {
    if (latest == turn) add_batches(std::move(chosen), run, *group, turn);
    return;
  }
  for (const Technique& row : *group) {
    if (row.turn > turn) continue;
    const auto changed = row.apply(run);
    if (!changed) continue;
    Family longer = chosen;
    if (!row.name.empty()) longer.techniques.push_back(row.name);
    combine(turn, std::move(longer), *changed, std::next(group), std::max(latest, row.turn));
  }
}

void Combinations::add_batches(Family family, const RunConfig& run, const std::vector<Technique>& batches, Turn turn) {
  for (const Technique& row : batches) {
    const auto changed = row.apply(run);
    if (!changed) continue;
    std::vector<std::string> names = family.techniques;
    names.push_back(row.name);
    Combination each = combination(names, resolved(*changed));
    each.turn = turn;
    if (!question_.host_bytes || each.host_bytes <= *question_.host_bytes) family.batches.push_back(std::move(each));
  }
  if (!family.batches.empty()) families_.push_back(std::move(family));
}

Combination Combinations::combination(const std::vector<std::string>& techniques, const arch::Run& run) {
  Combination result;
  result.techniques = techniques;
  result.run = run.config;
  result.change = update_change(question_.run.config, run.config);
  result.host_bytes = offloaded_bytes(run);
  if (longest_.empty()) longest_ = question_.workload_of(run).steps;
  const schedule::BatchShape micro_batch = schedule::batch_of_longest(
      config::rows_of(run.config, run.config.per_device_train_batch_size), longest_, run.config.packing);
  const schedule::StepShape step(run.config.gradient_accumulation_steps, micro_batch);
  result.arithmetic = estimate_arithmetic(run, step);
  result.tokens = run.config.gradient_accumulation_steps * micro_batch.rows * micro_batch.length;
  const Slowdown slowdown = question_.slowdown ? question_.slowdown(run) : Slowdown{};
  const Arithmetic whole = result.arithmetic.whole();
  result.operations = slowdown.matrix * static_cast<double>(whole.matrix_flops) +
                      slowdown.attention * static_cast<double>(whole.attention_flops);
  if (question_.throughput) result.throughput = question_.throughput(run);
  if (!result.throughput) return result;
  result.host_traffic = host_traffic(run);
  const ExpectedTime time = expected_step_time(run, step, result.arithmetic, *result.throughput);
  result.seconds = time.seconds();
  result.exposed_seconds = time.exposed_seconds;
  result.host_seconds = time.host_seconds;
  const auto lack = lacks_.find(update_of(techniques));
  if (lack != lacks_.end()) set_seconds(result, lack->second);
  return result;
}

int64_t Combinations::formula(Combination& combination) const {
  if (combination.formula > 0) return combination.formula;
  const arch::Run run = resolved(combination.run);
  return combination.formula =
             estimate_analytic(run, target_of(question_.target, run), question_.workload_of(run)).peak;
}

void Combinations::correct_times(const Combination& played, std::vector<Family>& families) {
  if (!played.seconds || !played.proof->fits || !played.proof->arithmetic) return;
  const arch::Run run = resolved(played.run);
  const schedule::StepShape step = longest_step(run, question_.workload_of(run).steps);
  const double reckoned = computing_seconds(played, estimate_arithmetic(run, step));
  if (reckoned == 0) return;
  const Throughput speed = *speed_of(played.proof->throughput, played.throughput);
  const ExpectedTime counted = expected_step_time(run, step, *played.proof->arithmetic, speed);
  const Update update = update_of(played.techniques);
  const double lack = lacks_[update] = counted.computing().seconds() / reckoned;
  for (Family& family : families) {
    if (update_of(family.techniques) != update) continue;
    for (Combination& each : family.batches) {
      const bool known = each.proof && each.proof->fits && each.proof->arithmetic;
      if (&each == &played && played.proof->throughput) each.exposed_seconds = counted.exposed_seconds;
      if (!known || &each == &played) set_seconds(each, lack);
    }
  }
}

Combinations::Update Combinations::update_of(const std::vector<std::string>& techniques) {
  constexpr std::ptrdiff_t kOfUpdate = 3;  // the first names
  return {techniques.begin(), techniques.begin() + kOfUpdate};
}

double Combinations::computing_seconds(const Combination& combination, const StepArithmetic& arithmetic) {
  return expected_time(arithmetic, *combination.throughput).seconds();
}

void Combinations::set_seconds(Combination& combination, double lack) {
  combination.lack = lack;
  const double computing = lack * computing_seconds(combination, combination.arithmetic);
  if (combination.host_bytes > 0) {
    combination.host_seconds = exposed_host_seconds(combination.host_traffic, computing, *combination.throughput);
  }
  combination.seconds = computing + combination.exposed_seconds + combination.host_seconds;
}

}  // namespace fathom::plan
