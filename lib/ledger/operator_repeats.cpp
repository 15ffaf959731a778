// One repeater for all threads: backward passes run on threads of their own.
#include "ledger/operator_repeats.h"

#include <utility>

namespace fathom::ledger {
namespace {

Ledger::Repeater repeater_of_operators;

}  // namespace

void repeat_in_operator(uint64_t kind, const Ledger::Work& work) {
  if (repeater_of_operators) {
    repeater_of_operators(kind, work);
  } else {
    work();
  }
}

void set_operator_repeater(Ledger::Repeater repeater) { repeater_of_operators = std::move(repeater); }

}  // namespace fathom::ledger
