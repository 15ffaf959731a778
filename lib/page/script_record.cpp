// Puts an answer into the words of memory.json.
#include "page/script_record.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/json_value.h"
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
  for (const auto& [device, share] : answer.devices) {
    if (share.processes > 1 && share.bytes > fullest.reserved) record.memory["needed"] = share.bytes;
  }
  if (fullest.refusal) {
    record.memory["missing"] = fullest.refusal->bytes;
    record.memory["ran_out"] = describe(*fullest.refusal);
  } else if (const auto device = answer.full()) {
    record.memory["missing"] = answer.devices.at(*device).bytes - answer.gpu.memory_bytes;
    record.memory["ran_out"] = describe_full(answer);
  } else if (!answer.fits()) {
    record.memory["fit"] = "not known";
    std::string why;
    for (const std::string& reason : answer.unknown()) why += (why.empty() ? "" : "; ") + reason;
    record.memory["why_not_known"] = why;
  }
  return record;
}

}  // namespace fathom::page
