// The loss of a model, for the commands that measure one.
#pragma once

#include <chrono>
#include <optional>

#include "app/run/session.h"
#include "app/words/shared_options.h"
#include "train/answer_scores.h"
#include "train/trainer.h"

namespace fathom::app {

struct MeasuredEvaluation {
  train::Evaluation evaluation;
  std::optional<train::AnswerScores> answers;  // where the config asks for them
  int64_t samples = 0;
  std::chrono::duration<double> taken{};  // by the evaluation alone: data and weights were read before
};
// Of config.model_name_or_path, with the command's adapter and --activations, on the config's validation rows.
MeasuredEvaluation evaluate(const config::RunConfig& config, const ModelUse& invocation, const Session& session);

}  // namespace fathom::app
