// The combination of techniques that fits and takes least time.
#include <algorithm>
#include <map>

#include "plan/analytic.h"
#include "plan/communication.h"
#include "plan/remedies.h"
#include "plan/search.h"
#include "plan/techniques.h"
#include "schedule/inputs.h"

namespace fathom::plan {
namespace {

using config::RunConfig;

// Faster combinations within this share above the bound are dry-run too: the formula may be wrong about them.
constexpr double kDoubt = 0.05;
constexpr int kOfUpdate = 3;          // the first techniques of a combination: method, precision, optimizer
constexpr size_t kAhead = 2;          // runs that are played side by side: a proof may make the next needless
constexpr int64_t kMostDryRuns = 40;  // and one for the smallest, where none of these fits

// One choice of every group but the batch; its micro-batches grow, and with them memory.
struct Family {
  std::vector<std::string> techniques;
  std::vector<Combination> batches;  // smallest first
  size_t fitting = 0;                // the first so many fit, by proof or by the formula that the last proof put right
};

bool uses_seconds(const std::vector<Family>& families) {
  return std::all_of(families.begin(), families.end(), [](const Family& family) {
    return std::all_of(family.batches.begin(), family.batches.end(),
                       [](const Combination& each) { return each.seconds.has_value(); });
  });
}

class TechniqueSearch {
 public:
  TechniqueSearch(const Question& question, const std::set<std::string>& keep) : question_(question) {
    group(keep);
    combine({}, question.run, groups_.begin());
    by_seconds_ = uses_seconds(families_);
    count_fitting();
  }

  Advice take() {
    while (advice_.dry_runs < kMostDryRuns) {
      Combination* open = doubtful();
      const bool settled = open == nullptr;
      if (settled) open = unplayed_row();
      if (open == nullptr) break;
      announce(settled);
      prove(*open, /*decides=*/!settled);
    }
    advice_.settled = doubtful() == nullptr;
    if (!advice_.settled) keep_proved();
    report();
    return std::move(advice_);
  }

 private:
  using Groups = std::vector<std::vector<Technique>>;

  void group(const std::set<std::string>& keep) {
    const DType narrow = narrow_type(question_.run, question_.target);
    for (Technique& row : techniques(question_.run, question_.architecture, narrow, question_.target.gpus_per_node)) {
      const auto changed = row.apply(question_.run);
      if (keep.count(row.group) > 0 && changed != question_.run) continue;
      if (groups_.empty() || groups_.back().front().group != row.group) groups_.emplace_back();
      groups_.back().push_back(std::move(row));
    }
  }

  void combine(const std::vector<std::string>& chosen, const RunConfig& run, Groups::const_iterator group) {
    if (group->front().group == "batch") {
      Family& family = families_.emplace_back();
      family.techniques = chosen;
      for (const Technique& row : *group) family.batches.push_back(combination(chosen, row, *row.apply(run)));
      return;
    }
    for (const Technique& row : *group) {
      const auto changed = row.apply(run);
      if (!changed) continue;
      std::vector<std::string> longer = chosen;
      longer.push_back(row.name);
      combine(longer, *changed, std::next(group));
    }
  }

  Combination combination(std::vector<std::string> names, const Technique& batch, const RunConfig& run) {
    Combination result;
    names.push_back(batch.name);
    result.techniques = std::move(names);
    result.run = run;
    result.change = update_change(question_.run.optim, run.optim);
    const schedule::BatchShape micro_batch =
        schedule::batch_of_longest(run.per_device_train_batch_size, longest_samples(run), run.packing);
    const schedule::StepShape step(run.gradient_accumulation_steps, micro_batch);
    result.arithmetic = estimate_arithmetic(question_.architecture, run, step);
    result.tokens = run.gradient_accumulation_steps * micro_batch.rows * micro_batch.length;
    const Slowdown slowdown = question_.slowdown ? question_.slowdown(run) : Slowdown{};
    const Arithmetic whole = result.arithmetic.whole();
    result.operations = slowdown.matrix * static_cast<double>(whole.matrix_flops) +
                        slowdown.attention * static_cast<double>(whole.attention_flops);
    const auto throughput = question_.throughput ? question_.throughput(run) : std::nullopt;
    if (throughput) {
      const ExpectedTime time = expected_step_time(question_.architecture, run, step, result.arithmetic, *throughput);
      result.seconds = time.seconds();
      result.exposed_seconds = time.exposed_seconds;
      result.host_seconds = time.host_seconds;
    }
    ++advice_.combinations;
    return result;
  }

