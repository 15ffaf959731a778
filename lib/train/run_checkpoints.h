// The checkpoints that a run writes while it trains, and the model at its end.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/background_save.h"
#include "checkpoint/model_files.h"
#include "config/run_config.h"
#include "train/trainer.h"

namespace fathom::train {

struct CheckpointReport {
  int64_t step = 0;
  std::filesystem::path folder;
  double seconds = 0;         // from the start of the write to its end
  double waited_seconds = 0;  // that training stood still for it
};

// Called by the thread that trains. A checkpoint that cannot be saved does not end the run: it is told, kept in
// failures(), and the run goes on to the next one and to its model. What ends it, in the next of these calls, are
// weights that are not finite, and a disk that has no room for a checkpoint: the earlier ones are worth more then.
class RunCheckpoints {
 public:
  struct Listener {
    std::function<void(const CheckpointReport&)> on_checkpoint;  // one has become whole
    std::function<void()> sync;                                  // by the writing thread, before one becomes whole
  };

  RunCheckpoints(const config::RunConfig& config, checkpoint::ModelFiles files, Trainer& trainer, Listener listener);

  // Removes what killed saves left in output_dir, tries what a save does, sets aside the checkpoints of steps after
  // `resumed_step`, from which a run goes on there, and asks for places and room: throws Error if the model's files
  // cannot take theirs, or if there is no room for the first checkpoint, or for the model where no checkpoint is to
  // come; warns if there is not enough for all that will be kept. Throws Error where processes that write together do
  // not share output_dir.
  void prepare(int64_t saves_to_come, std::optional<int64_t> resumed_step) const;

  // Saves parameters, optimizer and state() as of now: in the background as the config says, after the save before. Of
  // several processes that each have the whole model the first alone writes; each asks for the state, for which they
  // may exchange what they have.
  memory::Memory save(int64_t step, const std::function<Json()>& state);
  int64_t newest_step() const { return step_; }  // that was given to `save`, and has not failed; else -1
  const std::vector<std::string>& failures() const { return failures_; }
  // Returns once a save in the background has read the state, which may change from then on. Every process calls it,
  // and of several all return together.
  void wait_until_read();
  // Whether this process writes nothing any more, after so long at most.
  bool ends_within(std::chrono::milliseconds time) const { return writing_.ends_within(time); }
  // Tells of a checkpoint that has become whole, without waiting.
  void report_finished();
  // Waits for the save in the background, and tells of it.
  void finish();

  // The final model or adapter, beside the checkpoints; where it fails, once more.
  memory::Memory write_model();

 private:
  void prepare_folder(int64_t saves_to_come, std::optional<int64_t> resumed_step) const;
  void start(int64_t step, Json state);
  void go_on_without(const std::exception& error);
  void keep_failure(const std::string& failure, const std::string& what_follows = "the run goes on");
  bool is_disk_full() const;
  void write_model_once();
  void meet() const;  // of several processes, for as long as it takes one to write
  // What processes write together they write before they go on.
  bool in_background() const { return config_.save_in_background && !trainer_.holds_shares(); }

  const config::RunConfig& config_;
  const checkpoint::ModelFiles files_;
  Trainer& trainer_;
  const Listener listener_;
  std::unique_ptr<weights::Writers> writers_;  // null: this process has all that it writes
  std::vector<std::string> failures_;
  std::string not_removed_;  // why an older checkpoint is there still; of the thread that writes, until it has ended
  int64_t step_ = -1;
  bool is_read_ = true;  // by the save of step_: the state
  double waited_seconds_ = 0;
  checkpoint::BackgroundSave writing_;  // last: it ends before what it uses
};

}  // namespace fathom::train
