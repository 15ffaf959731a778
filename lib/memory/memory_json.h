// Memory figures as JSON, exactly: for checkpoints, and to carry a dry run's answer between processes.
#pragma once

#include "base/json.h"
#include "memory/component.h"

namespace fathom::memory {

Json to_json(const Memory& memory);
Memory memory_from_json(const Json& value);  // throws Error for a value of another form

}  // namespace fathom::memory
