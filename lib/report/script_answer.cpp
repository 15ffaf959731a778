// Reads what the agent wrote, which ran in a process of the user's, and lays it out.
#include "report/script_answer.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/bytes.h"
#include "base/error.h"
#include "base/json_reason.h"
#include "base/json_value.h"
#include "base/numbers.h"
#include "report/memory_table.h"
#include "report/table.h"

namespace fathom::report {
namespace {

constexpr size_t kMostReads = 12;  // that the terminal shows

memory::ComponentBytes components_from(const Json& value) {
  memory::ComponentBytes components;
  for (const memory::Component component : memory::kComponents) {
    const std::string name(component_name(component));
    if (value.contains(name)) components[component] = count_at(value, name);
  }
  return components;
}

// The number of what is called so.
template <typename Values, typename NameOf>
Json number_of(const Json& name, const Values& values, NameOf name_of) {
  for (const auto value : values) {
    if (name == name_of(value)) return static_cast<int>(value);
  }
  throw Error("nothing is called " + name.dump());
}

// The agent calls phases and components by their names, and a block has its place alone.
memory::Timeline timeline_from(Json value) {
  for (Json& span : value.at("phases")) span[0] = number_of(span.at(0), memory::kPhases, memory::phase_name);
  for (Json& block : value.at("blocks")) {
    const Json component = number_of(block.at(3), memory::kComponents, memory::component_name);
    block = {block.at(0), block.at(1), block.at(2), component, 0, block.at(4), 0, 0};
  }
  return memory::timeline_from_json(value);
}

std::string plural_step(int64_t steps) { return format_counted(steps, "step"); }

std::string format_bytes_of(const ScriptProcess& process) {
  Table table({{"of the GPU, at most", Align::kLeft}, {"bytes"}, {""}});
  const auto add = [&](const char* name, int64_t bytes) {
    table.add_row({name, format_count(bytes), format_bytes(bytes)});
  };
  add("requested", process.requested);
  add("allocated", process.allocated);
  add("reserved", process.reserved);
  table.add_rule();
  add("allocated at the end", process.allocated_at_end);
  add("reserved at the end", process.reserved_at_end);
  return table.format();
}

std::string format_peak(const ScriptProcess& process) {
  std::string text = "Requested most in step " + format_count(process.peak_step) + ", " + process.peak_phase + ":\n\n";
  Table components({{"at the peak", Align::kLeft}, {"bytes"}, {""}});
  for (const memory::Component component : memory::kComponents) {
    const int64_t bytes = process.components[component];
    if (bytes == 0) continue;
    components.add_row({std::string(component_name(component)), format_count(bytes), format_bytes(bytes)});
  }
  Table blocks({{.title = "largest at the peak", .align = Align::kLeft, .folds = true},
                {"component", Align::kLeft},
                {""},
                {"in all"}});
  for (const ScriptProcess::Blocks& each : process.blocks) {
    blocks.add_row({each.place, each.component, "× " + format_count(each.count), format_bytes(each.bytes)});
  }
  return text + components.format() + "\n" + blocks.format();
}

// Of a rank, by the places that read, most often first.
std::string format_reads(const ScriptAnswer& answer, int64_t rank) {
  struct Place {
    int64_t times = 0;
    std::string what;
  };
  std::map<std::string, Place> places;
  for (const ScriptProcess& process : answer.processes) {
    if (process.rank != rank) continue;
    for (const ScriptProcess::Read& read : process.reads) {
      Place& place = places[read.place];
      place.times += read.times;
      if (place.what.empty() || read.how == "assumed") place.what = read.what;
    }
  }
  if (places.empty()) return "No number that only a GPU knows was read: nothing here depends on one.\n";
  std::vector<std::pair<std::string, Place>> sorted(places.begin(), places.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.times > b.second.times; });
  std::string text =
      "Numbers that only a GPU knows were read here, and 1.0, 0 or False was given; where memory depends on them it is "
      "another:\n";
  for (size_t i = 0; i < std::min(sorted.size(), kMostReads); ++i) {
    const auto& [place, read] = sorted[i];
    text += "  " + place + ": " + read.what + ", " + format_counted(read.times, "time") + "\n";
  }
  if (sorted.size() > kMostReads) {
    const auto others = static_cast<int64_t>(sorted.size() - kMostReads);
    text += "  and " + format_counted(others, "other place") + " (--json has all)\n";
  }
  return text;
}

std::string format_written(const ScriptAnswer& answer) {
  std::set<std::string> folders;
  for (const ScriptProcess& process : answer.processes) folders.insert(process.written.begin(), process.written.end());
  if (folders.empty()) return "";
  std::string text =
      "Files that the script wrote hold none of the numbers a GPU would have computed; a list says which, in:\n";
  for (const std::string& folder : folders) text += "  " + folder + "\n";
  return text;
}

// Processes that no launcher has told their ranks are told apart by their numbers.
std::string name_of(const ScriptProcess& process, const std::vector<ScriptProcess>& all) {
  const bool is_alone = std::count_if(all.begin(), all.end(), [&](const ScriptProcess& other) {
                          return other.rank == process.rank && other.device == process.device;
                        }) == 1;
  return (is_alone ? "Rank " + format_count(process.rank) : "Process " + std::to_string(process.process)) + ", GPU " +
         format_count(process.device);
}

// A line for each.
std::string format_all(const std::vector<ScriptProcess>& processes) {
  Table table({{"of its GPU, at most", Align::kLeft},
               {"requested"},
               {"allocated"},
               {"reserved"},
               {"requested most in", Align::kLeft}});
  for (const ScriptProcess& process : processes) {
    table.add_row({name_of(process, processes), format_count(process.requested), format_count(process.allocated),
                   format_count(process.reserved),
                   "step " + format_count(process.peak_step) + ", " + process.peak_phase});
  }
  return table.format();
}

}  // namespace

