// What a run takes from its base model, as a hash: a checkpoint is of use on that base alone.
#pragma once

#include <string>

#include "config/run_config.h"
#include "weights/folder.h"

namespace fathom::schedule {

// XXH3-128 of config.json and, where the base is frozen, of the names, types and shapes of its tensors with samples of
// their bytes, however they are divided into files: other weights are told apart without reading them all. Full
// training has the weights themselves in its checkpoints.
std::string base_identity(const config::RunConfig& config, const weights::ModelFolder& folder);

}  // namespace fathom::schedule
