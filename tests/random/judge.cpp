// From exit status, messages and memory.json to a verdict.
#include "tests/random/judge.h"

#include <algorithm>
#include <array>
#include <limits>
#include <sstream>

#include "base/file.h"
#include "base/json_value.h"
#include "tests/random/files.h"

namespace fathom::random {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

constexpr const char *kResumed = "resumed", *kWithin = "within";  // folders

struct Command {
  std::string device;  // as Programs::run takes it
  Words arguments;
  std::string folder;  // that it writes a run's memory.json into; empty: none
};

// In the order in which they are run.
std::vector<Command> commands_of(const RandomRun& run) {
  std::vector<Command> commands;
  if (!run.quantized.empty()) {
    commands.push_back({"cpu", {"quantize", "model", "--format", run.quantized, "--out", "quantized"}, ""});
  }
  if (run.keys.contains("adapter_name_or_path")) {
    commands.push_back({"cpu", {"train", "adapter.yaml"}, ""});
  }
  const std::string device = run.of_several() && !run.planned ? Programs::kOfSeveral
                             : run.gpu.empty()                ? "cpu"
                                                              : run.gpu;
  if (run.planned) {
    Words plan = {"estimate", "run.yaml", "--json"};
    if (!run.gpu.empty()) plan.insert(plan.end(), {"--gpu", run.gpu, "--placements", "1"});
    commands.push_back({device, plan, ""});
    plan.emplace_back("--whole");
    commands.push_back({device, plan, ""});
    return commands;
  }
  Words train = {"train", "run.yaml"};
  if (!run.gpu.empty()) train.insert(train.end(), {"--phantom-gpu", run.gpu});
  commands.push_back({device, train, "out"});
  if (run.resume_at > 0) {
    Words resumed = train;
    resumed.push_back("output_dir=" + std::string(kResumed));
    resumed.push_back("resume_from_checkpoint=out/checkpoint-" + std::to_string(run.resume_at));
    commands.push_back({device, resumed, kResumed});
  }
  return commands;
}

// The same run once more, with the memory that its plan said.
Command within_plan(Command train, const Json& memory) {
  const Json& reserved = memory.at("reserved").at("range");
  const Json& planned = reserved.is_null() ? memory.at("needed") : reserved.at(1);
  train.arguments.push_back("output_dir=" + std::string(kWithin));
  train.arguments.push_back("memory_budget=" + planned.dump());
  train.folder = kWithin;
  return train;
}

// The lines that say what is wrong.
std::string errors_of(const std::string& text) {
  std::istringstream lines(text);
  std::string errors;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("error: ")) errors += (errors.empty() ? "" : "\n") + line.substr(7);
  }
  return errors;
}

std::string end_of(const std::string& text) { return text.substr(text.size() - std::min<size_t>(text.size(), 600)); }

// Null where there is none.
Json memory_of(const fs::path& folder) {
  const fs::path file = folder / "memory.json";
  return fs::exists(file) ? read_json(file) : Json();
}

Judgement judge_failure(const Ended& ended, bool began) {
  const std::string errors = errors_of(ended.errors);
  if (ended.late) return {Verdict::kLate, "not at its end after " + std::to_string(kMostSeconds) + " s"};
  if (ended.signal != 0)
    return {Verdict::kWrong, "signal " + std::to_string(ended.signal) + ": " + end_of(ended.errors)};
  if (errors.empty()) return {Verdict::kWrong, "failed without an error: " + end_of(ended.errors)};
  // Random weights in FP16 may overflow at every scale that a run has time for.
  if (began && errors.find("no loss scale was found") != std::string::npos) return {Verdict::kEndedEarly, errors};
  if (began) return {Verdict::kWrong, "failed after the plan: " + errors};
  if (errors.find("LibTorch: ") != std::string::npos) return {Verdict::kWrong, "LibTorch's own error: " + errors};
  return {Verdict::kRefused, errors};
}

