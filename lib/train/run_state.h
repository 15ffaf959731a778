// What a checkpoint keeps of a run beside its tensors: trainer_state.json as a value.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json_value.h"
#include "checkpoint/checkpoint.h"
#include "config/settings.h"
#include "data/batch.h"
#include "optim/loss_scale.h"
#include "train/best.h"

namespace fathom::train {

// The counters of a run beyond its tensors.
struct Counters {
  int64_t step = 0;
  int64_t tokens = 0;                  // of the run so far
  int64_t peak_bytes = 0;              // likewise, the largest live bytes
  double window_loss = 0;              // sum over the target tokens, or preferences, since the last logged step
  double window_router_loss = 0;       // likewise, of what routers add
  std::vector<double> window_numbers;  // likewise, of Evaluator::number_names; empty: zeros
  int64_t window_targets = 0;
  int64_t window_steps = 0, window_clipped = 0;  // steps since the last logged one, and those that were clipped

  // Of a sum over the window's targets. Not a number where every step of it was skipped.
  double window_mean(double sum) const;
  std::vector<double> window_means() const;  // of window_numbers
  // A step's means, over so many targets.
  void add(int64_t targets, double loss, double router_loss, const std::vector<double>& numbers);
  double clipped_share() const { return static_cast<double>(window_clipped) / static_cast<double>(window_steps); }
  void begin_window();
};

// What the observer of a run keeps: sizes of files that it writes, by names of its own.
using ObserverState = std::map<std::string, int64_t>;

struct RunState {
  config::Settings config;  // steps_identity
  std::string base;         // base_identity; empty: of an earlier version, which had none
  std::string data;         // the training data's fingerprint
  std::string validation;   // likewise; empty as `base`
  std::string reference;    // the digest of its file (reference.h); empty: the objective asks for none
  std::string date;         // of the run (run_date.h)
  Counters counters;
  int64_t optimizer_steps = 0;  // those that were not skipped
  data::Position position;
  EvaluationHistory evaluations{0};
  bool evaluation_due = false;
  std::optional<int64_t> best_step;  // the checkpoint that save_total_limit spares
  std::string best_folder;           // of that checkpoint, where it is not of this run's folder
  std::optional<EvaluatedStep> first_evaluation;
  std::optional<optim::LossScale> loss_scale;  // where products are in FP16
  Json random;                                 // random_state.h
  std::vector<Json> random_of_others;          // where several processes trained, of those after the first, by ranks
  int64_t threads = 0;
  ObserverState observer;
};

Json to_json(const RunState& state);
// Throws Error, naming the key, for a state that no run has saved: files of the right hash may be of another version,
// or made by hand. What an earlier version did not write yet is as in a run that has just begun.
RunState run_state_from_json(const Json& json);
// The same of a checkpoint, whose step it must be; errors name the file.
RunState run_state(const checkpoint::Checkpoint& checkpoint);
// The checkpoint in output_dir of this evaluation, the best of its own run too. Throws Error where it is not sound, or
// of another evaluation. readers as Checkpoint's.
checkpoint::Checkpoint checkpoint_of(const std::filesystem::path& output_dir, const EvaluatedStep& evaluated,
                                     weights::Readers* readers);

}  // namespace fathom::train
