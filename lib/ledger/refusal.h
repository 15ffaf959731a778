// Running out of memory, told: what was asked for and where, and what was alive then.
#pragma once

#include <string>

#include "ledger/ledger.h"

namespace fathom::ledger {

// "while model.layers.3.mlp.up_proj ran (aten::mm), in the backward pass", as far as it is known.
std::string describe_place(const Ledger::Refusal& refusal);
// Components with their bytes and shares, then the largest blocks by name.
std::string format_refusal(const Ledger::Refusal& refusal);

}  // namespace fathom::ledger
