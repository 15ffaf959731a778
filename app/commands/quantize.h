// `fathom quantize` on the command line.
#pragma once

#include "app/words/shared_options.h"
#include "quant/format_names.h"

namespace fathom::app {

class Quantize final : public ModelUse {
 public:
  Quantize()
      : ModelUse("quantize", "A model in fewer bits: a folder that fathom and transformers load, and what it cost") {}
  std::vector<Option> options() override {
    return {words.subject_option("MODEL", "A model folder"),
            Option("--format", format, "F", "Of its projections; fp32, fp16, bf16: of all weights")
                .require()
                .one_of(quant::format_names()),
            Option("--out", out, "DIR", "The folder to make").require(),
            {"--eval", evaluated, "FILE", "Also the loss on this file, before and after"},
            json_option(json),
            words.overrides_option()};
  }
  void complete() override {
    config = config::config_of_model(words.subject, words.overrides);
    refuse_no_model(name, config.model_name_or_path);
    if (!evaluated.empty()) config.validation_file = {evaluated};
    choose_device(*this);
  }

  ConfigWords words;
  std::string format;         // one of quant/format_names.h
  std::filesystem::path out;  // the folder to make
  std::string evaluated;      // a file; empty: none
  bool json = false;
};

}  // namespace fathom::app
