// The well-known shapes of configs/models.
#pragma once

#include <filesystem>
#include <string>

#include "arch/architecture.h"
#include "base/json_value.h"

namespace fathom::arch {

inline const std::filesystem::path kModels = FATHOM_SOURCE_DIR "/configs/models";

inline Architecture architecture_of(const std::string& name) {
  return parse_architecture(read_json(kModels / name / "config.json"), name);
}

}  // namespace fathom::arch
