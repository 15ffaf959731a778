// Where a run continues: the checkpoint that its config names, if it is of the same run.
#pragma once

#include <optional>

#include "checkpoint/checkpoint.h"
#include "config/settings.h"
#include "schedule/inputs.h"
#include "schedule/schedule.h"

namespace fathom::train {

// The checkpoint that resume_from_checkpoint names ("auto": the newest sound one of output_dir); empty if there is none
// to resume from yet. Changes nothing on disk. Throws Error or UsageError if a named one is missing or damaged; if
// `auto` finds only damaged ones, or a finished model without checkpoints; if it was saved under another config in a
// key that decides about the steps, or on other data; if a phantom's run would continue a real one or the other way
// round. What decides about the number of steps and their rates alone may differ, unless the run would be over: what
// becomes of it then is logged. readers: processes of the same config, which read the checkpoint together and all find
// the same.
std::optional<checkpoint::Checkpoint> find_resume(const config::RunConfig& config, const schedule::RunInputs& inputs,
                                                  bool phantom, weights::Readers* readers = nullptr);
// The same of a run whose config leaves gradient_accumulation_steps out: they become what keeps a step as large as that
// of the checkpoint with this number of processes, which is logged. Throws UsageError where its batches cannot be
// divided among them.
std::optional<checkpoint::Checkpoint> find_resume_of_any_number(config::RunConfig& config,
                                                                const schedule::RunInputs& inputs, bool phantom,
                                                                weights::Readers* readers = nullptr);
// Whether the run goes on in the folder that the checkpoint is in, as with `auto`. From another one it starts a folder
// of its own.
bool continues_in_place(const config::RunConfig& config, const std::optional<checkpoint::Checkpoint>& resume);
// Where a run begins that continues from this checkpoint, or from none.
schedule::Start start_of(const config::RunConfig& config, const schedule::RunInputs& inputs,
                         const std::optional<checkpoint::Checkpoint>& resume);

// The config without the keys that decide nothing about the steps.
config::Settings steps_identity(config::RunConfig config);

}  // namespace fathom::train
