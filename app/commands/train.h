// `fathom train` on the command line.
#pragma once

#include "app/shared_options.h"

namespace fathom::app {

class Train final : public Invocation {
 public:
  Train() : Invocation("train", "Fine-tune: plans first, refuses what cannot fit, resumes if told") {}
  std::vector<Option> options() override {
    return {words.subject_option("CONFIG", "A YAML file"),
            pretended.name_option("--phantom-gpu", "Play the run on a GPU of configs/gpus.yaml that is not there"),
            pretended.memory_option("with --phantom-gpu NAME"),
            {"--placement", placement},
            {"--segments", segments},
            {"--trace", trace},
            {"--profile", profile, "FILE.json", "Also a trace of three steps by LibTorch's profiler, for Perfetto"},
            {"--force", force, "", "Also what is predicted not to fit"},
            words.overrides_option()};
  }
  void complete() override {
    config = words.read(name, config::Purpose::kTrain);
    phantom_gpu = pretended.find();
    choose_device(*this);
  }

  ConfigWords words;
  GpuWords pretended;
  std::filesystem::path profile;  // a file for LibTorch's profile of a few steps; empty: none
  bool force = false;             // also what is predicted not to fit
};

}  // namespace fathom::app
