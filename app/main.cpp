// The program: reads the command line, then runs the command here or in the engine.
#include <exception>

#include "app/command_line.h"
#include "app/commands.h"
#include "app/exit_status.h"
#include "app/loader.h"
#include "base/error.h"
#include "base/output.h"

namespace {

int run(const fathom::app::Invocation& invocation) {
  if (invocation.command == "inspect") return fathom::app::run_inspect(invocation);
  if (invocation.command == "doctor") return fathom::app::run_doctor(invocation);
  if (invocation.command == "report") return fathom::app::run_report(invocation);
  if (invocation.command == "preview") return fathom::app::run_preview(invocation);
  if (invocation.command == "formats") return fathom::app::run_formats(invocation);
  if (invocation.command == "list") return fathom::app::run_list(invocation);
  if (invocation.parameters > 0) return fathom::app::run_parameters(invocation);
  return fathom::app::run_in_engine(invocation);
}

}  // namespace

int main(int count, char** arguments) {
  fathom::app::prepare_process();
  try {
    const fathom::app::Parsed parsed = fathom::app::parse_command_line(count, arguments);
    int status = fathom::app::kSuccess;
    if (parsed.invocation) {
      status = run(*parsed.invocation);
    } else {
      fathom::print(parsed.text);
    }
    if (!fathom::all_is_printed()) {
      throw fathom::Error("the results could not be written to stdout", "is the disk full?");
    }
    return status;
  } catch (const std::exception& error) {
    return fathom::app::report_failure(error);
  }
}
