// Which layers of a model attend.
#pragma once

#include <vector>

#include "arch/architecture.h"

namespace fathom::arch {

inline std::vector<bool> attending(const Architecture& architecture) {
  std::vector<bool> attend;
  for (const LayerSpec& layer : architecture.layers) attend.push_back(layer.attends());
  return attend;
}

}  // namespace fathom::arch
