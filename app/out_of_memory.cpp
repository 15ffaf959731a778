// LibTorch's message, shortened, and the ledger's account.
#include "app/out_of_memory.h"

#include "report/refusal.h"

namespace fathom::app {

Error explain_out_of_memory(const c10::OutOfMemoryError& error, const ledger::Ledger& ledger,
                            const std::string& remedy) {
  const std::string said = error.what_without_backtrace();
  std::string message = "out of memory: " + said.substr(0, said.find(" If reserved but unallocated"));
  if (const auto refusal = ledger.refusal()) {
    const std::string place = report::describe_place(*refusal);
    if (!place.empty()) message += "\nIt happened " + place + ".";
    message += "\n\n" + report::format_refusal(*refusal);
  }
  return Error(message + "\n" + remedy);
}

}  // namespace fathom::app
