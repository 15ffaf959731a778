// Parameters under the names that folders have for them.
#pragma once

#include <filesystem>

#include "checkpoint/named_tensors.h"

namespace fathom::checkpoint {

// Views of the same memory, each expert's matrices by themselves (arch/stored_parts.h). folder: its config.json says
// what model it is.
NamedTensors as_stored(const NamedTensors& parameters, const std::filesystem::path& folder);

}  // namespace fathom::checkpoint
