// The program: reads the command line, then runs the command here or in the engine.
#include <cstdio>
#include <exception>

#include "app/command_line.h"
#include "app/commands.h"
#include "app/exit_status.h"
#include "app/loader.h"

namespace {

int run(const fathom::app::Invocation& invocation) {
  if (invocation.command == "inspect") return fathom::app::run_inspect(invocation);
  if (invocation.command == "doctor") return fathom::app::run_doctor(invocation);
  return fathom::app::run_in_engine(invocation);
}

}  // namespace

int main(int count, char** arguments) {
  try {
    const fathom::app::Parsed parsed = fathom::app::parse_command_line(count, arguments);
    if (parsed.invocation) return run(*parsed.invocation);
    std::fputs(parsed.text.c_str(), stdout);
    return fathom::app::kSuccess;
  } catch (const std::exception& error) {
    return fathom::app::report_failure(error);
  }
}
