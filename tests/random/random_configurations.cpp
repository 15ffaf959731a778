// Draws, plays and judges random runs, for scripts/campaigns/random_configurations: a JSON object a line on stdout.
//
// usage: random_configurations [--within] [--near] SEED FIRST COUNT FOLDER cpu|phantom [FAMILY]
//                       draws of those numbers, on the CPU or on GPUs; --within: once more each, with what its plan
//                       said as memory_budget; --near: as tests draw them; FAMILY, a model_type: as many draws of
//                       that one
//        random_configurations [--within] --minimise FILE FOLDER
//                       the run of a file as `run` has it, made small
#include <algorithm>
#include <iostream>

#include "arch/families.h"
#include "base/error.h"
#include "base/json_value.h"
#include "tests/random/files.h"
#include "tests/random/judge.h"
#include "tests/random/minimise.h"

namespace fathom::random {
namespace {

Json row_of(const RandomRun& run, const Judgement& judgement) {
  return {{"verdict", name_of(judgement.verdict)}, {"reason", judgement.reason}, {"above_bytes", judgement.above_bytes},
          {"seconds", judgement.seconds},          {"run", to_json(run)},        {"yaml", to_yaml(run)},
          {"command_lines", command_lines(run)}};
}

int draw_and_play(uint64_t seed, uint64_t first, uint64_t count, const std::string& folder,
                  const std::vector<std::string>& gpus, Reach reach, const std::string& family, const Trial& trial) {
  Programs programs(FATHOM_PRESTARTED);
  std::vector<std::pair<uint64_t, RandomRun>> runs;
  for (uint64_t number = first; runs.size() < count; ++number) {
    RandomRun run = draw(seed, number, gpus, reach);
    if (family.empty() || run.model.at("model_type") == family) runs.emplace_back(number, std::move(run));
  }
  // Another GPU is another server to start.
  std::stable_sort(runs.begin(), runs.end(), [](const auto& a, const auto& b) { return a.second.gpu < b.second.gpu; });
  for (const auto& [number, run] : runs) {
    Json row = row_of(run, play(run, programs, folder, trial));
    row["number"] = number;
    std::cout << row.dump() << std::endl;
  }
  return 0;
}

int minimise_and_play(const std::string& file, const std::string& folder, const Trial& trial) {
  Programs programs(FATHOM_PRESTARTED);
  const RandomRun run = run_from_json(read_json(file));
  const auto fails = [&](const RandomRun& smaller) {
    return play(smaller, programs, folder, trial).verdict == Verdict::kWrong;
  };
  if (!fails(run)) throw Error("the run does not fail");
  const RandomRun smallest = minimise(run, fails);
  std::cout << row_of(smallest, play(smallest, programs, folder, trial)).dump() << std::endl;
  return 0;
}

}  // namespace
}  // namespace fathom::random

int main(int count, char** arguments) try {
  std::vector<std::string> words(arguments + 1, arguments + count);
  const fathom::random::Trial trial{.within_plan = !words.empty() && words[0] == "--within"};
  if (trial.within_plan) words.erase(words.begin());
  const bool near = !words.empty() && words[0] == "--near";
  if (near) words.erase(words.begin());
  if (words.size() == 3 && words[0] == "--minimise") {
    return fathom::random::minimise_and_play(words[1], words[2], trial);
  }
  const std::string family = words.size() == 6 ? words[5] : "";
  const auto has_family = [&](const fathom::arch::Family& known) { return known.model_type == family; };
  const auto& families = fathom::arch::families();
  const bool known = family.empty() || std::any_of(families.begin(), families.end(), has_family);
  if (words.size() < 5 || words.size() > 6 || (words[4] != "cpu" && words[4] != "phantom") || !known) {
    throw fathom::UsageError(
        "usage: random_configurations [--within] [--near] SEED FIRST COUNT FOLDER cpu|phantom [FAMILY]");
  }
  return fathom::random::draw_and_play(std::stoull(words[0]), std::stoull(words[1]), std::stoull(words[2]), words[3],
                                       words[4] == "cpu" ? std::vector<std::string>{} : fathom::random::phantom_gpus(),
                                       near ? fathom::random::Reach::kNear : fathom::random::Reach::kFar, family,
                                       trial);
} catch (const std::exception& error) {
  std::cerr << error.what() << std::endl;
  return 1;
}