  const std::vector<schedule::StepShape>& longest_samples(const RunConfig& run) {
    if (longest_.empty()) longest_ = question_.workload_of(run).steps;
    return longest_;
  }

  int64_t formula(Combination& combination) {
    if (combination.formula > 0) return combination.formula;
    const Target target = target_of(question_.target, combination.run, question_.architecture);
    combination.formula =
        estimate_analytic(question_.architecture, combination.run, target, question_.workload_of(combination.run)).peak;
    ++advice_.reckoned;
    return combination.formula;
  }

  // Bytes by proof, or by the formula and what the last proof says it lacks.
  double expected_need(Combination& combination) {
    if (combination.proof) return static_cast<double>(combination.proof->need);
    return static_cast<double>(formula(combination)) + static_cast<double>(offset_);
  }

  // The proofs bound what fits, since memory grows with the batch; between them the formula decides.
  void count_fitting() {
    for (Family& family : families_) {
      const auto first = family.batches.begin(), last = family.batches.end();
      const auto refused =
          std::find_if(first, last, [](const Combination& each) { return each.proof && !each.proof->fits; });
      auto open = first;
      for (auto each = first; each != refused; ++each) {
        if (each->proof) open = std::next(each);
      }
      const auto lets_in = [this](Combination& each) {
        return formula(each) <= question_.target.capacity_bytes - offset_;
      };
      const auto beyond = proofs_only_ ? open : std::partition_point(open, refused, lets_in);
      family.fitting = static_cast<size_t>(beyond - first);
    }
  }

  // By what changes about the update, which is nobody's to choose for a little time; then by time, then by bytes moved,
  // then by the larger micro-batch, which keeps hardware busier, then by the fewest changes to the run as it is.
  bool faster(const Combination& a, const Combination& b) const {
    if (a.change != b.change) return a.change < b.change;
    const auto time = [this](const Combination& each) { return by_seconds_ ? *each.seconds : each.operations; };
    if (time(a) != time(b)) return time(a) < time(b);
    const int64_t moved_by_a = a.arithmetic.whole().bytes_moved, moved_by_b = b.arithmetic.whole().bytes_moved;
    if (moved_by_a != moved_by_b) {
      return moved_by_a < moved_by_b;
    }
    if (a.run.per_device_train_batch_size != b.run.per_device_train_batch_size) {
      return a.run.per_device_train_batch_size > b.run.per_device_train_batch_size;
    }
    return settings_between(question_.run, a.run).size() < settings_between(question_.run, b.run).size();
  }

  Combination* fastest() {
    Combination* best = nullptr;
    for (Family& family : families_) {
      if (family.fitting == 0) continue;
      Combination& candidate = family.batches[family.fitting - 1];
      if (best == nullptr || faster(candidate, *best)) best = &candidate;
    }
    return best;
  }

  // The faster ones that are taken not to fit: the nearest in time, then all those within doubt.
  std::vector<Combination*> refused_before(const Combination& best) {
    std::vector<Combination*> refused;
    for (Family& family : families_) {
      if (family.fitting == family.batches.size()) continue;
      Combination& candidate = family.batches[family.fitting];
      if (faster(candidate, best)) refused.push_back(&candidate);
    }
    std::sort(refused.begin(), refused.end(), [this](auto* a, auto* b) { return faster(*b, *a); });
    const double doubtful = (1 + kDoubt) * static_cast<double>(question_.target.capacity_bytes);
    const auto clear = [&](Combination* each) { return expected_need(*each) > doubtful; };
    if (!refused.empty()) refused.erase(std::remove_if(refused.begin() + 1, refused.end(), clear), refused.end());
    return refused;
  }

  // What must be proved next before the answer is settled; nullptr: nothing.
  Combination* doubtful() {
    Combination* best = fastest();
    if (best == nullptr) {  // the last word where the formula lets nothing in
      Combination& least = smallest();
      return least.proof ? nullptr : &least;
    }
    if (!best->proof) return best;
    const std::vector<Combination*> refused = refused_before(*best);
    const auto open = std::find_if(refused.begin(), refused.end(), [](const auto* each) { return !each->proof; });
    return open == refused.end() ? nullptr : *open;
  }

  // What will be proved next, as far as can be foreseen: the fastest and its doubtful neighbours, or the rows.
  void announce(bool settled) {
    if (!question_.play_ahead) return;
    Combination* best = fastest();
    std::vector<Combination*> next = settled || best == nullptr ? shown() : refused_before(*best);
    if (best != nullptr) next.insert(next.begin(), best);
    std::vector<RunConfig> runs;
    for (const Combination* each : next) {
      if (!each->proof && runs.size() < kAhead) runs.push_back(each->run);
    }
    question_.play_ahead(runs);
  }

