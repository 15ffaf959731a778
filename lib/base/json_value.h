// JSON values, for those who look into them, make them or hold them.
#pragma once

#include <nlohmann/json.hpp>

#include "base/json.h"
