// The command line as an Invocation, checked and complete before anything is loaded.
#pragma once

#include <optional>
#include <string>

#include "app/invocation.h"

namespace fathom::app {

// Either a command to run, or a text for stdout (--help, --version, --help-config) to exit with 0 after.
struct Parsed {
  std::optional<Invocation> invocation;
  std::string text;
};

// Reads the YAML, the list of GPUs and the prompts (of a file or of stdin) that the command names. Throws UsageError.
Parsed parse_command_line(int count, const char* const* arguments);

}  // namespace fathom::app
