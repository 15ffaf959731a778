// Reads the files of a run's folder.
#include "page/run_record.h"

#include <cmath>
#include <limits>
#include <sstream>

#include "base/bytes.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json_reason.h"
#include "base/json_value.h"
#include "base/log.h"
#include "report/preference_numbers.h"

namespace fathom::page {
namespace {

namespace fs = std::filesystem;
using memory::Timeline;

// Far above what a run writes: a folder that exceeds them is none of ours.
constexpr size_t kLargestText = size_t{64} << 20;
constexpr size_t kLargestTimelines = size_t{256} << 20, kMostTimelineValues = size_t{16} << 20;
constexpr size_t kMostBlocks = kMostTimelineValues / 20;  // of 9 values each, one of which is a list, in two timelines
constexpr int64_t kLargestEvents = int64_t{1} << 24;
constexpr int kKnownSchema = 1;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

[[noreturn]] void refuse(const fs::path& file, const std::string& what) {
  throw Error(file.string() + ": " + what, "only files that fathom wrote can be reported; remove it or restore it");
}

// Everything that is drawn later relies on: positions within the stretch, sums that do not overflow.
void check(const Timeline& timeline) {
  if (timeline.events < 0 || timeline.events > kLargestEvents) throw Error("a timeline has an impossible length");
  if (timeline.peak < 0 || timeline.peak_position < 0 || timeline.peak_position > timeline.events) {
    throw Error("a timeline has its peak where it is not");
  }
  int64_t sum = 0;
  for (const Timeline::Block& block : timeline.blocks) {
    sum = checked_add(sum, block.bytes, "the blocks of a timeline");
    if (block.given_back != Timeline::kNever && block.given_back > timeline.events) {
      throw Error("a timeline has a block that is given back after its end");
    }
  }
  int64_t before = 0;
  for (const Timeline::Span& span : timeline.phases) {
    if (span.begin < before || span.end < span.begin || span.end > timeline.events) {
      throw Error("a timeline has phases out of order");
    }
    before = span.end;
  }
}

std::optional<Timeline> timeline_of(const Json& file, const char* key) {
  const auto found = file.find(key);
  if (found == file.end() || found->is_null()) return std::nullopt;
  Timeline timeline = memory::timeline_from_json(*found);
  check(timeline);
  return timeline;
}

Json parse_object(const fs::path& file, size_t limit, size_t most_values = kMostJsonValues) {
  Json value = parse_json(read_file(file, limit), file.string(), most_values);
  if (!value.is_object()) refuse(file, "expected a JSON object");
  return value;
}

void read_timelines(const fs::path& file, RunRecord& record) try {
  const Json timelines = parse_object(file, kLargestTimelines, kMostTimelineValues);
  record.predicted = timeline_of(timelines, "predicted");
  record.measured = timeline_of(timelines, "measured");
} catch (const Error& error) {
  refuse(file, error.what());
}

// JSON has neither NaN nor infinity: what was one is null, as the norm of a step that was skipped.
double number_of(const Json& value) { return value.is_null() ? kNan : value.get<double>(); }

// Those that the line has.
report::Scalars preference_numbers(const Json& line, std::string_view prefix) {
  report::Scalars numbers;
  for (const std::string_view name : report::kPreferenceNumbers) {
    const auto found = line.find(std::string(prefix) + std::string(name));
    if (found != line.end()) numbers.emplace_back(name, number_of(*found));
  }
  return numbers;
}

void read_metrics_line(const Json& line, RunRecord& record) {
  const auto number_or_nan = [&](const char* key) { return line.contains(key) ? number_of(line.at(key)) : kNan; };
  const auto number = [&](const char* key) {
    const double value = number_or_nan(key);
    return std::isfinite(value) ? value : 0.0;
  };
  const auto step = line.at("step").get<int64_t>();
  if (line.contains("eval_loss")) {
    const auto share = [&](const char* key) { return line.contains(key) ? std::optional(number(key)) : std::nullopt; };
    record.evaluations.push_back({step, number("epoch"), number_of(line.at("eval_loss")),
                                  line.value("eval_tokens", int64_t{0}), number("eval_seconds"),
                                  share("eval_exact_match"), share("eval_rougeL"),
                                  preference_numbers(line, report::kOfEvaluation)});
    return;
  }
  report::StepMetrics metrics;
  metrics.step = step;
  metrics.epoch = number("epoch");
  metrics.loss = number_of(line.at("loss"));
  metrics.learning_rate = number_or_nan("learning_rate");
  metrics.grad_norm = number_or_nan("grad_norm");
  metrics.tokens = line.value("tokens", int64_t{0});
  metrics.tokens_per_second = number("tokens_per_second");
  metrics.interval_seconds = number("interval_seconds");
  metrics.step_seconds = number("step_seconds");
  metrics.live_bytes = line.value("live_bytes", int64_t{0});
  metrics.peak_bytes = line.value("peak_bytes", int64_t{0});
  metrics.more = preference_numbers(line, "");
  record.steps.push_back(std::move(metrics));
}

// A line without its end is what a killed run leaves: it does not count.
void read_metrics(const fs::path& file, RunRecord& record) {
  const std::string text = read_file(file, kLargestText);
  size_t begin = 0;
  for (int64_t number = 1; begin < text.size(); ++number) {
    const size_t end = text.find('\n', begin);
    if (end == std::string::npos) return;
    try {
      read_metrics_line(parse_json(std::string_view(text).substr(begin, end - begin), file.string()), record);
    } catch (const nlohmann::json::exception& error) {
      refuse(file, "line " + std::to_string(number) + ": " + reason_of(error));
    }
    begin = end + 1;
  }
}

const Json* find(const Json& memory, std::initializer_list<const char*> keys) {
  const Json* at = &memory;
  for (const char* key : keys) {
    if (!at->is_object()) return nullptr;
    const auto found = at->find(key);
    if (found == at->end()) return nullptr;
    at = &*found;
  }
  return at->is_null() ? nullptr : at;
}

[[noreturn]] void refuse_value(std::initializer_list<const char*> keys, const char* expected) {
  std::string place;
  for (const char* key : keys) place += (place.empty() ? "" : ".") + std::string(key);
  refuse("memory.json", place + ": expected " + expected);
}

}  // namespace

RunRecord read_run_record(const fs::path& folder) {
  if (!fs::is_directory(folder)) {
    throw UsageError(folder.string() + (fs::exists(folder) ? " is not a folder" : " does not exist"),
                     "give the output_dir of a run");
  }
  RunRecord record;
  record.memory = Json::object();
  std::error_code error;
  record.name = fs::weakly_canonical(folder, error).filename().string();
  const auto when_there = [&](const char* name, auto read) {
    const fs::path file = folder / name;
    if (!fs::exists(file)) return;
    if (!fs::is_regular_file(file)) refuse(file, "is not a file");
    record.files.emplace_back(name);
    read(file);
  };
  when_there("config.yaml", [&](const fs::path& file) { record.config = read_file(file, kLargestText); });
  when_there("metrics.jsonl", [&](const fs::path& file) { read_metrics(file, record); });
  when_there("timeline.json", [&](const fs::path& file) { read_timelines(file, record); });
  when_there("memory.json", [&](const fs::path& file) {
    record.memory = parse_object(file, kLargestText);
    if (const auto version = number_at(record.memory, {"schema_version"}); version != kKnownSchema) {
      refuse(file, "expected schema_version " + std::to_string(kKnownSchema));
    }
  });
  if (record.files.empty()) {
    throw UsageError(folder.string() + " holds no config.yaml, metrics.jsonl, timeline.json or memory.json",
                     "give the output_dir of a run");
  }
  return record;
}

void write_timelines(const fs::path& folder, const Timeline& predicted, const Timeline* measured) {
  Json timelines = Json::object();
  const auto add = [&](const char* name, const Timeline& timeline) {
    if (timeline.blocks.empty()) return;
    if (timeline.blocks.size() <= kMostBlocks) {
      timelines[name] = memory::to_json(timeline);
    } else {
      log_warning("timeline.json and the page are without the " + std::string(name) + " step: it has " +
                  format_count(std::ssize(timeline.blocks)) + " allocations, and a page draws at most " +
                  format_count(kMostBlocks));
    }
  };
  add("predicted", predicted);
  if (measured != nullptr) add("measured", *measured);
  write_file_atomically(folder / "timeline.json",
                        timelines.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

std::optional<int64_t> bytes_at(const Json& memory, std::initializer_list<const char*> keys) {
  const Json* value = find(memory, keys);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number_integer()) refuse_value(keys, "an integer");
  const auto bytes = value->get<int64_t>();
  if (bytes < 0) refuse_value(keys, "at least 0");
  return bytes;
}

std::optional<double> number_at(const Json& memory, std::initializer_list<const char*> keys) {
  const Json* value = find(memory, keys);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number() || !std::isfinite(value->get<double>())) refuse_value(keys, "a number");
  return value->get<double>();
}

std::string text_at(const Json& memory, std::initializer_list<const char*> keys) {
  const Json* value = find(memory, keys);
  if (value == nullptr) return "";
  if (!value->is_string()) refuse_value(keys, "a text");
  return value->get<std::string>();
}

const Json& list_at(const Json& memory, std::initializer_list<const char*> keys) {
  static const Json none = Json::array();
  const Json* value = find(memory, keys);
  if (value == nullptr) return none;
  if (!value->is_array()) refuse_value(keys, "a list");
  return *value;
}

}  // namespace fathom::page
