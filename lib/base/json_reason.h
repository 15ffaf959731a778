// Why a JSON value is not what was expected.
#pragma once

#include <string>

#include "base/json_value.h"

namespace fathom {

// What the library says of it, without the name and number of its exception.
std::string reason_of(const nlohmann::json::exception& error);

}  // namespace fathom
