// A table of magic bytes; then what texts begin with; then suffixes.
#include "base/file_kind.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"

namespace fathom {
namespace {

using namespace std::string_view_literals;

struct Magic {
  std::string_view bytes;
  FileKind kind;
};

// The longer of two that begin alike stands first.
constexpr Magic kMagics[] = {
    {"version https://git-lfs.github.com/spec/"sv, FileKind::kLfsPointer},
    {"\x1F\x8B"sv, FileKind::kGzip},
    {"\x28\xB5\x2F\xFD"sv, FileKind::kZstd},
    {"BZh"sv, FileKind::kBzip2},
    {"\xFD"
     "7zXZ\0"sv,
     FileKind::kXz},
    {"PK\x03\x04"sv, FileKind::kZip},
    {"PAR1"sv, FileKind::kParquet},
    {"ARROW1"sv, FileKind::kArrow},
    {"\xFF\xFF\xFF\xFF"sv, FileKind::kArrow},  // a stream, as Hugging Face datasets keeps them
    {"\xFF\xFE\0\0"sv, FileKind::kUtf32},
    {"\0\0\xFE\xFF"sv, FileKind::kUtf32},
    {"\xFF\xFE"sv, FileKind::kUtf16},
    {"\xFE\xFF"sv, FileKind::kUtf16},
    {"\x80\x02"sv, FileKind::kPickle},
    {"\x80\x03"sv, FileKind::kPickle},
    {"\x80\x04"sv, FileKind::kPickle},
    {"\x80\x05"sv, FileKind::kPickle},
    {"GGUF"sv, FileKind::kGguf},
    {"SQLite format 3\0"sv, FileKind::kSqlite},
    {"%PDF-"sv, FileKind::kPdf},
};

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

// Without a byte order mark: of letters of ASCII every second byte is 0.
bool is_wide_text(std::string_view start) {
  if (start.size() < 4) return false;
  for (const size_t zero : {0, 1}) {
    bool wide = true;
    for (size_t i = 0; i < std::min<size_t>(start.size() / 2 * 2, 8); ++i)
      wide &= (start[i] == '\0') == (i % 2 == zero);
    if (wide) return true;
  }
  return false;
}

FileKind kind_of_text(const std::filesystem::path& path, std::string_view start) {
  const size_t first = start.find_first_not_of(" \t\r\n");
  const std::string text = lower_case(first == std::string_view::npos ? "" : start.substr(first));
  if (text.starts_with("<!doctype") || text.starts_with("<html")) return FileKind::kHtml;
  const std::string suffix = lower_case(path.extension().string());
  const bool is_json = text.starts_with("{") || text.starts_with("[");
  if (!is_json && suffix == ".csv") return FileKind::kCsv;
  if (!is_json && suffix == ".tsv") return FileKind::kTsv;
  return FileKind::kUnknown;
}

}  // namespace

FileKind kind_of_file(const std::filesystem::path& path, std::string_view start) {
  for (const Magic& magic : kMagics) {
    if (start.starts_with(magic.bytes)) return magic.kind;
  }
  return is_wide_text(start) ? FileKind::kUtf16 : kind_of_text(path, start);
}

std::string_view describe(FileKind kind) {
  switch (kind) {
    case FileKind::kUnknown:
      return "a file of unknown kind";
    case FileKind::kLfsPointer:
      return "a git-lfs pointer, not the file that it stands for";
    case FileKind::kHtml:
      return "a web page";
    case FileKind::kGzip:
      return "compressed by gzip";
    case FileKind::kZstd:
      return "compressed by zstd";
    case FileKind::kBzip2:
      return "compressed by bzip2";
    case FileKind::kXz:
      return "compressed by xz";
    case FileKind::kZip:
      return "a zip archive";
    case FileKind::kParquet:
      return "a Parquet table";
    case FileKind::kArrow:
      return "an Arrow table";
    case FileKind::kUtf16:
      return "a text in UTF-16";
    case FileKind::kUtf32:
      return "a text in UTF-32";
    case FileKind::kPickle:
      return "a Python pickle";
    case FileKind::kGguf:
      return "a GGUF model";
    case FileKind::kSqlite:
      return "an SQLite database";
    case FileKind::kPdf:
      return "a PDF document";
    case FileKind::kCsv:
      return "a CSV table";
    case FileKind::kTsv:
      return "a TSV table";
  }
  return "";
}

std::string remedy_for(FileKind kind, const std::filesystem::path& path) {
  const std::string name = shell_word(path);
  switch (kind) {
    case FileKind::kLfsPointer:
      return "fetch the file: `git lfs pull` in its repository, or `hf download` instead of git clone";
    case FileKind::kHtml:
      return "download the file itself: this is what a server answers instead of it";
    case FileKind::kGzip:
      return "unpack it: gunzip -k " + name;
    case FileKind::kZstd:
      return "unpack it: zstd -d " + name;
    case FileKind::kBzip2:
      return "unpack it: bunzip2 -k " + name;
    case FileKind::kXz:
      return "unpack it: unxz -k " + name;
    case FileKind::kZip:
      return "unpack it: unzip " + name;
    case FileKind::kUtf16:
      return "convert it: iconv -f UTF-16 -t UTF-8 " + name + " > NEW";
    case FileKind::kUtf32:
      return "convert it: iconv -f UTF-32 -t UTF-8 " + name + " > NEW";
    default:
      return "";
  }
}

std::string shell_word(const std::filesystem::path& path) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+,@%:=";
  const std::string text = path.string();
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

void refuse_other_kind(const std::filesystem::path& path, std::string_view start, std::string_view expected) {
  const FileKind kind = kind_of_file(path, start.substr(0, kFileStart));
  if (kind == FileKind::kUnknown) return;
  throw Error(path.string() + ": is " + std::string(describe(kind)) + "; expected " + std::string(expected),
              remedy_for(kind, path));
}

}  // namespace fathom
