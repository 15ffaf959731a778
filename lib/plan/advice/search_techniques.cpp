// The combination of techniques that fits and takes least time.
#include <algorithm>
#include <map>

#include "plan/advice/combinations.h"

namespace fathom::plan {
namespace {

using config::RunConfig;

// Faster combinations within this share above the bound are dry-run too: the formula may be wrong about them.
constexpr double kDoubt = 0.05;
constexpr size_t kAhead = 2;                    // runs that are played side by side: a proof may make the next needless
constexpr int64_t kMostDryRuns = 40;            // of a turn, and one for the smallest, where none of these fits
constexpr int64_t kAlike = int64_t{256} << 20;  // of room: the faster of two runs is taken
constexpr int64_t kMostAlike = 8;               // runs that are played for that

bool uses_seconds(const std::vector<Family>& families) {
  return std::all_of(families.begin(), families.end(), [](const Family& family) {
    return std::all_of(family.batches.begin(), family.batches.end(),
                       [](const Combination& each) { return each.seconds.has_value(); });
  });
}

class TechniqueSearch {
 public:
  TechniqueSearch(const Question& question, const std::set<std::string>& keep)
      : question_(question), combinations_(question, keep) {}

  Advice take() {
    Advice answer = of_turn(Turn::kFirst);
    for (const Turn turn : {Turn::kUntried, Turn::kLast}) {
      if (turn == Turn::kLast && keeps_rule(answer.best)) break;
      than_ = answer.best;
      answer = better(std::move(answer), of_turn(turn));
    }
    return answer;
  }

  Advice take_roomiest() {
    for (const Turn turn : {Turn::kFirst, Turn::kUntried, Turn::kLast}) take_families(turn);
    by_seconds_ = uses_seconds(families_);
    advice_.by_room = true;
    for (const bool another : {false, true}) {
      const std::vector<Combination*> alike = smallest_alike(another);
      if (alike.empty()) continue;
      Combination& least = *alike.front();
      prove(least, /*decides=*/true);
      if (!advice_.smallest || least.proof->need < advice_.smallest->proof->need) advice_.smallest = least;
      if (!least.proof->fits) continue;
      advice_.smallest.reset();
      advice_.best = fastest_of(alike);
      advice_.fitting = {*advice_.best};
      break;
    }
    return std::move(advice_);
  }

 private:
  static bool keeps_rule(const std::optional<Combination>& answer) {
    return answer && answer->change != UpdateChange::kAnother;
  }

  // The combinations whose latest technique is of the turn.
  Advice of_turn(Turn turn) {
    turn_ = turn;
    advice_ = {};
    families_.clear();
    take_families(turn);
    if (families_.empty()) return std::move(advice_);
    by_seconds_ = uses_seconds(families_);
    count_fitting();
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
    proofs_only_ = false;
    return std::move(advice_);
  }

  // Of the answer of the turns before and that of the next, which has come to be better if it is there at all.
  static Advice better(Advice answer, Advice next) {
    const auto counted = [](Advice result, const Advice& other) {
      result.combinations += other.combinations;
      result.reckoned += other.reckoned;
      result.dry_runs += other.dry_runs;
      return result;
    };
    if (!next.best) {
      const auto need = [](const Combination& each) { return each.proof ? each.proof->need : each.formula; };
      const bool first = answer.smallest && !answer.smallest_tried;
      if (first) answer.smallest_tried = answer.smallest;
      if (answer.smallest && next.smallest && need(*next.smallest) < need(*answer.smallest)) {
        answer.smallest = next.smallest;
      }
      return counted(std::move(answer), next);
    }
    const bool beside = keeps_rule(answer.best);
    if (beside && *next.best->seconds > kClearlyFaster * *answer.best->seconds) {
      answer.untried = next.best;
      return counted(std::move(answer), next);
    }
    next.smallest_tried = answer.smallest_tried ? answer.smallest_tried : answer.smallest;
    next.fitting.insert(next.fitting.end(), answer.fitting.begin(), answer.fitting.end());
    return counted(std::move(next), answer);
  }

  // More of them.
  void take_families(Turn turn) {
    for (Family& family : combinations_.of_turn(turn)) {
      advice_.combinations += static_cast<int64_t>(family.batches.size());
      families_.push_back(std::move(family));
    }
  }

