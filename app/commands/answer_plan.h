// `fathom answer-plan` on the command line: the child process that plays plans.
#pragma once

#include "app/words/shared_options.h"

namespace fathom::app {

class AnswerPlan final : public Invocation {
 public:
  AnswerPlan() : Invocation("answer-plan") {}
  std::vector<Option> options() override {
    return {Option("--name", played.name).require(), Option("--capability", played.compute_capability).require(),
            Option("--multiprocessors", played.multiprocessors).require(),
            Option("--memory", played.memory_bytes).require()};
  }
  void complete() override {
    phantom_gpu = played;
    config.cuda_kernels = false;  // each question says what its run takes
    choose_device(*this);
  }

  config::GpuSpec played;  // any, listed or not
};

}  // namespace fathom::app
