// The best evaluation of a run so far, and whether there has been none better for too long.
#pragma once

#include <cstdint>
#include <optional>

#include "base/json.h"

namespace fathom::train {

struct EvaluatedStep {
  int64_t step = 0;
  double loss = 0;
};

class EvaluationHistory {
 public:
  // patience: evaluations in a row without a better loss after which the run should end; 0: never.
  explicit EvaluationHistory(int64_t patience) : patience_(patience) {}
  // As another left off, with a patience of its own.
  EvaluationHistory(int64_t patience, const EvaluationHistory& so_far) : EvaluationHistory(so_far) {
    patience_ = patience;
  }

  // Whether the loss is below all before; one that is not finite never is.
  bool add(int64_t step, double loss);
  const std::optional<EvaluatedStep>& best() const { return best_; }
  bool out_of_patience() const { return patience_ > 0 && without_improvement_ >= patience_; }
  // The next evaluation counts as the first.
  void forget() { *this = EvaluationHistory(patience_); }

  // For a checkpoint. Patience is the config's, not the checkpoint's.
  Json to_json() const;
  // Without patience. Throws Error for what to_json does not write.
  static EvaluationHistory from_json(const Json& json);

 private:
  int64_t patience_;
  std::optional<EvaluatedStep> best_;
  int64_t without_improvement_ = 0;
};

}  // namespace fathom::train
