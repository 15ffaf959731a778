// LibTorch's message, shortened, and the ledger's account.
#include "app/run/out_of_memory.h"

#include "base/system_error.h"
#include "ledger/out_of_memory.h"
#include "ledger/refusal.h"

namespace fathom::app {

Error explain_out_of_memory(const c10::Error& error, const ledger::Ledger& ledger, const std::string& remedy) {
  std::string message = "out of memory: " + ledger::describe_out_of_memory(error);
  if (const auto refusal = ledger.refusal()) {
    const std::string place = ledger::describe_place(*refusal);
    if (!place.empty()) message += "\nIt happened " + place + ".";
    message += "\n\n" + ledger::format_refusal(*refusal);
  }
  const bool is_budget = message.find("memory_budget") != std::string::npos;
  const std::string space = is_budget ? "" : describe_address_space();
  return Error(message + "\n" + (space.empty() ? remedy : remedy + "\n" + space));
}

}  // namespace fathom::app
