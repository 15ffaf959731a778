// What changes over the run, and over the length of sequences: loss, throughput, attention.
#pragma once

#include <string>

#include "page/run_record.h"

namespace fathom::page {

// Loss, rewards of preferences, throughput, learning rate and the gradients' norm; empty without metrics.
std::string training_section(const RunRecord& record);
// Memory and time of attention over length, math against flash; empty unless memory.json has "attention".
std::string attention_section(const Json& memory);

}  // namespace fathom::page
