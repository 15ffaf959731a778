// Memory figures to JSON and back.
#include "memory/memory_json.h"

#include "base/error.h"
#include "base/json_reason.h"
#include "base/json_value.h"

namespace fathom::memory {
namespace {

Json to_json(const ComponentBytes& bytes) { return Json(bytes.bytes); }

ComponentBytes bytes_from_json(const Json& value) {
  ComponentBytes result;
  result.bytes = value.get<std::array<int64_t, kComponentCount>>();
  return result;
}

}  // namespace

Json to_json(const Memory& memory) {
  Json phases = Json::array();
  for (const Memory::PhaseMemory& phase : memory.phases) {
    phases.push_back(
        {{"seen", phase.seen}, {"peak", phase.peak}, {"at_peak", to_json(phase.at_peak)}, {"end", to_json(phase.end)}});
  }
  return {{"peak", memory.peak},
          {"at_peak", to_json(memory.at_peak)},
          {"maximum", to_json(memory.maximum)},
          {"phases", phases},
          {"kernel_scratch", memory.kernel_scratch},
          {"peak_with_scratch", memory.peak_with_scratch}};
}

Memory memory_from_json(const Json& value) try {
  Memory memory;
  memory.peak = value.at("peak").get<int64_t>();
  memory.at_peak = bytes_from_json(value.at("at_peak"));
  memory.maximum = bytes_from_json(value.at("maximum"));
  memory.kernel_scratch = value.at("kernel_scratch").get<int64_t>();
  memory.peak_with_scratch = value.at("peak_with_scratch").get<int64_t>();
  for (int i = 0; i < kPhaseCount; ++i) {
    const Json& phase = value.at("phases").at(i);
    memory.phases[i].seen = phase.at("seen").get<bool>();
    memory.phases[i].peak = phase.at("peak").get<int64_t>();
    memory.phases[i].at_peak = bytes_from_json(phase.at("at_peak"));
    memory.phases[i].end = bytes_from_json(phase.at("end"));
  }
  return memory;
} catch (const nlohmann::json::exception& error) {
  throw Error(std::string("a record of memory has another form than expected: ") + reason_of(error));
}

}  // namespace fathom::memory
