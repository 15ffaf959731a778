// What is wrong with the words of a command line, in this program's words instead of CLI11's.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace fathom::app {

// Accepts these words alone; of another it says which they are, and which was meant. In help they stand in braces.
CLI::Validator one_of(std::vector<std::string> words, bool in_help = true);

// CLI11 would call it an argument that was not expected.
void refuse_unknown_command(const CLI::App& app, int count, const char* const* arguments);

// After a parse of `app` that failed.
[[noreturn]] void throw_usage_error(const CLI::App& app, const CLI::ParseError& error, int count,
                                    const char* const* arguments);

}  // namespace fathom::app
