// Paths and patterns: order, what matches nothing, what is named twice.
#include "data/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "base/error.h"

namespace fathom::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class FilesTest : public testing::Test {
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

}  // namespace
}  // namespace fathom::data
