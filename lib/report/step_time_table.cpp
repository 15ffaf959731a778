// One row for each part, one for what is of none, and their sum.
#include "report/step_time_table.h"

#include <algorithm>
#include <vector>

#include "base/bytes.h"
#include "base/json_value.h"
#include "base/numbers.h"
#include "report/table.h"

namespace fathom::report {

std::string format_step_times(const StepTimes& times) {
  if (times.steps == 0) return "";
  const auto mean = [&](double seconds) { return format_seconds(seconds / static_cast<double>(times.steps)); };
  const bool knows = times.expected.has_value();
  std::vector<Table::Column> columns = {{"time of a step", Align::kLeft}};
  if (knows) columns.push_back({"expected"});
  columns.push_back({"measured"});
  if (knows) columns.push_back({"off by"});
  Table table(columns);
  const auto add = [&](const std::string& name, double expected, std::optional<double> measured) {
    std::vector<std::string> cells = {name};
    if (knows) cells.push_back(mean(expected));
    cells.push_back(measured ? mean(*measured) : std::string(kMissing));
    if (knows) cells.push_back(measured && expected > 0 ? format_change(expected / *measured - 1) : "");
    table.add_row(cells);
  };
  const plan::ExpectedTime expected = times.expected.value_or(plan::ExpectedTime{});
  for (const memory::Phase phase : plan::StepParts<double>::kPhases) {
    add(std::string(phase_name(phase)), expected.parts.of(phase).seconds(), times.parts.of(phase));
  }
  const double waiting = expected.exposed_seconds + expected.host_seconds;
  if (waiting > 0) add("waiting, within these", waiting, std::nullopt);
  add("between", 0, std::max(0.0, times.measured - times.parts.whole()));
  table.add_rule();
  add("mean of " + format_counted(times.steps, "step"), expected.seconds(), times.measured);
  return table.format();
}

Json step_times_json(const StepTimes& times) {
  if (times.steps == 0) return nullptr;
  const auto if_expected = [&](auto value) { return times.expected ? Json(value()) : Json(nullptr); };
  Json json = {{"steps", times.steps},
               {"measured_seconds", times.measured},
               {"expected_seconds", if_expected([&] { return times.expected->seconds(); })},
               {"source", if_expected([&] { return times.source; })}};
  for (const memory::Phase phase : plan::StepParts<double>::kPhases) {
    const std::string name(phase_name(phase));
    json[name + "_measured_seconds"] = times.parts.of(phase);
    json[name + "_expected_seconds"] = if_expected([&] { return times.expected->parts.of(phase).seconds(); });
  }
  return json;
}

}  // namespace fathom::report
