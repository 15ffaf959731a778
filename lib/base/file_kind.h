// What a file is that is not what was expected: by its first bytes, else by its name.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace fathom {

enum class FileKind {
  kUnknown,  // may be what was expected
  kLfsPointer,
  kHtml,
  kGzip,
  kZstd,
  kBzip2,
  kXz,
  kZip,
  kParquet,
  kArrow,
  kUtf16,
  kUtf32,
  kPickle,
  kGguf,
  kSqlite,
  kPdf,
  kCsv,
  kTsv,
};

// So many bytes are enough to tell.
inline constexpr size_t kFileStart = 64;

// start: the file's first bytes, kFileStart of them where it has so many.
FileKind kind_of_file(const std::filesystem::path& path, std::string_view start);

// "a git-lfs pointer, not the file that it stands for".
std::string_view describe(FileKind kind);

// What makes the file that was meant of one of this kind, in lower case: a command, or where to get it; empty where
// that depends on what the file is for (tables, models of other programs).
std::string remedy_for(FileKind kind, const std::filesystem::path& path);

// The path as one word of a shell.
std::string shell_word(const std::filesystem::path& path);

// Throws Error saying what the file is, unless its kind is unknown. expected: "JSON".
void refuse_other_kind(const std::filesystem::path& path, std::string_view start, std::string_view expected);

}  // namespace fathom
