// Reads the date from a checkpoint before it is known whether the checkpoint is sound: the data are read before that.
#include "schedule/run_date.h"

#include <cstdio>
#include <filesystem>

#include "base/error.h"
#include "base/json_value.h"
#include "jinja/date.h"

namespace fathom::schedule {
namespace {

namespace fs = std::filesystem;

// "" where the folder holds no state that can be read.
std::string date_in(const fs::path& checkpoint) {
  try {
    const Json state = read_json(checkpoint / "trainer_state.json");
    return state.is_object() && state.contains("date") && state["date"].is_string() ? state["date"] : Json("");
  } catch (const Error&) {
    return "";
  }
}

std::string today() {
  const std::chrono::year_month_day day(std::chrono::floor<std::chrono::days>(jinja::local_now()));
  char text[16];
  std::snprintf(text, sizeof text, "%04d-%02u-%02u", int{day.year()}, unsigned{day.month()}, unsigned{day.day()});
  return text;
}

}  // namespace

std::string date_of_run(const config::RunConfig& config) {
  std::string date;
  if (config.resume_from_checkpoint == "auto") {
    std::error_code absent;
    for (const auto& entry : fs::directory_iterator(config.output_dir, absent)) {
      if (entry.path().filename().string().starts_with("checkpoint-") && date.empty()) date = date_in(entry.path());
    }
  } else if (!config.resume_from_checkpoint.empty()) {
    date = date_in(config.resume_from_checkpoint);
  }
  return date.empty() ? today() : date;
}

std::chrono::local_seconds start_of_day(const std::string& date) {
  int year = 0;
  unsigned month = 0, day = 0;
  const bool read = std::sscanf(date.c_str(), "%4d-%2u-%2u", &year, &month, &day) == 3;
  const std::chrono::year_month_day whole{std::chrono::year(year), std::chrono::month(month), std::chrono::day(day)};
  if (!read || !whole.ok()) throw Error("'" + date + "' is no date", "expected one such as 2026-11-22");
  return std::chrono::local_days(whole);
}

}  // namespace fathom::schedule
