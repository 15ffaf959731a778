// Files that are something else than what was asked for, by bytes and by name.
#include "base/file_kind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "base/file.h"
#include "base/json_value.h"

namespace fathom {
namespace {

using ::testing::HasSubstr;
using namespace std::string_literals;

TEST(FileKind, IsToldByTheFirstBytes) {
  const std::pair<std::string, FileKind> cases[] = {
      {"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 1\n", FileKind::kLfsPointer},
      {"<!DOCTYPE html><html>", FileKind::kHtml},
      {"\n <HTML lang=en>", FileKind::kHtml},
      {"\x1F\x8B\x08\0\0"s, FileKind::kGzip},
      {"\x28\xB5\x2F\xFD\x04", FileKind::kZstd},
      {"BZh91AY", FileKind::kBzip2},
      {"\xFD\x37zXZ\0\0"s, FileKind::kXz},
      {"PK\x03\x04\x14", FileKind::kZip},
      {"PAR1\x15\x04", FileKind::kParquet},
      {"ARROW1\0\0"s, FileKind::kArrow},
      {"\xFF\xFF\xFF\xFF\xF8", FileKind::kArrow},
      {"\xFF\xFE{\0\"\0"s, FileKind::kUtf16},
      {"\xFE\xFF\0{"s, FileKind::kUtf16},
      {"{\0\"\0t\0e\0"s, FileKind::kUtf16},
      {"\0{\0\"\0t\0e"s, FileKind::kUtf16},
      {"\xFF\xFE\0\0{\0\0\0"s, FileKind::kUtf32},
      {"\x80\x04\x95", FileKind::kPickle},
      {"GGUF\x03", FileKind::kGguf},
      {"SQLite format 3\0"s, FileKind::kSqlite},
      {"%PDF-1.7", FileKind::kPdf},
      {"{\"text\": 1}", FileKind::kUnknown},
      {"\xEF\xBB\xBF{}", FileKind::kUnknown},
      {"", FileKind::kUnknown},
      {"\0\0\0\0"s, FileKind::kUnknown},
      {"a,b\n", FileKind::kUnknown}};
  for (const auto& [start, kind] : cases) EXPECT_EQ(kind_of_file("f", start), kind) << start;
}

TEST(FileKind, OfATableIsToldByItsName) {
  EXPECT_EQ(kind_of_file("x/f.CSV", "a,b\n1,2"), FileKind::kCsv);
  EXPECT_EQ(kind_of_file("f.tsv", "a\tb"), FileKind::kTsv);
  EXPECT_EQ(kind_of_file("f.csv", " {\"text\": 1}"), FileKind::kUnknown);
}

TEST(FileKind, EachIsDescribedInASentence) {
  for (int kind = 0; kind <= static_cast<int>(FileKind::kTsv); ++kind) {
    EXPECT_FALSE(describe(static_cast<FileKind>(kind)).empty()) << kind;
  }
  EXPECT_EQ(remedy_for(FileKind::kGzip, "a b.gz"), "unpack it: gunzip -k 'a b.gz'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word("data/a-1.jsonl"), "data/a-1.jsonl");
}

TEST(FileKind, JsonThatIsAPointerIsToldSo) {
  const std::string path = ::testing::TempDir() + "/pointer.json";
  write_file_atomically(path, "version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 1\n");
  try {
    read_json(path);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("pointer.json: is a git-lfs pointer, not the file that it stands for; expected "
                                        "JSON; fetch the file: `git lfs pull`"));
  }
}

}  // namespace
}  // namespace fathom
