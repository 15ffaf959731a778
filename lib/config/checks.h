// Rules between keys: which need each other, which exclude each other, which mean nothing beside others.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "config/load.h"
#include "config/problem.h"
#include "config/run_config.h"

namespace fathom::config {

// Where each given key was given; a key that is missing here has its default.
using Positions = std::map<std::string, Position, std::less<>>;

// Adds what is wrong about values that are right one by one. Keys that already have a problem are left alone.
void check_together(const RunConfig& run, const Positions& given, Purpose purpose, Problems& problems);

// False where values exclude each other, whatever was given: of a run that a program puts together.
bool is_consistent(const RunConfig& run);

// The rules as lines of Markdown, for docs/config.md: which keys mean nothing beside others, and which exclude each
// other.
std::string rules_page();

// False for keys whose value cannot matter in this run: lora_r with method: full, save_steps with save_strategy: no.
bool applies(std::string_view key, const RunConfig& run);

}  // namespace fathom::config
