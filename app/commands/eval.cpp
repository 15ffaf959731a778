// `fathom eval`: loss and perplexity of a model on a file.
#include "app/commands/eval.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "app/engine.h"
#include "app/run/evaluate.h"
#include "app/run/model.h"
#include "app/run/session.h"
#include "base/bytes.h"
#include "base/json_value.h"
#include "base/log.h"
#include "base/output.h"
#include "base/path.h"
#include "config/keys.h"

namespace fathom::app {

namespace {

// "the model runs/quickstart", "the adapter runs/lora on data/model".
std::string scored(const config::RunConfig& config) {
  const std::string& adapter = config.adapter_name_or_path;
  if (adapter.empty()) return "the model " + config.model_name_or_path;
  return "the adapter " + adapter + " on " + config.model_name_or_path;
}

std::string list_of(const std::vector<std::string>& files) {
  std::string list;
  for (const std::string& file : files) list += (list.empty() ? "" : ", ") + file;
  return list;
}

// What of which files.
std::string data_of(const config::RunConfig& config) {
  if (config.validation_split == 0) return list_of(config.validation_file);
  return "the " + config::find_key("validation_split")->get(config) + " of " + list_of(config.train_file) +
         " that seed " + std::to_string(config.seed) + " holds out";
}

// The config of a run names what it starts from; what it made lies in its folder.
void tell_of_the_trained(const Eval& invocation, const config::RunConfig& config) {
  const std::filesystem::path made = config.output_dir;
  if (!invocation.adapter.empty() || made.empty() || is_same_path(made, config.model_name_or_path)) return;
  for (const char* file : {"config.json", "adapter_config.json"}) {
    if (!std::filesystem::exists(made / file)) continue;
    log_warning("this is what the run starts from; what it trained: fathom eval " + made.string());
    return;
  }
}

Json as_json(const config::RunConfig& config, const MeasuredEvaluation& measured, double tokens_per_second) {
  const train::Evaluation& evaluation = measured.evaluation;
  const auto number = [](double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); };
  const auto share = [&](double (train::AnswerScores::*of)() const) {
    return measured.answers ? Json((*measured.answers.*of)()) : Json(nullptr);
  };
  return {{"model", config.model_name_or_path},
          {"adapter", config.adapter_name_or_path.empty() ? Json(nullptr) : Json(config.adapter_name_or_path)},
          {"data", config.validation_split == 0 ? config.validation_file : config.train_file},
          {"validation_split", config.validation_split},
          {"samples", measured.samples},
          {"target_tokens", evaluation.target_count},
          {"loss", number(evaluation.loss)},
          {"perplexity", number(std::exp(evaluation.loss))},
          {"exact_match", share(&train::AnswerScores::exact_match)},
          {"rougeL", share(&train::AnswerScores::rouge_l)},
          {"tokens_per_second", number(tokens_per_second)},
          {"peak_bytes", evaluation.memory.peak}};
}

int run_eval(const Eval& invocation) {
  config::RunConfig config = config_with_adapter(invocation);
  tell_of_the_trained(invocation, config);
  log_info("scoring " + scored(config) + ", on " + data_of(config));
  if (config.validation_split == 0) config.train_file.clear();
  const Session session = open_session(invocation);
  keep_within_budget(invocation.config.memory_budget, session);
  const MeasuredEvaluation measured = evaluate(config, invocation, session);
  const train::Evaluation& evaluation = measured.evaluation;
  const double tokens_per_second = static_cast<double>(evaluation.target_count) / measured.taken.count();
  if (invocation.json) {
    print(format_json(as_json(config, measured, tokens_per_second)));
    return 0;
  }
  std::array<char, 96> result{};
  std::snprintf(result.data(), result.size(), "loss %.6f\nperplexity %.4f\n", evaluation.loss,
                std::exp(evaluation.loss));
  print(result.data() + ("target tokens " + format_count(evaluation.target_count) + "\n"));
  if (measured.answers) {
    std::snprintf(result.data(), result.size(), "exact match %.4f\nROUGE-L %.4f\n", measured.answers->exact_match(),
                  measured.answers->rouge_l());
    print(result.data());
  }
  log_info(format_count(measured.samples) + " samples, " + format_count(std::llround(tokens_per_second)) +
           " target tokens per second, peak " + format_bytes(evaluation.memory.peak));
  return 0;
}

const InEngine<run_eval> kEval;

}  // namespace
}  // namespace fathom::app
