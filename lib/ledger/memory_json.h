// Memory figures as JSON, exactly: for checkpoints, and to carry a dry run's answer between processes. No torch header.
#pragma once

#include "base/json.h"
#include "ledger/component.h"

namespace fathom::ledger {

Json to_json(const Memory& memory);
Memory memory_from_json(const Json& value);  // throws Error for a value of another form

}  // namespace fathom::ledger
