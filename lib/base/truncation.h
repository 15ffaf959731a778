// What happens when a mapped file is truncated by another process: an error and an end instead of a crash.
#pragma once

#include <cstddef>
#include <string>

namespace fathom {

// While [first, first + count) is watched, a SIGBUS within it ends the process with status 1 and an error on stderr
// that names the file; others do what they did before. Of more than 1,024 ranges at a time the rest is not watched.
void watch_for_truncation(const std::byte* first, size_t count, const std::string& path);
void watch_no_longer(const std::byte* first);

}  // namespace fathom
