// Step shapes to JSON and back.
#include "plan/exchange.h"

#include "base/error.h"

namespace fathom::plan {

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
