// The folder of a run: taken only when it is free or resumed, marked when the run is played on a phantom GPU.
#pragma once

#include <filesystem>

#include "config/run_config.h"

namespace fathom::app {

// Makes output_dir, removes what killed writers left in it, and writes the resolved config.yaml into it. Throws
// UsageError if it is the model's own folder, if a phantom would take a real run's, or if it already holds a run or a
// model and this one does not resume it. phantom: marks the folder, so that nothing takes what is in it for a model
// (weights/folder.h).
void prepare_run_folder(const config::RunConfig& config, bool resumes, bool phantom);

}  // namespace fathom::app
