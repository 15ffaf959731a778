// `fathom eval`: loss and perplexity of a model on a file.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "app/commands.h"
#include "app/model.h"
#include "app/session.h"
#include "base/bytes.h"
#include "base/log.h"
#include "train/inputs.h"
#include "train/steps.h"
#include "train/trainer.h"

namespace fathom::app {

int run_eval(const Invocation& invocation) {
  config::RunConfig config = config_with_adapter(invocation);
  if (invocation.adapter.empty() && config.method == config::Method::kLora) {
    const std::string evaluated = config.adapter_name_or_path.empty()
                                      ? "the base model, " + config.model_name_or_path
                                      : "the adapter that training starts from, " + config.adapter_name_or_path;
    log_warning("without --adapter this is " + evaluated + ", not what method: lora trained");
  }
  if (config.validation_split == 0) config.train_file.clear();
  const Session session = open_session(invocation);
  const train::RunInputs inputs = train::open_inputs(config);
  int64_t capacity_tokens = 0;
  for (const train::BatchShape& shape : train::evaluation_shapes(config, inputs.validation)) {
    capacity_tokens = std::max(capacity_tokens, shape.rows * shape.length);
  }
  const std::vector<std::vector<int64_t>> rows = train::evaluation_rows(config, inputs.validation);
  const auto batch_at = [&](int64_t index) {
    return train::batch_of(config, inputs.validation, rows[static_cast<size_t>(index)], train::padding_id(inputs));
  };
  const model::ModelOptions options = options_for_use(invocation, config, inputs.shape, session.placement);
  train::Evaluator evaluator(config, inputs.shape, options, capacity_tokens, session.placement);
  load_weights(evaluator.model(), invocation, *inputs.folder);
  const auto start = std::chrono::steady_clock::now();
  const train::Evaluation evaluation = evaluator.evaluate(std::ssize(rows), batch_at);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  std::printf("loss %.6f\nperplexity %.4f\ntarget tokens %ld\n", evaluation.loss, std::exp(evaluation.loss),
              evaluation.target_count);
  log_info(format_count(std::llround(static_cast<double>(evaluation.target_count) / taken.count())) +
           " target tokens per second, peak " + format_bytes(evaluation.memory.peak));
  return 0;
}

}  // namespace fathom::app
