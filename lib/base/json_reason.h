// Why a JSON value is not what was expected.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace fathom {

// What the library says of it, without the name and number of its exception.
std::string reason_of(const nlohmann::json::exception& error);

}  // namespace fathom
