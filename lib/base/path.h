// Paths as people type them.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace fathom {

// The path without "." and "..", and without the separator at its end that completing a name in a shell leaves: its
// parent is the folder that holds it.
inline std::filesystem::path tidy_path(const std::filesystem::path& path) {
  const std::filesystem::path normal = path.lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

// Whether both name the same place, however they are written and through whatever links.
inline bool is_same_path(const std::filesystem::path& a, const std::filesystem::path& b) {
  std::error_code ignored;
  const auto place = [&](const std::filesystem::path& path) {
    return tidy_path(std::filesystem::weakly_canonical(std::filesystem::absolute(path), ignored));
  };
  return place(a) == place(b);
}

// "~/data" with the home folder in place of "~", as shells do where they see it; they do not behind a "=" or in a file.
inline std::string with_home(const std::string& path) {
  const char* home = std::getenv("HOME");
  const bool begins = path == "~" || path.rfind("~/", 0) == 0;
  return begins && home != nullptr && *home != '\0' ? home + path.substr(1) : path;
}

}  // namespace fathom
