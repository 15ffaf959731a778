// The table of commands as other programs read it: what a shell completes, and the page of `man`.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "app/command.h"

namespace fathom::app {

inline constexpr const char* kPurpose =
    "fine-tunes large language models and tells beforehand where every byte of memory goes";
inline constexpr const char* kExitStatus =
    "Exit status: 0 success, 1 failure, 2 bad usage or config, 128 + N stopped by\n"
    "signal N after a checkpoint was saved (129 SIGHUP, 130 SIGINT, 141 SIGPIPE, 143\n"
    "SIGTERM).";

// Of the commands and options that help shows.
using Commands = std::vector<std::unique_ptr<Command>>;
std::string bash_completion(const Commands& commands);
std::string zsh_completion(const Commands& commands);
std::string fish_completion(const Commands& commands);
// In the language of man(7).
std::string manual_page(const Commands& commands);

}  // namespace fathom::app
