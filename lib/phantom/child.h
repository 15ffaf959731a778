// Runs another process of a program and exchanges one JSON object for another with it. A child that dies, hangs or
// answers nonsense is an Error that says so. No torch header.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"

namespace fathom::phantom {

// The file of the running program (/proc/self/exe).
std::filesystem::path this_program();

// Starts `program` with `arguments`, writes `request` to its stdin and closes it, and returns the one JSON value that
// the child prints on stdout. Blocks until the child has ended; after `timeout` it is killed. Throws Error when the
// child cannot be started, ends with another status than 0, is killed, takes too long or does not answer with JSON; the
// message ends with the last lines of the child's stderr, which is otherwise not shown.
Json run_child(const std::filesystem::path& program, const std::vector<std::string>& arguments, const Json& request,
               std::chrono::milliseconds timeout);

}  // namespace fathom::phantom
