// Step shapes as JSON, to carry the steps to play to the child that plays them. No torch header.
#pragma once

#include "base/json.h"
#include "train/steps.h"

namespace fathom::plan {

Json to_json(const std::vector<train::StepShape>& steps);
std::vector<train::StepShape> steps_from_json(const Json& value);  // throws Error for a value of another form

}  // namespace fathom::plan
