// Puts an answer into the words of memory.json.
#include "page/script_record.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "memory/component.h"

namespace fathom::page {

RunRecord script_record(const report::ScriptAnswer& answer, Json facts) {
  if (answer.processes.empty()) throw Error("no process has used the GPU, so there is no page of it");
  const report::ScriptProcess& fullest = report::fullest_of(answer.processes);
  RunRecord record;
  const size_t words = answer.command.find(" -- ");
  record.name = words == std::string::npos ? answer.command : answer.command.substr(words + 4);
  if (answer.found) {
    record.name += ", with " + answer.found->word + " " + std::to_string(std::max<int64_t>(1, answer.found->number));
  }
  record.predicted = fullest.timeline;
  Json components = Json::object();
  for (const memory::Component component : memory::kComponents) {
    components[std::string(component_name(component))] = {{"dry_run", fullest.components[component]}};
  }
  facts["kind"] = "plan";
  facts["seconds"] = answer.seconds;
  facts["command"] = answer.command;
  record.memory = {
      {"run", std::move(facts)},
      {"target",
       {{"device", "cuda"}, {"name", answer.gpu.name}, {"capacity", answer.gpu.memory_bytes}, {"phantom", true}}},
      {"peak", {{"dry_run", fullest.requested}}},
      {"reserved", {{"dry_run", fullest.reserved}}},
      {"components", components}};
  if (fullest.refusal) {
    record.memory["missing"] = fullest.refusal->bytes;
    record.memory["ran_out"] = describe(*fullest.refusal);
  }
  return record;
}

}  // namespace fathom::page
