// Work that is done again and again below a step, such as that on each part of a large matrix, where no ledger is
// known.
#pragma once

#include "ledger/ledger.h"

namespace fathom::ledger {

// Does the work, or has the repeater do it. kind: the same number only for work whose requests are the same.
void repeat_in_operator(uint64_t kind, const Ledger::Work& work);
// Of the process, while none of its operators runs: a dry run's, which may leave work out; empty: none.
void set_operator_repeater(Ledger::Repeater repeater);

}  // namespace fathom::ledger
