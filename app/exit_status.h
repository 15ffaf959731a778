// What the program tells the shell: 0, 1, 2, or 128 + the signal after which a checkpoint was saved.
#pragma once

#include <exception>

namespace fathom::app {

inline constexpr int kSuccess = 0;
inline constexpr int kFailure = 1;
inline constexpr int kUsage = 2;  // bad usage or config

// To be called first: so that what the system refuses (files, memory, threads) ends the process with an error and a
// remedy, not by a signal, and so that no file takes the number of a closed standard stream.
void prepare_process();

// Logs what the exception says, line by line, and returns the exit status for it.
int report_failure(const std::exception& error);
int status_of(const std::exception& error);

}  // namespace fathom::app