  int64_t formula(Combination& combination) {
    if (combination.formula == 0) ++advice_.reckoned;
    return combinations_.formula(combination);
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

  // By what changes about the update, which is nobody's to choose for a little time; of later turns only whether its
  // rule does, for all that they have is a concession. Then by time, then by bytes moved, then by the larger
  // micro-batch, which keeps hardware busier, then by the fewest changes to the run as it is.
  bool faster(const Combination& a, const Combination& b) const {
    const auto change = [this](const Combination& each) {
      return turn_ == Turn::kFirst ? each.change : std::max(each.change, UpdateChange::kUnclipped);
    };
    if (change(a) != change(b)) return change(a) < change(b);
    const auto time = [this](const Combination& each) { return by_seconds_ ? *each.seconds : each.operations; };
    if (time(a) != time(b)) return time(a) < time(b);
    const int64_t moved_by_a = a.arithmetic.whole().bytes_moved, moved_by_b = b.arithmetic.whole().bytes_moved;
    if (moved_by_a != moved_by_b) {
      return moved_by_a < moved_by_b;
    }
    if (a.run.per_device_train_batch_size != b.run.per_device_train_batch_size) {
      return a.run.per_device_train_batch_size > b.run.per_device_train_batch_size;
    }
    return settings_between(question_.run.config, a.run).size() < settings_between(question_.run.config, b.run).size();
  }

  // Whether it can be a better answer than that of the turns before.
  bool eligible(const Combination& each) const {
    if (!than_) return true;
    if (!keeps_rule(than_)) return each.change != UpdateChange::kAnother;
    return each.change <= than_->change && each.seconds && than_->seconds && *each.seconds < *than_->seconds;
  }

  Combination* fastest() {
    Combination* best = nullptr;
    for (Family& family : families_) {
      if (family.fitting == 0) continue;
      Combination& candidate = family.batches[family.fitting - 1];
      if (eligible(candidate) && (best == nullptr || faster(candidate, *best))) best = &candidate;
    }
    return best;
  }

  // The faster ones that are taken not to fit: the nearest in time, then all those within doubt. best: nullptr where
  // none is known; then those within doubt.
  std::vector<Combination*> refused_before(const Combination* best) {
    std::vector<Combination*> refused;
    for (Family& family : families_) {
      if (family.fitting == family.batches.size()) continue;
      Combination& candidate = family.batches[family.fitting];
      if (eligible(candidate) && (best == nullptr || faster(candidate, *best))) refused.push_back(&candidate);
    }
    std::sort(refused.begin(), refused.end(), [this](auto* a, auto* b) { return faster(*b, *a); });
    const double doubtful = (1 + kDoubt) * static_cast<double>(question_.target.capacity_bytes);
    const auto clear = [&](Combination* each) { return expected_need(*each) > doubtful; };
    const auto first = refused.begin() + (best != nullptr && !refused.empty() ? 1 : 0);
    refused.erase(std::remove_if(first, refused.end(), clear), refused.end());
    return refused;
  }

  // What must be proved next before the answer is settled; nullptr: nothing.
  Combination* doubtful() {
    Combination* best = fastest();
    if (best == nullptr && !than_) {  // the last word where the formula lets nothing in
      Combination& least = smallest();
      return least.proof ? nullptr : &least;
    }
    if (best != nullptr && !best->proof) return best;
    const std::vector<Combination*> refused = refused_before(best);
    const auto open = std::find_if(refused.begin(), refused.end(), [](const auto* each) { return !each->proof; });
    return open == refused.end() ? nullptr : *open;
  }

  // What will be proved next, as far as can be foreseen: the fastest and its doubtful neighbours, or the rows.
  void announce(bool settled) {
    if (!question_.play_ahead) return;
    Combination* best = fastest();
    std::vector<Combination*> next = settled || best == nullptr ? shown() : refused_before(best);
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
    if (fastest() == nullptr && !than_) prove(smallest(), /*decides=*/true);
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

  // The smallest first, by formula, of those that change the update's rule or of those that do not, and then those that
  // need hardly more.
  std::vector<Combination*> smallest_alike(bool another) {
    std::vector<Combination*> found;
    const auto less = [this](Combination* a, Combination* b) { return formula(*a) < formula(*b); };
    for (Family& family : families_) {
      if ((family.batches.front().change == UpdateChange::kAnother) != another) continue;
      found.push_back(&family.batches.front());
    }
    if (found.empty()) return found;
    const int64_t least = formula(**std::min_element(found.begin(), found.end(), less));
    found.clear();
    for (Family& family : families_) {
      for (Combination& each : family.batches) {
        if ((each.change == UpdateChange::kAnother) != another || formula(each) > least + kAlike) break;
        found.push_back(&each);
      }
    }
    std::stable_sort(found.begin(), found.end(), less);
    return found;
  }

  // Of those that leave as much room as the first, but for kAlike; the first was proved.
  const Combination& fastest_of(std::vector<Combination*> alike) {
    const Combination& least = *alike.front();
    std::sort(alike.begin(), alike.end(), [this](auto* a, auto* b) { return faster(*a, *b); });
    for (Combination* each : alike) {
      if (advice_.dry_runs > kMostAlike) break;
      prove(*each, /*decides=*/false);
      if (each->proof->fits && each->proof->need <= least.proof->need + kAlike) return *each;
    }
    return least;
  }

  // decides: and does not only make a row of the answer's table exact.
  void prove(Combination& combination, bool decides) {
    if (combination.proof) return;
    combination.proof = question_.prove(combination.run);
    ++advice_.dry_runs;
    combinations_.correct_times(combination, families_);
    if (decides) offset_ = combination.proof->need - formula(combination);
    count_fitting();
  }

  // The fastest of each method and precision that fit, the fastest first.
  std::vector<Combination*> shown() {
    std::map<std::pair<std::string, std::string>, Combination*> fastest_of;
    for (Family& family : families_) {
      if (family.fitting == 0 || !eligible(family.batches[family.fitting - 1])) continue;
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

  void report() {
    const Combination* best = fastest();
    if (best == nullptr) {
      if (!than_) advice_.smallest = smallest();
      return;
    }
    advice_.best = *best;
    const std::vector<Combination*> refused = refused_before(best);
    if (!refused.empty()) advice_.next = *refused.front();
    for (const Combination* each : shown()) advice_.fitting.push_back(*each);
  }

  const Question& question_;
  Combinations combinations_;
  std::vector<Family> families_;
  Turn turn_ = Turn::kFirst;
  std::optional<Combination> than_;  // the answer of the turns before
  Advice advice_;                    // of this one
  bool by_seconds_ = false;
  int64_t offset_ = 0;        // dry run less formula, at the last dry run that was to decide
  bool proofs_only_ = false;  // the formula no longer lets anything in
};

}  // namespace

Advice least_time_that_fits(const Question& question, const std::set<std::string>& keep) {
  return TechniqueSearch(question, keep).take();
}

Advice most_room_that_fits(const Question& question, const std::set<std::string>& keep) {
  return TechniqueSearch(question, keep).take_roomiest();
}

}  // namespace fathom::plan
