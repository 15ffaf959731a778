// All combinations of techniques, turn by turn, with what each is expected to take of time and memory by formula.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "plan/advice/search.h"

namespace fathom::plan {

// One choice of every group but the batch; its micro-batches grow, and with them memory.
struct Family {
  std::vector<std::string> techniques;
  std::vector<Combination> batches;  // smallest first
  size_t fitting = 0;                // the first so many fit, as far as its search knows
};

class Combinations {
 public:
  // keep: as least_time_that_fits has it. Refers to the question.
  Combinations(const Question& question, const std::set<std::string>& keep);

  // Those whose latest technique is of the turn, and for which the host's memory is enough.
  std::vector<Family> of_turn(Turn turn);

  // Bytes, worked out once.
  int64_t formula(Combination& combination) const;

  // What was counted of the step that was played (which with ragged data is not quite the one that is compared) is
  // another time than what the formula says of it: so that of the combination is put right, and of all, now and later,
  // that have the same method, precision and optimizer, until they are played themselves.
  void correct_times(const Combination& played, std::vector<Family>& families);

 private:
  using Groups = std::vector<std::vector<Technique>>;
  using Update = std::vector<std::string>;  // names of method, precision and optimizer

  void combine(Turn turn, Family chosen, const config::RunConfig& run, Groups::const_iterator group, Turn latest);
  void add_batches(Family family, const config::RunConfig& run, const std::vector<Technique>& batches, Turn turn);
  Combination combination(const std::vector<std::string>& techniques, const arch::Run& run);
  static Update update_of(const std::vector<std::string>& techniques);
  static double computing_seconds(const Combination& combination, const StepArithmetic& arithmetic);
  static void set_seconds(Combination& combination, double lack);
  arch::Run resolved(const config::RunConfig& config) const {
    return arch::resolve(config, question_.run.architecture);
  }

  const Question& question_;
  Groups groups_;
  std::vector<Family> families_;
  std::vector<schedule::StepShape> longest_;  // that the data have
  std::map<Update, double> lacks_;            // see Combination
};

}  // namespace fathom::plan
