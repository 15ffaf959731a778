// Running out of memory as an error that a user can act on.
#pragma once

#include <c10/util/Exception.h>

#include <string>

#include "base/error.h"
#include "ledger/ledger.h"

namespace fathom::app {

// Of an error for which ledger::is_out_of_memory: what was asked for, where in the model, what was alive then (as far
// as the ledger kept it), and the remedy, on lines of their own.
Error explain_out_of_memory(const c10::Error& error, const ledger::Ledger& ledger, const std::string& remedy);

}  // namespace fathom::app
