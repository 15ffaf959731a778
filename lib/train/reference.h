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
};

// A file of the run's folder.
std::filesystem::path reference_file(const std::filesystem::path& output_dir);
// What the values depend on beside the config, as fingerprints.
struct ReferenceSources {
  std::string base, train, validation;
};
// Of all that the values depend on and a resumed run can see.
std::string reference_identity(const config::RunConfig& config, const ReferenceSources& sources);
// By the model as it is. memory: what that takes is merged into it. Unset where `stop` said so.
std::optional<Reference> compute_reference(const config::RunConfig& config, const schedule::RunInputs& inputs,
                                           Trainer& trainer, const std::function<bool()>& stop, memory::Memory& memory);
// Of a run that goes on from a checkpoint, or begins: read from beside that, or computed; then in its own output_dir.
// Empty where the objective asks for none.
Reference reference_of_run(const config::RunConfig& config, const schedule::RunInputs& inputs, Trainer& trainer,
                           const ReferenceSources& sources, const std::optional<checkpoint::Checkpoint>& resume,
                           const std::function<bool()>& stop, memory::Memory& memory);
// The file is there whole or not at all.
void write_reference(const std::filesystem::path& file, const std::string& identity, const Reference& reference);
// Throws Error for a file that is missing, damaged, or of another identity.
Reference read_reference(const std::filesystem::path& file, const std::string& identity);

// schedule::batch_of, with what the reference gave to its rows.
data::Batch batch_beside(const std::vector<float>& reference, const config::RunConfig& config,
                         const data::Dataset& dataset, const std::vector<int64_t>& examples, int32_t pad_id);

}  // namespace fathom::train
