// What the model gave to each row of the data as the run started: an objective that asks for it holds the model against
// that. Computed before the first step, kept beside the checkpoints.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "schedule/inputs.h"
#include "train/trainer.h"

namespace fathom::train {

struct Reference {
  std::vector<float> train, validation;  // log-probabilities of the rows of both; empty: not asked for
  std::string validation_data;           // the fingerprint of the rows of validation
  std::string digest;                    // of the file that keeps it, by which checkpoints name it
};

// A file of the run's folder.
std::filesystem::path reference_file(const std::filesystem::path& output_dir);
// Of the run that saved the checkpoint, from beside it. Throws Error where that is missing or is not the very file of
// that run, and UsageError where there are validation data and it is of others.
Reference reference_of(const checkpoint::Checkpoint& checkpoint, const data::Dataset& validation);
// Of a run that goes on from a checkpoint, or begins: read from beside that, or computed by the model as it is; then in
// its own output_dir. Unset where `stop` said so; empty where the objective asks for none. memory: what the computation
// takes is merged into it.
std::optional<Reference> reference_of_run(const config::RunConfig& config, const schedule::RunInputs& inputs,
                                          Trainer& trainer, const std::optional<checkpoint::Checkpoint>& resume,
                                          const std::function<bool()>& stop, memory::Memory& memory);
// The file is there whole or not at all. Returns its digest.
std::string write_reference(const std::filesystem::path& file, const Reference& reference);
// Throws Error for a file that is missing or has another digest.
Reference read_reference(const std::filesystem::path& file, const std::string& digest);

// schedule::batch_of, with what the reference gave to its rows.
data::Batch batch_beside(const std::vector<float>& reference, const config::RunConfig& config,
                         const data::Dataset& dataset, const std::vector<int64_t>& examples, int32_t pad_id);

}  // namespace fathom::train
