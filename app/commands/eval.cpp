// `fathom eval`: loss and perplexity of a model on a file.
#include <array>
#include <cmath>
#include <cstdio>

#include "app/commands.h"
#include "app/evaluate.h"
#include "app/model.h"
#include "app/session.h"
#include "base/bytes.h"
#include "base/log.h"
#include "base/output.h"

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
  keep_within_budget(invocation, session);
  const auto [evaluation, taken] = evaluate(config, invocation, session);
  std::array<char, 96> result{};
  std::snprintf(result.data(), result.size(), "loss %.6f\nperplexity %.4f\n", evaluation.loss,
                std::exp(evaluation.loss));
  print(result.data() + ("target tokens " + std::to_string(evaluation.target_count) + "\n"));
  log_info(format_count(std::llround(static_cast<double>(evaluation.target_count) / taken.count())) +
           " target tokens per second, peak " + format_bytes(evaluation.memory.peak));
  return 0;
}

}  // namespace fathom::app
