// JSON as a template sees it.
#pragma once

#include "base/json.h"
#include "jinja/value.h"

namespace fathom::jinja {

Value from_json(const Json& json, Meter& meter);  // integers beyond 64 bits are refused

}  // namespace fathom::jinja
