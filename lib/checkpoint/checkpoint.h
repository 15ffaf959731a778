// A run on disk: trained parameters, optimizer states and the trainer's JSON, written so that a kill at any moment
// leaves only whole checkpoints behind, and read back only if every byte is the one that was written.
//
// output_dir/checkpoint-<step>/ holds the model's or adapter's files (model_files.h), optimizer.safetensors,
// trainer_state.json and, written last, manifest.json with the size and XXH3-128 of each. It comes into being by the
// renaming of .checkpoint-<step>.partial, after all of it is on the disk; what is deleted is renamed to
// .checkpoint-<step>.deleted first.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "base/json_value.h"
#include "checkpoint/model_files.h"
#include "checkpoint/named_tensors.h"
#include "weights/manifest.h"

namespace fathom::checkpoint {

struct Snapshot {
  NamedTensors parameters;  // the trained ones; a frozen base is not saved
  NamedTensors optimizer;   // on any device
  // An object: step, data position, random state, whatever the trainer needs. A number `best_step` names the checkpoint
  // that save_total_limit spares.
  Json state;
};

// The snapshot with its tensors of a GPU copied to pinned memory of the host; those of the CPU stay where they are.
Snapshot on_host(Snapshot snapshot);

// Writes output_dir/checkpoint-<step> and returns its path; on return it is on the disk. Reads tensors of the CPU where
// they lie and copies others one at a time to the host; after the last it calls state_was_read, where files that the
// state refers to must be synced unless they are already: the tensors may change from then on. writers: where each
// process has a share of the tensors, all of them call it with the same snapshot, of which the state is the first's;
// each writes its bytes, the first does all else, and where one fails all throw. One of the same step is replaced.
// Removes what killed saves left behind, and, once the new one is safe, the oldest checkpoints beyond save_total_limit
// (0: keeps all). Throws Error, before anything is written, if the disk has no room for it, and before anything is
// replaced or removed, if a weight is not finite.
std::filesystem::path save(const std::filesystem::path& output_dir, int64_t step, const Snapshot& snapshot,
                           const ModelFiles& files, int64_t save_total_limit,
                           const std::function<void()>& state_was_read = nullptr, weights::Writers* writers = nullptr);

// Does what a save does with names, on a folder that is gone again then: throws where folders cannot be made, written
// and renamed in output_dir, and where something that is no folder has the name of a checkpoint.
void try_to_save(const std::filesystem::path& output_dir);

// Removes the oldest checkpoints beyond save_total_limit, as `save` does. state: of the newest one, of this step.
void remove_older(const std::filesystem::path& output_dir, int64_t newest_step, const Json& state,
                  int64_t save_total_limit);

// Every process that will save with `writers` calls it, once the first has made the folder. Throws Error where this one
// does not see there what the first writes.
void require_shared(const std::filesystem::path& output_dir, weights::Writers& writers);

// Removes what killed saves and deletions left behind in a run's folder.
void remove_leftovers(const std::filesystem::path& output_dir);

// Before a run goes on from an earlier checkpoint of its folder: those of later steps are of a branch that it leaves,
// and become abandoned-checkpoint-<step>, which nothing here looks at again. Returns where they are now.
std::vector<std::filesystem::path> set_aside_after(const std::filesystem::path& output_dir, int64_t step);
// Whether the folder bears such a name.
bool is_set_aside(const std::filesystem::path& folder);

// A checkpoint that was found whole.
class Checkpoint {
 public:
  // Reads the manifest and verifies size and hash of every file, and that all weights are finite; throws Error that
  // says what is damaged, missing or not. readers: all of them call it with the same folder, each reads its part, and
  // all find the same.
  explicit Checkpoint(const std::filesystem::path& folder, weights::Readers* readers = nullptr);

  const std::filesystem::path& folder() const { return folder_; }
  int64_t step() const { return step_; }
  const Json& state() const { return state_; }
  // Copies straight from the mapped files into existing tensors, without a second copy of the whole. Throws Error
  // unless names, shapes and dtypes are exactly those that were saved.
  void copy_into(const NamedTensors& parameters, const NamedTensors& optimizer) const;
  void copy_into(const NamedTensors& parameters) const;  // these alone

 private:
  std::filesystem::path folder_;
  int64_t step_ = 0;
  bool is_adapter_ = false;
  Json state_;
};

// output_dir/checkpoint-<step>.
std::filesystem::path folder_of(const std::filesystem::path& output_dir, int64_t step);

// The sound checkpoint of the highest step; those that are not sound are skipped with a warning that says why. Unset if
// there is none. readers as above.
std::optional<Checkpoint> find_newest(const std::filesystem::path& output_dir, weights::Readers* readers = nullptr);
// The folder of that of the highest step, sound or not.
std::optional<std::filesystem::path> newest_folder(const std::filesystem::path& output_dir);

}  // namespace fathom::checkpoint
