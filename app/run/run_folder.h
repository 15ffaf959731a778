// The folder of a run: taken only when it is free or resumed, by one run at a time, marked when the run is played on a
// phantom GPU.
#pragma once

#include "base/descriptor.h"
#include "config/run_config.h"

namespace fathom::app {

// Throws as prepare_run_folder would where that can be told before anything is read: what a run would then find out
// after its data are tokenized.
void refuse_taken_folder(const config::RunConfig& config, bool phantom);

// Makes output_dir, removes what killed writers left in it, and writes the resolved config.yaml into it. The folder is
// this run's until the descriptor that comes back is closed, be it by the kernel. Throws UsageError if it is the
// model's own folder, if a phantom would take a real run's, if it already holds a run or a model and this one does not
// resume it, or if another run is writing into it. phantom: marks the folder, so that nothing takes what is in it for a
// model (weights/folder.h).
[[nodiscard]] Descriptor prepare_run_folder(const config::RunConfig& config, bool resumes, bool phantom);

}  // namespace fathom::app
