// Runs another program in this one's place on the terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace fathom::launch {

struct Ended {
  int status = 0;  // of the command's exit; 128 and the number of the signal where one has ended it
  // Processes that it had left behind and that were ended: "process 123 (sleep)".
  std::vector<std::string> left = {};
};

// Runs `words`, found as a shell finds it, with these variables beside or in place of this process's, and waits for its
// end. What it prints goes to stderr. Signals that ask to stop go to it, and no command is started after one.
// Those processes that it leaves behind come to this one: while awaits() holds it waits for them, then they have
// `patience` to end by themselves, and are ended. So none goes on. Throws Error where it cannot be started.
Ended run_command(const std::vector<std::string>& words, const std::map<std::string, std::string>& variables,
                  const std::function<bool()>& awaits, std::chrono::seconds patience);

// Whether a process of that number is there and has not ended.
bool is_running(int64_t process);

}  // namespace fathom::launch
