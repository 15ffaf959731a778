// Reads how a folder stores the weights of a model.
#pragma once

#include <string_view>

#include "arch/architecture.h"
#include "arch/config_json.h"

namespace fathom::arch {

struct Family;

// Sets dtype and quantized of an architecture whose layers are read. origin: config.json's path. Throws Error naming
// the key for types and codes that such a model cannot have.
void read_storage(const ConfigJson& config, std::string_view origin, const Family& family, Architecture& architecture);

}  // namespace fathom::arch
