// Reads what config.json says of experts and their router.
#pragma once

#include "arch/architecture.h"
#include "arch/config_json.h"
#include "arch/families.h"

namespace fathom::arch {

// Gives layers their experts, where the family has some, and the architecture what routers add to the loss. Throws
// Error naming the key for experts of a family that has none, and for routers other than a softmax over all experts.
void read_experts(const ConfigJson& config, const Family& family, Architecture& architecture);

}  // namespace fathom::arch
