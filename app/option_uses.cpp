// Two tables: uses of a command that look at a few of its options alone, and options that mean nothing without others.
#include "app/option_uses.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "base/error.h"

namespace fathom::app {
namespace {

// A use that looks at these options and no others: an option that comes to the command is refused here until it is told
// here, too.
struct Use {
  std::string_view command;
  bool (*is_meant)(const RawCommand&);
  std::string_view name;  // "with a number of parameters"
  std::initializer_list<std::string_view> options;
  std::string_view remedy;
};

const Use kUses[] = {
    {"estimate",
     [](const RawCommand& raw) { return is_parameter_count(raw.subject); },
     "with a number of parameters",
     {"CONFIG|MODEL", "--json"},
     "name a model, as llama-2-7b, or a folder with config.json"},
    {"estimate",
     [](const RawCommand& raw) { return raw.invocation.attention; },
     "with --attention, which measures here",
     {"CONFIG|MODEL", "overrides", "--attention", "--json"},
     "remove one of them"},
    {"estimate",
     [](const RawCommand& raw) { return raw.invocation.inference; },
     "with --inference, which plans no training",
     {"CONFIG|MODEL", "overrides", "--inference", "--gpu", "--gpu-memory", "--json"},
     "remove one of them"},
};

// An option that is looked at only where `holds`.
struct Need {
  std::string_view command, option;
  bool (*holds)(const RawCommand&);
  std::string_view needed;
};

constexpr auto kHasBudget = [](const RawCommand& raw) { return !raw.tokens.empty() || !raw.gpu_hours.empty(); };
constexpr auto kIsSampled = [](const RawCommand& raw) { return raw.invocation.temperature > 0; };

const Need kNeeds[] = {
    {"estimate", "--gpu-memory", [](const RawCommand& raw) { return !raw.gpu.empty(); }, "with --gpu NAME"},
    {"estimate", "--price-per-hour", kHasBudget, "with --tokens or --gpu-hours"},
    {"estimate", "--tokens", [](const RawCommand& raw) { return raw.gpu_hours.empty(); }, "without --gpu-hours"},
    {"estimate", "--explain", [](const RawCommand& raw) { return !raw.invocation.json; },
     "without --json, which has all of it"},
    {"advise", "--gpu-memory", [](const RawCommand& raw) { return !raw.gpu.empty(); }, "with --gpu NAME"},
    {"advise", "--keep", [](const RawCommand& raw) { return raw.vary == "techniques"; },
     "with --vary techniques: with one setting varied, all others stay"},
    {"train", "--gpu-memory", [](const RawCommand& raw) { return !raw.phantom_gpu.empty(); },
     "with --phantom-gpu NAME"},
    {"doctor", "--phantom-gpu", [](const RawCommand& raw) { return raw.calibrate; }, "with --calibrate"},
    {"generate", "--top-k", kIsSampled, "with a --temperature above 0"},
    {"generate", "--top-p", kIsSampled, "with a --temperature above 0"},
    {"generate", "--seed", kIsSampled, "with a --temperature above 0"},
};

// "--gpu", or "key=value" for what has no name of its own.
std::string shown(std::string_view option) { return std::string(option == "overrides" ? "key=value" : option); }

}  // namespace

void check_options(const std::string& command, const std::vector<std::string>& given, const RawCommand& raw) {
  for (const Use& use : kUses) {
    if (use.command != command || !use.is_meant(raw)) continue;
    for (const std::string& option : given) {
      if (std::find(use.options.begin(), use.options.end(), option) != use.options.end()) continue;
      throw UsageError(shown(option) + " is not used " + std::string(use.name), std::string(use.remedy));
    }
    return;
  }
  for (const Need& need : kNeeds) {
    const bool is_given = std::find(given.begin(), given.end(), need.option) != given.end();
    if (need.command != command || !is_given || need.holds(raw)) continue;
    throw UsageError(shown(need.option) + " is used only " + std::string(need.needed),
                     need.needed.starts_with("without") ? "remove one of them" : "add it, or remove the option");
  }
}

}  // namespace fathom::app