const ScriptProcess& fullest_of(const std::vector<ScriptProcess>& processes) {
  return *std::max_element(processes.begin(), processes.end(), [](const auto& a, const auto& b) {
    return std::pair(a.refusal.has_value(), a.reserved) < std::pair(b.refusal.has_value(), b.reserved);
  });
}

ScriptAnswer::Placements placements_of(const ScriptAnswer& answer) {
  const ScriptProcess& fullest = fullest_of(answer.processes);
  return {.tried = 1,
          .refused = answer.does_not_fit() ? 1 : 0,
          .allocated = {fullest.allocated, fullest.allocated},
          .reserved = {fullest.reserved, fullest.reserved}};
}

void ScriptAnswer::Placements::add(const Placements& other) {
  tried += other.tried;
  refused += other.refused;
  if (other.refused > 0) return;  // it took less than it would have
  for (const auto& [range, another] : {std::pair(&allocated, other.allocated), std::pair(&reserved, other.reserved)}) {
    *range = {std::min(range->lowest, another.lowest), std::max(range->highest, another.highest)};
  }
}

std::string describe(const ScriptProcess::Refusal& refusal) {
  std::string text = "Out of memory in step " + format_count(refusal.step) + ", " + refusal.phase + ": " +
                     format_bytes(refusal.bytes) + " could not be had beside " + format_bytes(refusal.allocated) +
                     " that were allocated";
  if (!refusal.place.empty()) text += ", at " + refusal.place;
  return text;
}

ScriptProcess ScriptProcess::from_json(const Json& value, const std::string& origin) try {
  ScriptProcess process;
  process.torch = value.at("torch").get<std::string>();
  process.objection = value.value("objection", "");
  process.finished = value.value("finished", false);
  process.used_gpu = value.value("used_gpu", false);
  if (!process.used_gpu) return process;
  process.rank = count_at(value, "rank");
  if (!process.finished) return process;
  process.process = count_at(value, "process");
  process.began_ns = count_at(value, "began");
  process.device = count_at(value, "device");
  process.steps = count_at(value, "steps");
  process.requested = count_at(value, "requested");
  process.allocated = count_at(value, "allocated");
  process.reserved = count_at(value, "reserved");
  process.allocated_at_end = count_at(value, "allocated_at_end");
  process.reserved_at_end = count_at(value, "reserved_at_end");
  const Json& peak = value.at("peak");
  process.peak_step = count_at(peak, "step");
  process.peak_phase = peak.at("phase").get<std::string>();
  process.components = components_from(peak.at("components"));
  for (const Json& each : peak.at("blocks")) {
    process.blocks.push_back({each.at("place").get<std::string>(), each.at("component").get<std::string>(),
                              count_at(each, "bytes"), count_at(each, "count")});
  }
  if (const Json& refusal = value.at("refusal"); !refusal.is_null()) {
    process.refusal = Refusal{count_at(refusal, "bytes"), count_at(refusal, "allocated"), count_at(refusal, "step"),
                              refusal.at("phase").get<std::string>(), refusal.at("place").get<std::string>()};
  }
  process.survived = count_at(value, "survived");
  if (value.contains("timeline") && !value.at("timeline").is_null()) {
    process.timeline = timeline_from(value.at("timeline"));
  }
  for (const Json& each : value.at("reads")) {
    process.reads.push_back({each.at("place").get<std::string>(), each.at("what").get<std::string>(),
                             each.at("how").get<std::string>(), count_at(each, "times")});
  }
  for (const Json& each : value.at("written")) process.written.push_back(each.get<std::string>());
  return process;
} catch (const nlohmann::json::exception& error) {
  throw Error(origin + " has another form than expected: " + reason_of(error));
}

