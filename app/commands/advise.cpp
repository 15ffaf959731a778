// `fathom advise`: what fits a budget or a GPU.
#include "app/commands/advise.h"

#include <algorithm>
#include <limits>

#include "app/commands/advise_planner.h"
#include "app/engine.h"
#include "app/run/planning.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json_value.h"
#include "base/output.h"
#include "config/checks.h"
#include "report/advice_table.h"
#include "report/advised_config.h"

namespace fathom::app {
namespace {

constexpr int64_t kLargestBatch = int64_t{1} << 20;  // where no data bound it

// The shortest length that leaves every file an example to learn from.
int64_t shortest_length(const schedule::RunInputs& inputs) {
  const auto of = [](const data::Dataset& dataset) {
    int64_t shortest = dataset.empty() ? 1 : std::numeric_limits<int64_t>::max();
    for (int64_t row = 0; row < dataset.row_count(); ++row) {
      const data::Example example = dataset.example(row);
      const auto target = std::find_if(example.labels.begin() + 1, example.labels.end(),
                                       [](int32_t label) { return label != data::kIgnored; });
      shortest = std::min<int64_t>(shortest, target - example.labels.begin() + 1);
    }
    return shortest;
  };
  return std::max(of(inputs.train), of(inputs.validation));
}

// Larger values change nothing: the data end, or the model does.
int64_t limit_of(plan::Vary vary, const Planner& planner, const config::RunConfig& run) {
  const schedule::RunInputs& inputs = planner.inputs();
  switch (vary) {
    case plan::Vary::kBatch:
      return planner.has_data() ? inputs.train.size() : kLargestBatch;
    case plan::Vary::kLength:
      if (!planner.has_data()) {
        return inputs.architecture.longest_text().value_or(
            std::max(run.max_length, inputs.architecture.max_position_embeddings));
      }
      return std::max(inputs.longest_train, inputs.longest_validation);
    case plan::Vary::kRank:
      break;
  }
  if (run.method != config::Method::kLora) {
    throw UsageError("--vary rank: the run trains every weight, and only adapters have a rank", "add method=lora");
  }
  return inputs.architecture.hidden_size;
}

report::AdviceSubject subject_of(Planner& planner, const plan::Question& question, const Advise& invocation) {
  report::AdviceSubject subject{question, {}, planner.why_not(), planner.free_bytes(), planner.desktop_bytes()};
  if (invocation.is_model) {
    subject.defaults = report::describe_defaults(invocation.words.overrides, question.run);
  }
  if (subject.as_it_is_refused.empty()) subject.as_it_is = question.prove(question.run.config);
  return subject;
}

void advise_value(plan::Vary vary, Planner& planner, const plan::Question& question, const Advise& invocation) {
  if (const std::string why = planner.why_not(); !why.empty()) throw UsageError(why);
  const report::AdviceSubject subject = subject_of(planner, question, invocation);
  const int64_t lowest = vary == plan::Vary::kLength ? shortest_length(planner.inputs()) : 1;
  const plan::Largest largest =
      plan::largest_that_fits(vary, {lowest, limit_of(vary, planner, question.run.config)}, question);
  planner.end();
  if (invocation.json) {
    print(format_json(report::largest_json(subject, vary, largest)));
  } else {
    print(report::format_largest(subject, vary, largest));
  }
}

// What leaves room for others comes first, be it slower; where nothing does, what fits with the most room.
plan::Advice search(Planner& planner, const arch::Run& run, const std::set<std::string>& keep) {
  if (planner.free_bytes() == 0) return plan::least_time_that_fits(planner.question(run), keep);
  plan::Advice careful = plan::least_time_that_fits(planner.question(run, /*careful=*/true), keep);
  if (careful.best) return careful;
  plan::Advice roomy = plan::most_room_that_fits(planner.question(run), keep);
  roomy.dry_runs += careful.dry_runs;
  roomy.reckoned += careful.reckoned;
  return roomy;
}

plan::Advice least_time(Planner& planner, const plan::Question& question, const std::set<std::string>& keep) {
  plan::Advice advice = search(planner, question.run, keep);
  const auto& smallest = advice.best ? advice.smallest_tried : advice.smallest;
  if (smallest && planner.gpu()) advice.enough = planner.enough_for(smallest->run, smallest->proof->need);
  return advice;
}

// Of each number the fastest settings of the run's method, as far as the data have a batch for every GPU.
void advise_gpus(Planner& planner, const plan::Question& question, const Advise& invocation) {
  constexpr int64_t kMost = 64;
  if (!planner.gpu()) throw UsageError("--vary gpus: there is no GPU here", "name one with --gpu");
  std::set<std::string> keep = invocation.keep;
  keep.insert("method");
  const int64_t rows = invocation.config.per_device_train_batch_size;
  std::vector<report::OfGpus> found;
  for (int64_t gpus = 1; gpus <= kMost; gpus *= 2) {
    if (gpus > 1 && planner.has_data() && planner.inputs().train.size() < gpus * rows) break;
    const config::RunConfig run =
        plan::with_processes(gpus == 1 ? plan::with_whole_models(question.run.config) : question.run.config, gpus);
    config::Problems problems("");
    config::check_together(run, {}, config::Purpose::kEstimate, problems);
    if (!problems.empty()) continue;  // of a strategy or an objective that stays
    found.push_back({gpus, search(planner, planner.resolved(run), keep).best});
  }
  const report::AdviceSubject subject = subject_of(planner, question, invocation);
  planner.end();
  const double price = planner.gpu()->price_per_hour;
  if (invocation.json) {
    print(format_json(report::gpus_json(subject, found, price)));
  } else {
    print(report::format_gpus(subject, found, price));
  }
}

// As the words have it with the advised settings: with their paths, and without what was chosen for the machine.
void write_config(const Advise& invocation, const report::AdviceSubject& subject, const plan::Advice& advice) {
  std::vector<std::string> words = invocation.words.overrides;
  const std::vector<std::string> settings = plan::settings_between(subject.question.run.config, advice.best->run);
  words.insert(words.end(), settings.begin(), settings.end());
  const std::string& model = invocation.words.subject;
  std::set<std::string> given;
  config::RunConfig run = invocation.is_model ? config::config_of_model(model, words)
                                              : config::load_config(model, words, config::Purpose::kEstimate, &given);
  for (const std::string& word : invocation.words.overrides) given.insert(word.substr(0, word.find('=')));
  if (!invocation.bound.empty()) {
    run.memory_budget = invocation.config.memory_budget;
    given.insert("memory_budget");
  }
  given.insert("model_name_or_path");
  if (run.output_dir.empty()) run.output_dir = "runs/" + std::filesystem::path(model).filename().string();
  std::string question = "fathom advise " + model;
  if (!invocation.within.name.empty()) question += " --gpu " + invocation.within.name;
  if (!invocation.kept.empty()) question += " --keep " + invocation.kept;
  if (!invocation.bound.empty()) question += " --budget " + invocation.bound;
  for (const std::string& word : invocation.words.overrides) question += " " + word;
  write_file_atomically(invocation.written, report::advised_config(subject, advice, run, given, question));
}

void advise_techniques(Planner& planner, const plan::Question& question, const Advise& invocation) {
  const report::AdviceSubject subject = subject_of(planner, question, invocation);
  const plan::Advice advice = least_time(planner, question, invocation.keep);
  std::optional<plan::Advice> same_method;
  if (advice.best && advice.best->run.method != question.run.config.method) {
    std::set<std::string> with_method = invocation.keep;
    with_method.insert("method");
    same_method = least_time(planner, question, with_method);
  }
  const std::vector<plan::Remedy> alone =
      plan::remedies(question.run, question.target, planner.workload_of(question.run), question.throughput);
  planner.end();
  if (advice.best && lost_updates(question.run).empty()) {
    warn_of_lost_updates(planner.resolved(advice.best->run));
  }
  const plan::Advice* other = same_method ? &*same_method : nullptr;
  if (!invocation.written.empty() && advice.best) write_config(invocation, subject, advice);
  if (invocation.json) {
    print(format_json(report::advice_json(subject, advice, other, alone)));
  } else {
    print(report::format_advice(subject, advice, other, alone));
    if (!invocation.written.empty()) {
      print(advice.best ? "\nconfig: " + invocation.written.string() + "\n"
                        : "\nNothing fits, and no config was written.\n");
    }
  }
}

int run_advise(const Advise& invocation) {
  const Session session = open_session(invocation);
  Planner planner(invocation, session, invocation.vary == plan::Vary::kLength, invocation.host_bytes);
  if (planner.inputs().architecture.encoder && invocation.vary == plan::Vary::kLength) {
    throw UsageError("--vary length: an encoder and decoder has two lengths, max_length and max_target_length",
                     "ask `fathom estimate` with the lengths that you have in mind");
  }
  warn_of_lost_updates(planner.run());
  const plan::Question question = planner.question(planner.run());
  if (invocation.varied == "gpus") {
    advise_gpus(planner, question, invocation);
  } else if (invocation.vary) {
    advise_value(*invocation.vary, planner, question, invocation);
  } else {
    advise_techniques(planner, question, invocation);
  }
  return 0;
}

const InEngine<run_advise> kAdvise;

}  // namespace
}  // namespace fathom::app
