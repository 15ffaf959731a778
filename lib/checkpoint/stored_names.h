// Parameters under the names that folders have for them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "arch/architecture.h"
#include "checkpoint/named_tensors.h"

namespace fathom::checkpoint {

// Views of the same memory, each expert's matrices by themselves (arch/stored_parts.h). folder: its config.json says
// what model it is. part: how a text part is called there.
NamedTensors as_stored(const NamedTensors& parameters, const std::filesystem::path& folder,
                       const std::optional<arch::TextPart>& part);
// Under the names that a file has for them, in whichever spelling of a text part; prefix: in front of these.
NamedTensors as_found(NamedTensors parameters, const weights::SafetensorsFile& file, const std::string& prefix = "");

}  // namespace fathom::checkpoint
