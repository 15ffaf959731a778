// The command line as a command, checked and complete before anything is loaded.
#pragma once

#include <memory>
#include <string>

#include "app/command.h"

namespace fathom::app {

// Either a command to run, or a text for stdout (--help, --version, --help-config) to exit with 0 after.
struct Parsed {
  std::unique_ptr<Command> command;
  std::string text;
};

// Reads the YAML, the list of GPUs and the prompts (of a file or of stdin) that the command names. Throws UsageError.
Parsed parse_command_line(int count, const char* const* arguments);

}  // namespace fathom::app
