// The files that a config's paths and patterns name.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace fathom::data {

// Each path as it stands, each pattern (*, ?, [abc]) replaced by what it matches, sorted by name; a path that exists is
// never a pattern. key: what errors call the list. Throws UsageError for a pattern that matches nothing, and for a file
// that is named twice: it would count twice.
std::vector<std::filesystem::path> find_files(const std::vector<std::string>& patterns, const std::string& key);

}  // namespace fathom::data
