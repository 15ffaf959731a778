// What a run's folder holds for its report. Files come from outside: each is read whole and checked, or refused.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "base/json_value.h"
#include "memory/timeline.h"
#include "report/metrics.h"

namespace fathom::page {

// A run that was interrupted lacks some of these.
struct RunRecord {
  std::string name;                                     // of the folder
  std::vector<std::string> files;                       // that were there, by their names
  std::string config;                                   // config.yaml as it stands; may be empty
  Json memory;                                          // memory.json, an object; empty if there is none
  std::optional<memory::Timeline> predicted, measured;  // timeline.json, of the step with the largest peak
  // metrics.jsonl; `more` has the numbers of preferences alone, those of evaluations by the names that steps have
  std::vector<report::StepMetrics> steps;
  std::vector<report::EvaluationMetrics> evaluations;
};

// Throws UsageError if the folder holds none of these files, Error if one of them is not what fathom writes.
RunRecord read_run_record(const std::filesystem::path& folder);

// timeline.json, written whole or not at all. An empty timeline (no blocks) is left out.
void write_timelines(const std::filesystem::path& folder, const memory::Timeline& predicted,
                     const memory::Timeline* measured);

// The integer at this place of memory.json; nullopt where a key lacks or the value is null; throws Error for a value of
// another kind, or a negative one where bytes are expected.
std::optional<int64_t> bytes_at(const Json& memory, std::initializer_list<const char*> keys);
std::optional<double> number_at(const Json& memory, std::initializer_list<const char*> keys);
std::string text_at(const Json& memory, std::initializer_list<const char*> keys);  // empty where there is none
// The array at this place; an empty one where there is none.
const Json& list_at(const Json& memory, std::initializer_list<const char*> keys);

}  // namespace fathom::page
