// Counts evaluations as transformers' EarlyStoppingCallback does, with a threshold of 0.
#include "train/best.h"

#include <cmath>

#include "base/error.h"
#include "base/json_value.h"

namespace fathom::train {

bool EvaluationHistory::add(int64_t step, double loss) {
  if (best_ ? loss < best_->loss : std::isfinite(loss)) {
    best_ = {step, loss};
    without_improvement_ = 0;
    return true;
  }
  ++without_improvement_;
  return false;
}

Json EvaluationHistory::to_json() const {
  Json json = {{"without_improvement", without_improvement_}};
  if (best_) json["best"] = {{"step", best_->step}, {"loss", best_->loss}};
  return json;
}

EvaluationHistory EvaluationHistory::from_json(const Json& json) {
  EvaluationHistory history(0);
  history.without_improvement_ = count_at(json, "without_improvement");
  if (!json.contains("best")) return history;
  const Json& best = json.at("best");
  const int64_t step = count_at(best, "step");
  if (!best.contains("loss") || !best.at("loss").is_number()) throw Error("best: expected a loss, got " + best.dump());
  history.best_ = {step, best.at("loss").get<double>()};
  return history;
}

}  // namespace fathom::train
