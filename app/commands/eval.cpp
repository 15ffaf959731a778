// `fathom eval`: loss and perplexity of a model on a file.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "app/commands.h"
#include "app/model.h"
#include "app/session.h"
#include "base/log.h"
#include "train/inputs.h"
#include "train/steps.h"
#include "train/trainer.h"

namespace fathom::app {

int run_eval(const Invocation& invocation) {
  const config::RunConfig config = config_with_adapter(invocation);
  if (invocation.adapter.empty() && config.method == config::Method::kLora) {
    log_warning("without --adapter this is the base model, " + config.model_name_or_path +
                ", not what method: lora trained");
  }
  const Session session = open_session(invocation);
  const train::RunInputs inputs = train::open_inputs(config);
  int64_t capacity_tokens = 0;
  for (const train::BatchShape& shape : train::evaluation_shapes(config, inputs.validation)) {
    capacity_tokens = std::max(capacity_tokens, shape.rows * shape.length);
  }
  std::vector<data::Batch> batches;
  for (const auto& rows : train::evaluation_rows(config, inputs.validation)) {
    batches.push_back(train::batch_of(config, inputs.validation, rows, train::padding_id(inputs)));
  }
  train::Evaluator evaluator(config, inputs.shape, capacity_tokens, session.placement);
  load_weights(evaluator.model(), invocation, *inputs.folder);
  const train::Evaluation evaluation = evaluator.evaluate(batches);
  std::printf("loss %.6f\nperplexity %.4f\ntarget tokens %ld\n", evaluation.loss, std::exp(evaluation.loss),
              evaluation.target_count);
  return 0;
}

}  // namespace fathom::app
