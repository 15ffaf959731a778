// `fathom train` on the command line.
#pragma once

#include "app/words/shared_options.h"
#include "base/log.h"
#include "base/output.h"
#include "launch/processes.h"

namespace fathom::app {

class Train;
// In train_processes.cpp, for the program alone.
void complete_train(Train& train);
int run_processes(const Train& train);

// Of several processes the first tells of the run, and each of its errors.
inline void speak_as(const launch::Processes& processes) {
  if (processes.rank == 0) return;
  log_errors_alone("rank " + std::to_string(processes.rank));
  print_nothing();
}

class Train final : public Invocation {
 public:
  Train() : Invocation("train", "Fine-tune: plans first, refuses what cannot fit, resumes if told") {}
  std::vector<Option> options() override {
    return {words.subject_option("CONFIG|MODEL", "A YAML file, or a model's folder, with the other keys behind it"),
            pretended.name_option("--phantom-gpu", "Play the run on a GPU of configs/gpus.yaml that is not there"),
            pretended.memory_option("with --phantom-gpu NAME"),
            {"--placement", placement},
            {"--segments", segments},
            {"--trace", trace},
            {"--planned-trace", planned_trace},
            {"--profile", profile, "FILE.json", "Also a trace of three steps by LibTorch's profiler, for Perfetto"},
            {"--force", force, "", "Also what is predicted not to fit"},
            words.overrides_option()};
  }
  void complete() override { complete_train(*this); }
  // Starts the processes of the run, or is one of them.
  int run() const override { return run_processes(*this); }

  ConfigWords words;
  GpuWords pretended;
  std::filesystem::path profile;               // a file for LibTorch's profile of a few steps; empty: none
  bool own_accumulation = false;               // the words give gradient_accumulation_steps
  bool force = false;                          // also what is predicted not to fit
  std::optional<launch::Processes> processes;  // unset: alone, or those that this one starts
  std::optional<launch::Node> node;            // of those that this one starts; unset: all of them
};

}  // namespace fathom::app