bool ScriptAnswer::runs_out() const {
  return std::any_of(processes.begin(), processes.end(), [](const auto& each) { return each.refusal.has_value(); });
}

std::optional<int64_t> ScriptAnswer::full() const {
  const auto found = std::find_if(devices.begin(), devices.end(),
                                  [&](const auto& each) { return each.second.bytes > gpu.memory_bytes; });
  return found == devices.end() ? std::nullopt : std::optional(found->first);
}

std::vector<std::string> ScriptAnswer::unknown() const {
  std::vector<std::string> reasons;
  for (const std::string& program : unfollowed) {
    reasons.push_back("nothing is known of '" + program +
                      "': a Python with -I, -E or -S does not load fathom's agent, " +
                      "and torch must be where Python looks as it starts (PYTHONPATH)");
  }
  for (const int64_t rank : lost) {
    reasons.push_back("rank " + format_count(rank) + " was killed, or crashed, before it could tell what it took");
  }
  for (const std::string& process : left) {
    reasons.push_back(process + " went on after the command's end, and was ended before its own");
  }
  if (exit_status != 0) {
    reasons.push_back("the script has ended with status " + std::to_string(exit_status) +
                      ", so this is what it took until then");
  }
  return reasons;
}

std::string describe_full(const ScriptAnswer& answer) {
  const int64_t device = answer.full().value();
  const launch::Share& share = answer.devices.at(device);
  return format_count(share.processes) + " processes that may run at once take at most " + format_bytes(share.bytes) +
         " of GPU " + format_count(device);
}

namespace {

// "of which at most 3.00 GiB were reserved, by 2 processes that may run at once".
std::string format_reserved(const ScriptAnswer& answer) {
  launch::Share fullest;
  for (const auto& [device, share] : answer.devices) {
    if (share.bytes > fullest.bytes) fullest = share;
  }
  const bool is_sum = fullest.processes > 1;
  int64_t reserved = is_sum ? fullest.bytes : 0;
  for (const ScriptProcess& process : answer.processes) reserved = std::max(reserved, process.reserved);
  return "of which " + std::string(answer.gpus > 1 || is_sum ? "at most " : "") + format_bytes(reserved) +
         " were reserved" +
         (is_sum ? ", by " + format_count(fullest.processes) + " processes that may run at once" : "");
}

std::string format_verdict(const ScriptAnswer& answer) {
  const std::string each = answer.gpus > 1 ? format_count(answer.gpus) + " × " : "";
  const std::string on = each + answer.gpu.name + " (" + format_bytes(answer.gpu.memory_bytes) + ")";
  int64_t steps = 0;
  for (const ScriptProcess& process : answer.processes) steps = std::max(steps, process.steps);
  const std::string took = plural_step(steps) + " in " + format_seconds(answer.seconds);
  if (answer.does_not_fit()) {
    return "Does not fit: " + on + "; " + (answer.full() ? describe_full(answer) + "; " : "") + took + ".\n";
  }
  std::string reasons;
  for (const std::string& reason : answer.unknown()) reasons += "  " + reason + "\n";
  return (answer.fits() ? "Fits: " : "Not known whether it fits: ") + on + ", " + format_reserved(answer) + "; " +
         took + ".\n" + reasons;
}

Json process_json(const ScriptProcess& process) {
  Json components = Json::object(), blocks = Json::array(), reads = Json::array();
  for (const memory::Component component : memory::kComponents) {
    components[std::string(component_name(component))] = process.components[component];
  }
  for (const auto& each : process.blocks) {
    blocks.push_back(
        {{"place", each.place}, {"component", each.component}, {"bytes", each.bytes}, {"count", each.count}});
  }
  for (const auto& each : process.reads) {
    reads.push_back({{"place", each.place}, {"what", each.what}, {"how", each.how}, {"times", each.times}});
  }
  Json refusal = nullptr;
  if (process.refusal) {
    refusal = {{"bytes", process.refusal->bytes},
               {"allocated", process.refusal->allocated},
               {"step", process.refusal->step},
               {"phase", process.refusal->phase},
               {"place", process.refusal->place}};
  }
  return {
      {"rank", process.rank},
      {"process", process.process},
      {"device", process.device},
      {"torch", process.torch},
      {"steps", process.steps},
      {"requested", process.requested},
      {"allocated", process.allocated},
      {"reserved", process.reserved},
      {"allocated_at_end", process.allocated_at_end},
      {"reserved_at_end", process.reserved_at_end},
      {"peak",
       {{"step", process.peak_step}, {"phase", process.peak_phase}, {"components", components}, {"blocks", blocks}}},
      {"refusal", refusal},
      {"survived", process.survived},
      {"reads", reads},
      {"written", process.written}};
}

}  // namespace

