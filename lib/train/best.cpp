// Counts evaluations as transformers' EarlyStoppingCallback does, with a threshold of 0.
#include "train/best.h"

#include <cmath>

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

void EvaluationHistory::restore(const Json& json) {
  without_improvement_ = json.at("without_improvement").get<int64_t>();
  best_.reset();
  if (json.contains("best")) best_ = {json["best"].at("step").get<int64_t>(), json["best"].at("loss").get<double>()};
}

}  // namespace fathom::train
