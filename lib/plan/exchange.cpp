// Memory figures and step shapes to JSON and back.
#include "plan/exchange.h"

#include "base/error.h"

namespace fathom::plan {
namespace {

Json to_json(const ledger::ComponentBytes& bytes) { return Json(bytes.bytes); }

ledger::ComponentBytes bytes_from_json(const Json& value) {
  ledger::ComponentBytes result;
  result.bytes = value.get<std::array<int64_t, ledger::kComponentCount>>();
  return result;
}

}  // namespace

Json to_json(const ledger::Memory& memory) {
  Json phases = Json::array();
  for (const ledger::Memory::PhaseMemory& phase : memory.phases) {
    phases.push_back(
        {{"seen", phase.seen}, {"peak", phase.peak}, {"at_peak", to_json(phase.at_peak)}, {"end", to_json(phase.end)}});
  }
  return {{"peak", memory.peak},
          {"at_peak", to_json(memory.at_peak)},
          {"maximum", to_json(memory.maximum)},
          {"phases", phases},
          {"kernel_scratch", memory.kernel_scratch}};
}

ledger::Memory memory_from_json(const Json& value) try {
  ledger::Memory memory;
  memory.peak = value.at("peak").get<int64_t>();
  memory.at_peak = bytes_from_json(value.at("at_peak"));
  memory.maximum = bytes_from_json(value.at("maximum"));
  memory.kernel_scratch = value.at("kernel_scratch").get<int64_t>();
  for (int i = 0; i < ledger::kPhaseCount; ++i) {
    const Json& phase = value.at("phases").at(i);
    memory.phases[i].seen = phase.at("seen").get<bool>();
    memory.phases[i].peak = phase.at("peak").get<int64_t>();
    memory.phases[i].at_peak = bytes_from_json(phase.at("at_peak"));
    memory.phases[i].end = bytes_from_json(phase.at("end"));
  }
  return memory;
} catch (const nlohmann::json::exception& error) {
  throw Error(std::string("the dry run's answer has another form than expected: ") + error.what());
}

Json to_json(const std::vector<train::StepShape>& steps) {
  Json result = Json::array();
  for (const train::StepShape& step : steps) {
    Json batches = Json::array();
    for (const train::BatchShape& batch : step) batches.push_back({batch.rows, batch.length});
    result.push_back(batches);
  }
  return result;
}

std::vector<train::StepShape> steps_from_json(const Json& value) try {
  std::vector<train::StepShape> steps;
  for (const Json& step : value) {
    train::StepShape shape;
    for (const Json& batch : step) shape.push_back({batch.at(0).get<int64_t>(), batch.at(1).get<int64_t>()});
    steps.push_back(std::move(shape));
  }
  return steps;
} catch (const nlohmann::json::exception& error) {
  throw Error(std::string("the steps to play have another form than expected: ") + error.what());
}

}  // namespace fathom::plan
