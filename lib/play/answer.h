// The child's side of a plan for a GPU: questions in, dry runs on the phantom GPU of this process out.
#pragma once

#include <memory>
#include <string>

#include "arch/architecture.h"
#include "base/json.h"
#include "play/exchange.h"
#include "train/trainer.h"
#include "weights/folder.h"

namespace fathom::play {

class PhantomGpuPlayer {
 public:
  // placement: the CUDA device of this process, over the stub libraries. Its ledger and statistics are this object's
  // from now on.
  explicit PhantomGpuPlayer(const train::Placement& placement);

  // Plays the question from a clean start: nothing allocated, workspaces and caches empty, statistics at zero. What
  // goes wrong with it becomes {"error": message}; "last": true says that can_go_on() is false from now on.
  Json answer(const Json& question);
  // False when memory of a run is left that nothing gives back: another answer could depend on it.
  bool can_go_on() const { return clean_; }

 private:
  void start_over();
  plan::PhantomAnswer play(const plan::PhantomQuestion& question);
  const weights::ModelFolder& folder_of(const std::string& path);

  train::Placement placement_;
  bool clean_ = true;
  // Of the model last asked about: a search asks about one.
  std::string folder_path_;
  std::unique_ptr<weights::ModelFolder> folder_;
  arch::Architecture architecture_;
};

}  // namespace fathom::play
