// Inputs, model and weights opened, then one pass over the rows.
#include "app/run/evaluate.h"

#include <algorithm>
#include <vector>

#include "app/run/model.h"
#include "base/error.h"
#include "checkpoint/adapter.h"
#include "config/names.h"
#include "schedule/steps.h"
#include "train/inputs.h"
#include "train/score.h"

namespace fathom::app {

MeasuredEvaluation evaluate(const config::RunConfig& config, const ModelUse& invocation, const Session& session) {
  if (config::row_of(config.objective).needs_reference) {
    throw UsageError("objective: " + std::string(config::name_of(config.objective)) +
                         " holds a model against what it was, which an evaluation alone does not know",
                     "read eval_loss and the rewards in the run's metrics.jsonl, or set objective: sft");
  }
  const schedule::RunInputs inputs = train::open_inputs(config);
  train::BatchCapacity capacity(0);
  for (const schedule::BatchShape& shape : schedule::evaluation_shapes(config, inputs.validation)) {
    capacity.tokens = std::max(capacity.tokens, shape.rows * shape.length);
    capacity.source_tokens = std::max(capacity.source_tokens, shape.rows * shape.source_length);
  }
  const std::vector<std::vector<int64_t>> rows = schedule::evaluation_rows(config, inputs.validation);
  const auto batch_at = [&](int64_t index) {
    return schedule::batch_of(config, inputs.validation, rows[static_cast<size_t>(index)],
                              schedule::padding_id(inputs));
  };
  const arch::Run run = checkpoint::resolve_adapted(config, inputs.architecture);
  train::Evaluator evaluator(run, options_for_use(invocation, run, session.placement), capacity, session.placement);
  load_weights(evaluator.model(), invocation, *inputs.folder);
  const auto start = std::chrono::steady_clock::now();
  MeasuredEvaluation measured{evaluator.evaluate(std::ssize(rows), batch_at), std::nullopt, inputs.validation.size()};
  measured.taken = std::chrono::steady_clock::now() - start;
  if (config.predict_with_generate) {
    const train::ScoredAnswers scored = train::score_answers(config, inputs, evaluator);
    measured.answers = scored.scores;
    measured.evaluation.memory.merge(scored.memory);
  }
  return measured;
}

}  // namespace fathom::app
