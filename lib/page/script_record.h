// What a PyTorch script took of a phantom GPU, for the page.
#pragma once

#include "page/run_record.h"
#include "report/script_answer.h"

namespace fathom::page {

// Of the process that takes most. facts: date, machine, version, as "run" of memory.json has them.
RunRecord script_record(const report::ScriptAnswer& answer, Json facts);

}  // namespace fathom::page