  // Of a search that ended unsettled: only what was proved to fit counts. Where that is nothing, the smallest of all
  // decides whether anything fits.
  void keep_proved() {
    proofs_only_ = true;
    count_fitting();
    if (fastest() == nullptr) prove(smallest(), /*decides=*/true);
    advice_.settled = fastest() == nullptr;
  }

  // Of several that need as much the one to choose.
  Combination& smallest() {
    return std::min_element(families_.begin(), families_.end(),
                            [this](Family& a, Family& b) {
                              Combination &first = a.batches.front(), &second = b.batches.front();
                              const int64_t less = formula(first), more = formula(second);
                              return less != more ? less < more : faster(first, second);
                            })
        ->batches.front();
  }

  // decides: and does not only make a row of the answer's table exact.
  void prove(Combination& combination, bool decides) {
    if (combination.proof) return;
    combination.proof = question_.prove(combination.run);
    ++advice_.dry_runs;
    correct_time(combination);
    if (decides) offset_ = combination.proof->need - formula(combination);
    count_fitting();
  }

  // The fastest of each method and precision that fit, the fastest first.
  std::vector<Combination*> shown() {
    std::map<std::pair<std::string, std::string>, Combination*> fastest_of;
    for (Family& family : families_) {
      if (family.fitting == 0) continue;
      Combination& candidate = family.batches[family.fitting - 1];
      Combination*& known = fastest_of[{family.techniques[0], family.techniques[1]}];
      if (known == nullptr || faster(candidate, *known)) known = &candidate;
    }
    std::vector<Combination*> rows;
    rows.reserve(fastest_of.size());
    for (const auto& [names, combination] : fastest_of) rows.push_back(combination);
    std::sort(rows.begin(), rows.end(), [this](const auto* a, const auto* b) { return faster(*a, *b); });
    return rows;
  }

  // Rows that stand beside each other are to be of one kind.
  Combination* unplayed_row() {
    const std::vector<Combination*> rows = shown();
    const auto open = std::find_if(rows.begin(), rows.end(), [](const auto* each) { return !each->proof; });
    return open == rows.end() ? nullptr : *open;
  }

  // By what the formula lacks for the step that was played (which with ragged data is not quite the one that is
  // compared), and so all that have the same method, precision and optimizer, until they are played themselves.
  void correct_time(Combination& combination) {
    if (!combination.seconds || !combination.proof->fits || !combination.proof->arithmetic) return;
    const RunConfig& run = combination.run;
    const schedule::StepShape step = longest_step(question_.architecture, run, question_.workload_of(run).steps);
    const double reckoned = seconds_of(run, estimate_arithmetic(question_.architecture, run, step));
    if (reckoned == 0) return;
    const double lack = seconds_of(run, *combination.proof->arithmetic) / reckoned;
    for (Family& family : families_) {
      const auto first = family.techniques.begin();
      if (!std::equal(first, first + kOfUpdate, combination.techniques.begin())) continue;
      for (Combination& each : family.batches) {
        const bool known = each.proof && each.proof->fits && each.proof->arithmetic;
        if (!known || &each == &combination) {
          each.seconds = lack * seconds_of(each.run, each.arithmetic) + each.exposed_seconds + each.host_seconds;
        }
      }
    }
  }

  // What is computed.
  double seconds_of(const RunConfig& run, const StepArithmetic& arithmetic) const {
    return expected_time(arithmetic, *question_.throughput(run)).seconds();
  }

  void report() {
    const Combination* best = fastest();
    if (best == nullptr) {
      advice_.smallest = smallest();
      return;
    }
    advice_.best = *best;
    const std::vector<Combination*> refused = refused_before(*best);
    if (!refused.empty()) advice_.next = *refused.front();
    for (const Combination* each : shown()) advice_.fitting.push_back(*each);
  }

  const Question& question_;
  Groups groups_;
  std::vector<Family> families_;
  Advice advice_;
  bool by_seconds_ = false;
  std::vector<schedule::StepShape> longest_;  // that the data have
  int64_t offset_ = 0;                        // dry run less formula, at the last dry run that was to decide
  bool proofs_only_ = false;                  // the formula no longer lets anything in
};

}  // namespace

Advice least_time_that_fits(const Question& question, const std::set<std::string>& keep) {
  return TechniqueSearch(question, keep).take();
}

}  // namespace fathom::plan
