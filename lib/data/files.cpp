// Patterns by glob(3), in the order of bytes whatever the locale.
#include "data/files.h"

#include <glob.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "data/source.h"

namespace fathom::data {
namespace {

bool is_pattern(const std::string& text) {
  return text.find_first_of("*?[") != std::string::npos && !std::filesystem::exists(text);
}

// The part of a pattern before its first wildcard: the folder that must be there.
std::filesystem::path fixed_folder(const std::string& pattern) {
  std::filesystem::path folder;
  for (const std::filesystem::path& part : std::filesystem::path(pattern).parent_path()) {
    if (part.string().find_first_of("*?[") != std::string::npos) break;
    folder /= part;
  }
  return folder;
}

std::vector<std::string> matches_of(const std::string& pattern, const std::string& key) {
  if (pattern.find("**") != std::string::npos) {
    throw UsageError(key + ": " + pattern + ": ** is not taken", "write a pattern for each folder");
  }
  const std::filesystem::path folder = fixed_folder(pattern);
  if (!folder.empty() && !std::filesystem::is_directory(folder)) {
    throw UsageError(key + ": " + pattern + ": there is no folder " + folder.string(), "check the path");
  }
  glob_t found = {};
  const int status = ::glob(pattern.c_str(), GLOB_ERR, nullptr, &found);
  std::vector<std::string> paths(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  if (status == GLOB_ABORTED) throw UsageError(key + ": " + pattern + ": a folder cannot be read", "check permissions");
  if (paths.empty()) throw UsageError(key + ": " + pattern + " matches no file", "check the path");
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

std::vector<std::filesystem::path> find_files(const std::vector<std::string>& patterns, const std::string& key) {
  std::vector<std::filesystem::path> files;
  std::set<std::filesystem::path> seen;
  for (const std::string& pattern : patterns) {
    if (!is_pattern(pattern)) refuse_other_names(pattern, key);
    for (const std::string& path : is_pattern(pattern) ? matches_of(pattern, key) : std::vector{pattern}) {
      if (!seen.insert(std::filesystem::path(path).lexically_normal()).second) {
        throw UsageError(key + ": " + path + " is named twice, and would count twice", "name each file once");
      }
      files.emplace_back(path);
    }
  }
  return files;
}

}  // namespace fathom::data
