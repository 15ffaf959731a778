// `fathom eval` on the command line.
#pragma once

#include "app/words/shared_options.h"

namespace fathom::app {

class Eval final : public ModelUse {
 public:
  Eval() : ModelUse("eval", "Loss and perplexity on validation_file") {}
  std::vector<Option> options() override {
    return {words.subject_option("CONFIG|RUN|MODEL",
                                 "A YAML file, whose model is scored, a run's folder: what it trained, or a model's, "
                                 "with validation_file=FILE"),
            adapter_option(), activations_option(), json_option(json), words.overrides_option()};
  }
  void complete() override {
    config = std::filesystem::is_directory(words.subject)
                 ? config_of_folder()
                 : config::load_config(words.subject, words.overrides, config::Purpose::kEvaluate);
    config.num_processes = 1;  // those are of training
    refuse_no_model(name, config.model_name_or_path);
    choose_device(*this);
  }

  ConfigWords words;
  bool json = false;

 private:
  // What a run trained, on what it is evaluated on; a model that belongs to none, on what the command line names.
  config::RunConfig config_of_folder() {
    const UsedModel used = find_used_model(words.subject);
    if (adapter.empty()) adapter = used.adapter;
    if (used.run.empty()) return config::config_of_model(used.model, words.overrides, config::Purpose::kEvaluate);
    std::vector<std::string> overrides = words.overrides;
    overrides.insert(overrides.begin(), "model_name_or_path=" + used.model);
    if (used.adapter.empty()) overrides.emplace_back("random_init=false");
    return config::load_config(used.run, overrides, config::Purpose::kEvaluate);
  }
};

}  // namespace fathom::app
