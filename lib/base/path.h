// Paths as people type them.
#pragma once

#include <filesystem>

namespace fathom {

// The path without "." and "..", and without the separator at its end that completing a name in a shell leaves: its
// parent is the folder that holds it.
inline std::filesystem::path tidy_path(const std::filesystem::path& path) {
  const std::filesystem::path normal = path.lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

}  // namespace fathom