std::string format_script(const ScriptAnswer& answer) {
  const std::vector<ScriptProcess>& all = answer.processes;
  const ScriptProcess& fullest = fullest_of(all);
  std::string text;
  if (all.size() > 1) text += format_all(all) + "\n" + name_of(fullest, all) + ":\n\n";
  text += format_bytes_of(fullest) + "\n" + format_peak(fullest) + "\n" + format_reads(answer, fullest.rank) +
          format_written(answer) + "\n";
  for (const ScriptProcess& process : all) {
    const std::string name = all.size() > 1 ? name_of(process, all) + ": " : "";
    if (process.refusal) text += name + describe(*process.refusal) + ".\n";
    if (process.survived > 0) {
      text += name + (name.empty() ? "It" : "it") + " ran out of memory " + format_counted(process.survived, "time") +
              " before, and went on.\n";
    }
  }
  text += format_verdict(answer);
  if (const auto& placements = answer.placements; placements.tried > 1) {
    text += format_placements(placements.tried, placements.allocated, placements.reserved) +
            (placements.refused > 0 ? "; in " + format_count(placements.refused) + " of them memory ran out" : "") +
            ".\n";
  }
  if (answer.found) {
    text += answer.found->number == 0
                ? "Not even " + answer.found->word + " 1 fits.\n"
                : "The largest " + answer.found->word + " that fits is " + format_count(answer.found->number) + ".\n";
  }
  return folded(text);
}

Json script_json(const ScriptAnswer& answer) {
  Json processes = Json::array();
  for (const ScriptProcess& process : answer.processes) processes.push_back(process_json(process));
  Json found = nullptr;
  if (answer.found) found = {{"word", answer.found->word}, {"number", answer.found->number}};
  Json devices = Json::array(), fits = nullptr;
  for (const auto& [device, share] : answer.devices) {
    devices.push_back({{"device", device}, {"bytes", share.bytes}, {"processes", share.processes}});
  }
  if (answer.fits() || answer.does_not_fit()) fits = answer.fits();
  const auto range = [](const plan::ByteRange& of) { return Json{of.lowest, of.highest}; };
  return {{"found", found},
          {"placements",
           {{"tried", answer.placements.tried},
            {"refused", answer.placements.refused},
            {"allocated", range(answer.placements.allocated)},
            {"reserved", range(answer.placements.reserved)}}},
          {"gpu", answer.gpu.name},
          {"gpus", answer.gpus},
          {"memory_bytes", answer.gpu.memory_bytes},
          {"devices", devices},
          {"lost", answer.lost},
          {"unfollowed", answer.unfollowed},
          {"left", answer.left},
          {"command", answer.command},
          {"exit_status", answer.exit_status},
          {"seconds", answer.seconds},
          {"fits", fits},
          {"processes", processes}};
}

}  // namespace fathom::report
