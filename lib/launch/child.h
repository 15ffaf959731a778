// What the ways of starting other processes have in common.
#pragma once

#include <csignal>
#include <string>
#include <vector>

namespace fathom::launch {

// That ask a program to stop.
inline constexpr int kStopSignals[] = {SIGINT, SIGTERM, SIGHUP};

// In a child, which a parent that is killed takes with it: runs `program`, found as a shell finds it, in its place.
// words: the program's name and its arguments. Returns where that cannot be, with errno.
void become(const std::string& program, const std::vector<std::string>& words);

// Of a child that has ended, by what waitpid says: its exit status, or 128 and the number of the signal that ended it.
int exit_code(int status);

}  // namespace fathom::launch
