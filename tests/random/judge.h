// Plays a random run with the program and says what became of it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/json_value.h"
#include "tests/random/draw.h"
#include "tests/random/program.h"

namespace fathom::random {

enum class Verdict {
  kRefused,     // with an error that names its reason, before the first step
  kExact,       // every figure as planned, to the byte
  kBounded,     // a figure that the plan calls a bound was one: never too low, and near enough
  kEndedEarly,  // by early stopping, below the plan; or as FP16 found no loss scale in its few steps
  kLate,        // not at its end after kMostSeconds: nothing is known of it
  kWrong,       // anything else
};
std::string_view name_of(Verdict verdict);

struct Judgement {
  Verdict verdict = Verdict::kWrong;
  std::string reason;       // of a refusal: the error; of what is wrong: the figures, or the end of what it said
  int64_t above_bytes = 0;  // of a bound: how far it lies above what was measured
  double seconds = 0;       // of all command lines
};

// How far a bound may lie above what is measured.
int64_t largest_slack(int64_t measured_bytes);

// What memory.json of a run that ended well says.
Judgement judge_memory(const Json& memory, bool stopped_early);

// What is done with a run besides running it and, where it says so, continuing it.
struct Trial {
  bool within_plan = false;  // it is run once more, with what its plan said as memory_budget
};

// Writes the run into `folder`, which is made and emptied, and runs it.
Judgement play(const RandomRun& run, Programs& programs, const std::filesystem::path& folder, const Trial& trial = {});

// The command lines of a run in its folder, for whoever wants to type them.
std::vector<std::string> command_lines(const RandomRun& run);

}  // namespace fathom::random
