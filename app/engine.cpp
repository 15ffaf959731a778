// Dispatches the commands that need LibTorch and turns what they throw into an exit status.
#include "app/engine.h"

#include <c10/util/Exception.h>

#include <exception>
#include <string>

#include "app/exit_status.h"
#include "app/run/out_of_memory.h"
#include "app/run/session.h"
#include "base/error.h"
#include "base/system_error.h"
#include "ledger/out_of_memory.h"

namespace fathom::app {
namespace {

int run(const Invocation& invocation) {
  for (const EngineRow* row = engine_rows; row != nullptr; row = row->next) {
    if (row->command == typeid(invocation)) return row->run(invocation);
  }
  throw UsageError(std::string("the engine has no command '") + invocation.name + "'");
}

}  // namespace
}  // namespace fathom::app

extern "C" __attribute__((visibility("default"))) int fathom_engine_main(const fathom::app::Invocation& invocation) {
  try {
    return fathom::app::run(invocation);
  } catch (const c10::Error& error) {
    if (fathom::ledger::is_out_of_memory(error)) {
      return fathom::app::report_failure(fathom::app::explain_out_of_memory(
          error, fathom::app::ledger_of(invocation),
          "Lower the batch size or the length, or store the weights in fewer bits."));
    }
    return fathom::app::report_failure(fathom::Error("LibTorch: " + fathom::message_of(error)));
  } catch (const std::exception& error) {
    return fathom::app::report_failure(error);
  }
}
