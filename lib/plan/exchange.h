// Memory figures as JSON, to carry a dry run's answer from the child that plays it. No torch header.
#pragma once

#include "base/json.h"
#include "ledger/component.h"
#include "train/steps.h"

namespace fathom::plan {

Json to_json(const ledger::Memory& memory);
ledger::Memory memory_from_json(const Json& value);  // throws Error for a value of another form
Json to_json(const std::vector<train::StepShape>& steps);
std::vector<train::StepShape> steps_from_json(const Json& value);

}  // namespace fathom::plan
