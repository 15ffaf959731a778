// What is said of a config.json that is not read; "" of one that is.
#pragma once

#include <string>

#include "arch/architecture.h"
#include "base/error.h"
#include "base/json_value.h"

namespace fathom::arch {

inline std::string refusal_of_config(const Json& config) {
  try {
    parse_architecture(config, "config.json");
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace fathom::arch
