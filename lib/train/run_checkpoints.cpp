// When to wait for a checkpoint, and what to say of it.
#include "train/run_checkpoints.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "base/json_value.h"
#include "base/log.h"
#include "base/seconds_since.h"
#include "base/system_error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/disk_room.h"
#include "config/shards.h"
#include "schedule/inputs.h"
#include "train/agreement.h"
#include "weights/safetensors.h"
#include "weights/shared_safetensors.h"

namespace fathom::train {
namespace {

using Clock = std::chrono::steady_clock;

// Who write together where each has a share: of several copies of the model those of the first.
class Sharers final : public weights::Writers {
 public:
  Sharers(dist::Group& group, int64_t sharers) : group_(group), sharers_(sharers) {}
  bool is_first() const override { return group_.is_first(); }
  bool has_parts() const override { return group_.rank() < sharers_; }
  std::vector<std::string> gather(const std::string& text) override {
    group_.meet_after_files();
    return group_.gather(text);
  }
  std::vector<std::string> gather_to_first(const std::string& text) override { return group_.gather_to_first(text); }

 private:
  dist::Group& group_;
  int64_t sharers_;
};

bool is_not_finite(const std::exception& error) { return dynamic_cast<const weights::NotFinite*>(&error) != nullptr; }

Error failure(const std::string& what, const std::exception& error, const std::string& remedy_for_not_finite) {
  return Error(what + ": " + message_of(error), is_not_finite(error) ? remedy_for_not_finite : "");
}

}  // namespace

RunCheckpoints::RunCheckpoints(const config::RunConfig& config, checkpoint::ModelFiles files, Trainer& trainer,
                               Listener listener)
    : config_(config), files_(std::move(files)), trainer_(trainer), listener_(std::move(listener)) {
  if (trainer.holds_shares()) {
    writers_ = std::make_unique<Sharers>(*trainer.placement().group, config::shard_size(config));
  }
}

void RunCheckpoints::prepare(int64_t saves_to_come, std::optional<int64_t> resumed_step) const {
  if (trainer_.placement().is_first()) prepare_folder(saves_to_come, resumed_step);
  meet();
  if (writers_) checkpoint::require_shared(config_.output_dir, *writers_);
}

void RunCheckpoints::prepare_folder(int64_t saves_to_come, std::optional<int64_t> resumed_step) const {
  const std::filesystem::path folder = config_.output_dir;
  std::filesystem::create_directories(folder);
  checkpoint::require_places(folder, files_);
  checkpoint::remove_leftovers(folder);
  checkpoint::try_to_save(folder);
  if (resumed_step) {
    for (const std::filesystem::path& abandoned : checkpoint::set_aside_after(folder, *resumed_step)) {
      log_info("the run goes on from step " + std::to_string(*resumed_step) + ": a checkpoint of a later step is now " +
               abandoned.string() + ", which you may remove");
    }
  }
  const int64_t model = checkpoint::checkpoint_bytes(trainer_.parameters(), {}, files_);
  if (saves_to_come == 0) return checkpoint::require_room(folder, "the model", model);
  const int64_t one = checkpoint::checkpoint_bytes(trainer_.parameters(), trainer_.states(), files_);
  checkpoint::require_room(folder, "the first checkpoint", one);
  // The oldest goes when the newest is whole, so that for a moment there is one more than the limit.
  const int64_t limit = config_.save_total_limit;
  const int64_t kept =
      limit > 0 ? std::min(saves_to_come, limit + 1 - int64_t{resumed_step.has_value()}) : saves_to_come;
  const int64_t all = checked_add(checked_multiply(kept, one, "checkpoints"), model, "checkpoints and model");
  const int64_t free = checkpoint::free_bytes(folder);
  if (free < all) {
    log_warning("checkpoints and model of this run take up to " + format_bytes(all) + ", and the disk of " +
                folder.string() + " has " + format_bytes(free) + " free; lower save_total_limit or save less often");
  }
}

void RunCheckpoints::start(int64_t step, Json state) {
  checkpoint::Snapshot snapshot{trainer_.parameters(), trainer_.states(), std::move(state)};
  // The one that a signal asks for has no training to wait for it: the plan counts no copy for it.
  const bool copies = in_background() && schedule::saves_checkpoints(config_);
  if (copies) snapshot = checkpoint::on_host(std::move(snapshot));
  const bool apart = copies && !trainer_.placement().device.is_cpu() && !config_.offload_optimizer;
  writing_.start([this, step, snapshot = std::move(snapshot), apart](const std::function<void()>& state_was_read) {
    if (apart) state_was_read();
    const auto was_read = [&] {
      if (!apart) state_was_read();
      if (listener_.sync) listener_.sync();
    };
    std::filesystem::path saved =
        checkpoint::save(config_.output_dir, step, snapshot, files_, /*save_total_limit=*/0, was_read, writers_.get());
    try {
      if (trainer_.placement().is_first()) {
        checkpoint::remove_older(config_.output_dir, step, snapshot.state, config_.save_total_limit);
      }
    } catch (const std::exception& error) {
      not_removed_ = "an older checkpoint than that of step " + std::to_string(step) +
                     " could not be removed: " + message_of(error);
    }
    return saved;
  });
}

memory::Memory RunCheckpoints::save(int64_t step, const std::function<Json()>& state) {
  finish();
  const Clock::time_point begin = Clock::now();
  memory::Memory memory = trainer_.saving([&] {
    Json now = state();
    if (!trainer_.placement().is_first() && !trainer_.holds_shares()) return;
    start(step, std::move(now));
    if (!in_background()) writing_.wait_until_written();
  });
  step_ = step;
  is_read_ = !in_background();
  waited_seconds_ = seconds_since(begin);
  report_finished();  // a failure is told before the others are met, who wait elsewhere then
  meet();
  return memory;
}

void RunCheckpoints::wait_until_read() {
  if (std::exchange(is_read_, true)) return;
  const Clock::time_point begin = Clock::now();
  writing_.wait_until_read();
  meet();
  waited_seconds_ += seconds_since(begin);
}

void RunCheckpoints::report_finished() {
  std::optional<checkpoint::BackgroundSave::Finished> finished;
  try {
    finished = writing_.take_finished();
  } catch (const LostOthers&) {
    throw;
  } catch (const std::exception& error) {
    return go_on_without(error);
  }
  if (finished && !not_removed_.empty()) keep_failure(std::exchange(not_removed_, ""));
  if (finished && listener_.on_checkpoint) {
    listener_.on_checkpoint({step_, finished->folder, finished->seconds, waited_seconds_});
  }
}

void RunCheckpoints::go_on_without(const std::exception& error) {
  const Error told = failure("the checkpoint of step " + std::to_string(step_) + " could not be saved", error,
                             trainer_.remedy_for_not_finite());
  step_ = -1;
  if (is_not_finite(error) || is_disk_full()) throw told;
  keep_failure(told.what());
}

void RunCheckpoints::keep_failure(const std::string& failure, const std::string& what_follows) {
  if (trainer_.placement().is_first()) log_error(failure + "; " + what_follows);
  failures_.push_back(failure);
}

// Whether there is no room for another checkpoint. Of several processes that write together, as one of them finds it.
bool RunCheckpoints::is_disk_full() const {
  bool full = false;
  try {
    full = checkpoint::free_bytes(config_.output_dir) <
           checkpoint::checkpoint_bytes(trainer_.parameters(), trainer_.states(), files_);
  } catch (const std::exception&) {  // a folder is gone, and with it what would tell
  }
  return writers_ ? largest_of_all(trainer_.placement().group, full ? 1 : 0) != 0 : full;
}

void RunCheckpoints::finish() {
  const Clock::time_point begin = Clock::now();
  writing_.wait_until_written();
  waited_seconds_ += seconds_since(begin);
  report_finished();
  meet();
}

memory::Memory RunCheckpoints::write_model() {
  memory::Memory memory = trainer_.saving([&] {
    if (!trainer_.placement().is_first() && !trainer_.holds_shares()) return;
    const std::string what = "the final model could not be written", remedy = trainer_.remedy_for_not_finite();
    try {
      return write_model_once();
    } catch (const LostOthers&) {
      throw;
    } catch (const std::exception& error) {
      const Error told = failure(what, error, remedy);
      if (is_not_finite(error)) throw told;
      keep_failure(told.what(), "it is tried once more");
    }
    try {
      write_model_once();
    } catch (const LostOthers&) {
      throw;
    } catch (const std::exception& error) {
      throw failure(what, error, remedy);
    }
  });
  meet();
  return memory;
}

void RunCheckpoints::write_model_once() {
  checkpoint::write_model(config_.output_dir, trainer_.parameters(), files_, writers_.get());
}

void RunCheckpoints::meet() const {
  if (dist::Group* group = trainer_.placement().group) group->meet_after_files();
}

}  // namespace fathom::train
