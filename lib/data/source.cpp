// By magic bytes, suffixes, and what the first line begins with.
#include "data/source.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/file_kind.h"

namespace fathom::data {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kExpected = "; expected one JSON object on each line";

std::string lines_file(const fs::path& file) { return shell_word(file.stem().string() + "-lines.jsonl"); }

// The file that a one-line Python program reads as argument 1, and that it writes as argument 2.
std::string by_python(const std::string& program, const fs::path& file) {
  return "convert it: python3 -c \"" + program + "\" " + shell_word(file) + " " + lines_file(file);
}

std::string conversion_of(FileKind kind, const fs::path& file) {
  switch (kind) {
    case FileKind::kParquet:
      return by_python(
          "import sys, pandas; pandas.read_parquet(sys.argv[1]).to_json(sys.argv[2], orient='records', lines=True)",
          file);
    case FileKind::kArrow:
      return by_python("import sys, datasets; datasets.Dataset.from_file(sys.argv[1]).to_json(sys.argv[2])", file);
    case FileKind::kCsv:
    case FileKind::kTsv: {
      const std::string tabs = kind == FileKind::kTsv ? ", delimiter='\\t'" : "";
      return by_python(
                 "import csv, json, sys; open(sys.argv[2], 'w').writelines(json.dumps(row) + '\\n' for row in "
                 "csv.DictReader(open(sys.argv[1])" +
                     tabs + "))",
                 file) +
             ", with columns named as docs/data.md names the keys";
    }
    default:
      return remedy_for(kind, file);
  }
}

std::string_view first_line_of(std::string_view lines) {
  const size_t start = lines.find_first_not_of(" \t\r\n");
  if (start == std::string_view::npos) return "";
  return lines.substr(start, lines.find('\n', start) - start);
}

// One file as one list, as Alpaca and ShareGPT were first published.
bool begins_an_array(std::string_view lines) {
  const size_t start = lines.find_first_not_of(" \t\r\n");
  if (start == std::string_view::npos || lines[start] != '[') return false;
  const size_t next = lines.find_first_not_of(" \t\r\n", start + 1);
  return next == std::string_view::npos || lines[next] == '{';
}

// One object over several lines, as tools indent it.
bool begins_an_indented_object(std::string_view lines) {
  std::string_view line = first_line_of(lines);
  while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
  return line == "{";
}

// Letters that begin no value of JSON.
bool is_plain_text(std::string_view lines) {
  const std::string_view line = first_line_of(lines);
  if (line.empty()) return false;
  const bool begins_a_value = std::string_view("{[\"-0123456789").find(line[0]) != std::string_view::npos;
  const bool is_word = line.starts_with("true") || line.starts_with("false") || line.starts_with("null");
  return !begins_a_value && !is_word && static_cast<unsigned char>(line[0]) >= 0x20;
}

bool is_file(const std::string& path) {
  std::error_code absent;
  return fs::is_regular_file(path, absent);
}

// Blanks or commas between paths that are all there.
bool names_several(const std::string& path, std::string& list) {
  constexpr std::string_view kBetween = " ,";
  int count = 0;
  for (size_t start = path.find_first_not_of(kBetween); start != std::string::npos;) {
    const size_t end = path.find_first_of(kBetween, start);
    const std::string part = path.substr(start, end - start);
    if (!is_file(part)) return false;
    list += (list.empty() ? "" : ",") + part;
    ++count;
    start = path.find_first_not_of(kBetween, end);
  }
  return count > 1;
}

// "org/name" without a suffix: a data set on the hub, if no such file is there.
bool may_be_on_the_hub(const std::string& path) {
  const fs::path name = path;
  return std::count(path.begin(), path.end(), '/') == 1 && path.front() != '/' && path.front() != '.' &&
         path.front() != '~' && !name.has_extension() && !fs::exists(name.parent_path());
}

}  // namespace

void refuse_other_files(const fs::path& file, std::string_view first_lines) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  const FileKind kind = kind_of_file(file, first_lines.substr(0, kFileStart));
  const auto refuse = [&](std::string_view what, const std::string& remedy) {
    throw Error(file.string() + ": is " + std::string(what) + std::string(kExpected), remedy);
  };
  if (kind != FileKind::kUnknown) refuse(describe(kind), conversion_of(kind, file));
  if (first_lines.starts_with(kByteOrderMark)) first_lines.remove_prefix(kByteOrderMark.size());
  const std::string into = " " + shell_word(file) + " > " + lines_file(file);
  if (begins_an_array(first_lines)) refuse("a JSON array", "convert it: jq -c '.[]'" + into);
  if (begins_an_indented_object(first_lines)) {
    refuse("JSON over several lines", "convert it: jq -c ." + into);
  }
  if (is_plain_text(first_lines)) {
    refuse("plain text", "convert it, each line a sample: jq -Rc '{text: .}'" + into);
  }
}

void refuse_other_names(const std::string& path, const std::string& key) {
  if (path.empty() || is_file(path)) return;
  if (path.find("://") != std::string::npos) {
    throw UsageError(key + ": " + path + " is a URL; files are read from this machine alone",
                     "download it first, and name the file");
  }
  if (path.find('$') != std::string::npos) {
    throw UsageError(key + ": " + path + ": a variable of the shell is not replaced here", "write the path out");
  }
  if (std::string list; names_several(path, list)) {
    throw UsageError(key + ": '" + path + "' is no file, but its parts are", "write [" + list + "]");
  }
  if (may_be_on_the_hub(path)) {
    throw UsageError(key + ": " + path + ": no such file",
                     "if this is a data set on the Hugging Face hub: `hf download --repo-type dataset " + path +
                         " --local-dir data`, and name its files (JSON lines)");
  }
}

}  // namespace fathom::data
