// Running out of memory as an error that a user can act on.
#pragma once

#include <c10/util/Exception.h>

#include <string>

#include "base/error.h"
#include "ledger/ledger.h"

namespace fathom::app {

// What was asked for, where in the model, what was alive then (the ledger kept it), and the remedy, on lines of their
// own.
Error explain_out_of_memory(const c10::OutOfMemoryError& error, const ledger::Ledger& ledger,
                            const std::string& remedy);

}  // namespace fathom::app
