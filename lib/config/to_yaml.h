// The resolved config.yaml of a run folder.
#pragma once

#include <string>

#include "config/run_config.h"

namespace fathom::config {

// The config as YAML that load_config reads back to an equal value; keys without a value or a meaning are left out.
std::string to_yaml(const RunConfig& run);

}  // namespace fathom::config
