// Paths and patterns: order, what matches nothing, what is named twice.
#include "data/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "base/error.h"

namespace fathom::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FilesTest : public ::testing::Test {
 protected:
  FilesTest() {
    std::filesystem::create_directories(folder_);
    for (const char* name : {"b.jsonl", "a.jsonl", "B.jsonl", "c.txt", "[d].jsonl"}) std::ofstream(folder_ / name);
  }
  ~FilesTest() override { std::filesystem::remove_all(folder_); }

  std::vector<std::string> names(const std::vector<std::string>& patterns) const {
    std::vector<std::string> paths, names;
    for (const std::string& pattern : patterns) paths.push_back((folder_ / pattern).string());
    for (const auto& file : find_files(paths, "train_file")) names.push_back(file.filename().string());
    return names;
  }
  std::string refusal(const std::vector<std::string>& patterns) const {
    try {
      names(patterns);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  }

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("fathom-files-" + std::to_string(getpid()));
};

TEST_F(FilesTest, KeepsTheOrderOfTheListAndSortsMatchesByName) {
  EXPECT_THAT(names({"c.txt", "?.jsonl"}), ElementsAre("c.txt", "B.jsonl", "a.jsonl", "b.jsonl"));
  EXPECT_THAT(names({"missing.jsonl"}), ElementsAre("missing.jsonl")) << "who opens it says what is wrong";
  EXPECT_TRUE(find_files({}, "train_file").empty());
}

TEST_F(FilesTest, AFileThatExistsIsNoPattern) { EXPECT_THAT(names({"[d].jsonl"}), ElementsAre("[d].jsonl")); }

TEST_F(FilesTest, RefusesWhatMatchesNothingOrTwice) {
  EXPECT_THAT(refusal({"*.json"}), HasSubstr("*.json matches no file"));
  EXPECT_THAT(refusal({"**/a.jsonl"}), HasSubstr("** is not taken"));
  EXPECT_THAT(refusal({"a.jsonl", "[ab].jsonl"}), HasSubstr("a.jsonl is named twice"));
  EXPECT_THAT(refusal({"a.jsonl", "./a.jsonl"}), HasSubstr("named twice"));
}

TEST_F(FilesTest, TellsAMissingFolderOfAPattern) {
  EXPECT_THAT(refusal({"none/*.jsonl"}), HasSubstr("none/*.jsonl: there is no folder " + (folder_ / "none").string()));
  EXPECT_THAT(refusal({"?/a.jsonl"}), HasSubstr("matches no file"));
}

std::string refused_name(const std::string& path) {
  try {
    find_files({path}, "train_file");
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST_F(FilesTest, TellsNamesThatAreNoFilesOfThisMachine) {
  EXPECT_THAT(refused_name("https://example.org/a.jsonl"),
              HasSubstr("is a URL; files are read from this machine alone"));
  EXPECT_THAT(refused_name("s3://bucket/a"), HasSubstr("download it first"));
  EXPECT_THAT(refused_name("$HOME/a.jsonl"), HasSubstr("a variable of the shell is not replaced here"));
  EXPECT_THAT(refused_name("tatsu-lab/alpaca"), HasSubstr("`hf download --repo-type dataset tatsu-lab/alpaca"));
  const std::string a = (folder_ / "a.jsonl").string(), b = (folder_ / "b.jsonl").string();
  EXPECT_THAT(refused_name(a + " " + b), HasSubstr("write [" + a + "," + b + "]"));
  for (const std::string& path : {std::string("a/b.jsonl"), folder_.string() + "/none", std::string("none")}) {
    EXPECT_EQ(refused_name(path), "") << "who opens it says what is wrong";
  }
}

}  // namespace
}  // namespace fathom::data
