// What fits: the largest value of one setting, or the combination of techniques that takes least time, found by the
// analytic estimate and proved by dry runs.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "arch/run.h"
#include "plan/advice/techniques.h"
#include "plan/plan.h"
#include "plan/time/expected_time.h"

namespace fathom::plan {

// What a dry run said of a run.
struct Proof {
  int64_t need = 0;  // bytes that the bound is held against: live with kernel scratch on a CPU, reserved on a GPU
  bool fits = false;
  bool near_limit = false;  // on a GPU: its allocator holds it, but what others need beside it is not proved to fit
  std::optional<StepArithmetic> arithmetic = {};  // of the workload's longest step (longest_step), as played
  std::optional<Throughput> throughput = {};      // for that step, where operators were measured (Plan::throughput)
};

// How many times as long operations take.
struct Slowdown {
  double matrix = 1, attention = 1;
};

struct Question {
  arch::Run run;  // as it is; what the search does not vary stays
  Target target;  // capacity_bytes is the bound
  // The workload of the run's data under other settings.
  std::function<Workload(const arch::Run&)> workload_of;
  std::function<Proof(const config::RunConfig&)> prove;
  // Told of runs that are about to be proved, so that they can be played side by side; empty: one after the other.
  std::function<void(const std::vector<config::RunConfig>&)> play_ahead;
  // Of the hardware in the type in which a run computes; empty, or nullopt for any: ordered by arithmetic alone.
  std::function<std::optional<Throughput>(const arch::Run&)> throughput;
  // Of a run's operations on this hardware beside those in FP32, where arithmetic alone decides; empty: none.
  std::function<Slowdown(const arch::Run&)> slowdown;
  std::optional<int64_t> host_bytes = {};  // that a run may keep in the host's memory for a GPU; unset: not known
};

struct Candidate {
  config::RunConfig run;
  int64_t formula = 0;  // bytes at the live peak, by the analytic estimate
  std::optional<Proof> proof;
};

enum class Vary { kBatch, kLength, kRank };
// "per_device_train_batch_size", "max_length", "lora_r".
const char* key_of(Vary vary);
int64_t value_of(Vary vary, const config::RunConfig& run);
config::RunConfig with_value(Vary vary, config::RunConfig run, int64_t value);

struct Values {
  int64_t lowest = 1, highest = 1;
};
struct Largest {
  std::optional<Candidate> fits;     // proved; nullopt: not even the lowest value fits
  std::optional<Candidate> exceeds;  // the next value, proved not to fit; nullopt: the highest fits
  Values values;                     // that were searched
  int64_t reckoned = 0;              // values whose formula was worked out
  int64_t dry_runs = 0;
};
// Of the values from the lowest to the highest. The formula says where to look; the dry run of the answer and of the
// next value decide. Memory grows with each of the three settings; where ragged data, on CUDA rows that begin to
// outgrow a sliding window, or adapters that grow large enough for adamw_8bit to quantize their moments make an
// exception, the answer and the next value are still proved.
Largest largest_that_fits(Vary vary, const Values& values, const Question& question);

struct Combination : Candidate {
  std::vector<std::string> techniques;        // their names, one of each group
  UpdateChange change = UpdateChange::kNone;  // that the optimizer makes to what is learned
  StepArithmetic arithmetic;                  // of one optimizer step with batches of the longest samples
  double operations = 0;                      // of its products, as many as would take as long in FP32
  std::optional<double> seconds;              // expected for such a step; where it is proved, by the dry run's count
  double lack = 1;                            // how many times as long it computes as by formula
  double exposed_seconds = 0;                 // of these, what communication is not hidden
  double host_seconds = 0;                    // likewise, copies to the host and back
  std::optional<Throughput> throughput = {};  // of the hardware, for it
  int64_t host_traffic = 0;                   // bytes that are copied in a step, as plan/host.h has them
  int64_t host_bytes = 0;                     // that lie there
  Turn turn = Turn::kFirst;                   // the latest of its techniques
  int64_t tokens = 0;                         // of such a step, padding included; of one process
};

struct Advice {
  std::optional<Combination> best;   // proved to fit; nullopt: nothing does
  std::optional<Combination> next;   // the one before it in the order of its turn, proved not to fit (where settled);
                                     // nullopt: best is the first of all
  std::vector<Combination> fitting;  // the fastest of each method and precision that fits, best first; by formula,
                                     // in bytes and time, where the dry runs were used up
  std::optional<Combination> smallest;  // where nothing fits: it, by formula, proved too large
  // Where nothing fits that GPUs have run: the smallest of what they have run.
  std::optional<Combination> smallest_tried;
  std::optional<Combination> untried;  // expected to be faster than best, by less than makes up for being untried
  std::optional<std::vector<std::string>> enough;  // known GPUs on which the smallest, or the smallest that GPUs have
                                                   // run, fits, by dry run; for its caller to fill
  int64_t combinations = 0;                        // covered by the search
  int64_t reckoned = 0;                            // of those, worked out; the others are decided by monotonicity
  int64_t dry_runs = 0;
  bool settled = true;   // false: the dry runs were used up; best is the fastest of those that they proved to fit
  bool by_room = false;  // best is not the fastest: it leaves the most room
};
// An untried combination must be expected to take a tenth less time than what GPUs have run.
inline constexpr double kClearlyFaster = 0.9;
// Over all combinations of techniques, turn by turn. Of the first turn the order is: the least change to the run's
// updates, then the least expected time. What is of the second (Turn::kUntried) is the answer where nothing of the
// first fits but what changes the update's rule, or where it is clearly faster and changes no more; there the least
// time decides, with another rule last. The last turn comes where nothing fits yet, or only with another rule. So
// "nothing fits" is said of all three. What is declared of a step's time leaves some bytes out, so that the fastest is
// played until the one that is fastest has been: its time is then the one that `estimate` tells. keep: groups of which
// the run's own technique stays
// ("method").
Advice least_time_that_fits(const Question& question, const std::set<std::string>& keep = {});

// For where every answer is near the limit: of all turns the combination that leaves the most room, with another update
// rule only where nothing else fits; of those that leave nearly as much, the fastest.
Advice most_room_that_fits(const Question& question, const std::set<std::string>& keep = {});

}  // namespace fathom::plan
