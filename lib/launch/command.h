// Runs another program in this one's place on the terminal.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace fathom::launch {

// Runs `words`, found as a shell finds it, with these variables beside or in place of this process's, and waits for its
// end. What it prints goes to stderr. Signals that ask to stop go to it, and no command is started after one. Returns
// its exit status, 128 and the number of the signal where one has ended it. Throws Error where it cannot be started.
int run_command(const std::vector<std::string>& words, const std::map<std::string, std::string>& variables);

}  // namespace fathom::launch
