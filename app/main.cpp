// The program: reads the command line, then runs the command here or in the engine.
#include <exception>

#include "app/exit_status.h"
#include "app/words/command_line.h"
#include "base/error.h"
#include "base/output.h"

int main(int count, char** arguments) {
  fathom::app::prepare_process();
  try {
    const fathom::app::Parsed parsed = fathom::app::parse_command_line(count, arguments);
    const int status = parsed.command ? parsed.command->run() : fathom::app::kSuccess;
    fathom::print(parsed.text);
    if (!fathom::all_is_printed()) {
      throw fathom::Error("the results could not be written to stdout", "is the disk full?");
    }
    return status;
  } catch (const std::exception& error) {
    return fathom::app::report_failure(error);
  }
}