// Collects what differs.
class Figures {
 public:
  void compare(const std::string& name, const Json& figure) {
    const Json &planned = figure.at("dry_run"), &measured = figure.at("measured");
    if (planned.is_null() || measured.is_null() || planned == measured) return;
    note(name, measured.get<int64_t>() - planned.get<int64_t>());
  }
  // An upper bound of a CPU.
  void at_most(const std::string& name, const Json& figure) {
    const Json &planned = figure.at("dry_run"), &measured = figure.at("measured");
    if (planned.is_null() || measured.is_null() || measured <= planned) return;
    note(name + " above its bound", measured.get<int64_t>() - planned.get<int64_t>());
  }
  // Of a GPU's allocator: exact, or a bound, whose range then has an upper end that the run may stay below.
  void allocator(const std::string& name, const Json& figure) {
    const Json& measured = figure.at("measured");
    if (measured.is_null() || figure.at("dry_run").is_null()) return;
    const int64_t bytes = measured.get<int64_t>(), lowest = figure.at("range").at(0),
                  highest = figure.at("range").at(1);
    if (bytes > highest) return note(name + " above its range", bytes - highest);
    if (bytes < lowest && !figure.value("bound", false)) return note(name + " below its range", bytes - lowest);
    above_ = std::max(above_, highest - bytes);
    if (highest - bytes > largest_slack(bytes)) note(name + " of a loose bound", bytes - highest);
  }
  int64_t above() const { return above_; }
  std::string text() const {
    std::string text;
    for (size_t i = 0; i < std::min<size_t>(found_.size(), 6); ++i) {
      text += (text.empty() ? "" : "; ") + found_[i].second + " " + (found_[i].first > 0 ? "+" : "") +
              std::to_string(found_[i].first);
    }
    return text;
  }
  // Measured less planned; negative: nothing was above its plan. A smaller peak comes at another instant, at which one
  // component may have more than at the planned one.
  int64_t largest() const {
    const bool elsewhere = std::any_of(found_.begin(), found_.end(),
                                       [](const auto& found) { return found.second == "peak" && found.first < 0; });
    int64_t largest = std::numeric_limits<int64_t>::min();
    for (const auto& [bytes, name] : found_) {
      if (!elsewhere || !name.ends_with(" at the peak")) largest = std::max(largest, bytes);
    }
    return largest;
  }
  bool empty() const { return found_.empty(); }

 private:
  void note(const std::string& name, int64_t bytes) { found_.emplace_back(bytes, name); }
  std::vector<std::pair<int64_t, std::string>> found_;
  int64_t above_ = 0;
};

Figures figures_of(const Json& memory) {
  Figures figures;
  figures.compare("peak", memory.at("peak"));
  for (const char* part : {"components", "maximum"}) {
    for (const auto& [name, figure] : memory.at(part).items()) {
      figures.compare(name + (std::string(part) == "maximum" ? " at its maximum" : " at the peak"), figure);
    }
  }
  for (const auto& [name, phase] : memory.at("phases").items()) {
    figures.compare("peak of " + name, phase.at("peak"));
    for (const auto& [component, figure] : phase.at("end").items()) {
      figures.compare(component + " at the end of " + name, figure);
    }
  }
  figures.at_most("kernel scratch", memory.at("kernel_scratch"));
  figures.at_most("peak with scratch", memory.at("peak_with_scratch"));
  figures.at_most("resident memory", memory.at("resident"));
  figures.allocator("allocated", memory.at("allocated"));
  figures.allocator("reserved", memory.at("reserved"));
  return figures;
}

// memory: of the run's folder; null where there is none.
Judgement judge_command(const Ended& ended, const Json& memory) {
  if (ended.status != 0) return judge_failure(ended, !memory.is_null());
  if (memory.is_null()) return {Verdict::kExact, ""};
  return judge_memory(memory, ended.output.find("\nstopped after step ") != std::string::npos);
}

