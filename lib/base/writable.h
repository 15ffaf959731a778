// Files that are written later, tried now.
#pragma once

#include <filesystem>

namespace fathom {

// Throws Error where a file could not be written at `path`, in the place of one or as a new one: makes another beside
// it, and removes that again.
void require_writable(const std::filesystem::path& path);

}  // namespace fathom
