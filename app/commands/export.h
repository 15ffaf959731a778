// `fathom export` on the command line.
#pragma once

#include "app/invocation.h"

namespace fathom::app {

class Export final : public Invocation {
 public:
  Export() : Invocation("export", "A run as a folder of its own for transformers or PEFT") {}
  std::vector<Option> options() override {
    return {Option("RUN|CHECKPOINT", subject, "", "A run's output_dir, a checkpoint in it, or an adapter's folder")
                .require(),
            Option("--out", out, "DIR", "The folder to make").require(),
            {"--merge", merge, "", "The adapter added to its base: a whole model, in the base's dtype"},
            {"--base", base, "DIR", "The base model, if it is not where the adapter says"}};
  }

  std::filesystem::path subject, out;
  bool merge = false;          // the adapter into its base
  std::filesystem::path base;  // in place of the one that the adapter names; empty: that one
};

}  // namespace fathom::app