// What all of a run takes, in the place of what is measured.
void take_as_measured(Json& plan, const Json& whole) {
  if (!plan.is_object()) return;
  for (auto& [name, value] : plan.items()) {
    if (name == "measured" && whole.contains("dry_run")) {
      value = whole.at("dry_run");
    } else if (whole.contains(name)) {
      take_as_measured(value, whole.at(name));
    }
  }
}

// plans: by representatives, and of each step.
Judgement judge_plans(const std::vector<Json>& plans) {
  Json represented = plans.at(0);
  take_as_measured(represented, plans.at(1));
  represented["resident"]["measured"] = nullptr;  // bounds of what is not played
  const Json &formula = represented.at("peak").at("analytic"), &of_whole = plans.at(1).at("peak").at("analytic");
  if (formula != of_whole) return {Verdict::kWrong, "by formula " + formula.dump() + ", of all " + of_whole.dump()};
  return judge_memory(represented, /*stopped_early=*/false);
}

}  // namespace

std::string_view name_of(Verdict verdict) {
  constexpr std::array<std::string_view, 6> kNames = {"refused", "exact", "bounded", "ended early", "late", "wrong"};
  return kNames[static_cast<size_t>(verdict)];
}

int64_t largest_slack(int64_t measured_bytes) { return std::max(int64_t{32} << 20, measured_bytes / 50); }

Judgement judge_memory(const Json& memory, bool stopped_early) {
  const Figures figures = figures_of(memory);
  if (figures.empty()) return {figures.above() > 0 ? Verdict::kBounded : Verdict::kExact, "", figures.above()};
  if (stopped_early && figures.largest() < 0) return {Verdict::kEndedEarly, figures.text()};
  return {Verdict::kWrong, figures.text()};
}

Judgement play(const RandomRun& run, Programs& programs, const fs::path& folder, const Trial& trial) {
  fs::remove_all(folder);
  fs::create_directories(folder);
  write_files(run, folder);
  Judgement all{Verdict::kExact, ""};
  std::vector<Command> commands = commands_of(run);
  std::vector<Json> plans;
  for (size_t i = 0; i < commands.size(); ++i) {
    const Command command = commands[i];  // a copy: they may become more
    const Ended ended = programs.run(command.device, command.arguments, folder);
    all.seconds += ended.seconds;
    const Json memory = command.folder.empty() ? Json() : memory_of(folder / command.folder);
    Judgement one = judge_command(ended, memory);
    if (command.folder == kWithin && one.verdict == Verdict::kRefused) one.verdict = Verdict::kWrong;
    if ((command.folder == kResumed || command.folder == kWithin) && !one.reason.empty()) {
      one.reason = command.folder + ": " + one.reason;
    }
    all.above_bytes = std::max(all.above_bytes, one.above_bytes);
    // The plan is of the first process; of several others may need more, and each refuses by itself.
    if (trial.within_plan && !run.of_several() && command.folder == "out" && !memory.is_null()) {
      commands.push_back(within_plan(command, memory));
    }
    if (command.arguments.front() == "estimate" && one.verdict == Verdict::kExact) {
      plans.push_back(parse_json(ended.output, "the plan"));
      if (plans.size() == 2) one = judge_plans(plans);
      all.above_bytes = std::max(all.above_bytes, one.above_bytes);
    }
    if (one.verdict == Verdict::kExact) continue;
    all.verdict = one.verdict;
    all.reason = one.reason;
    if (one.verdict != Verdict::kBounded) break;
  }
  return all;
}

std::vector<std::string> command_lines(const RandomRun& run) {
  std::vector<std::string> lines;
  for (const Command& command : commands_of(run)) {
    std::string line = "fathom";
    for (const std::string& word : command.arguments) line += " " + word;
    lines.push_back(line);
  }
  return lines;
}

}  // namespace fathom::random
