// Which files go along with a model, and that no link carries a private one.
#include "weights/companion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/file.h"

namespace fathom::weights {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class CompanionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "fathom_companion_XXXXXX").string();
    root_ = mkdtemp(pattern.data());
    put("private", "secret");
  }
  void TearDown() override { fs::remove_all(root_); }
  void put(const fs::path& name, const std::string& text) const {
    fs::create_directories((root_ / name).parent_path());
    write_file_atomically(root_ / name, text);
  }
  void expect_refused(const std::string& folder, const std::string& name, const std::string& why) const {
    EXPECT_THAT([&] { read_companion(root_ / folder, name); }, ThrowsMessage<Error>(HasSubstr(why)));
    EXPECT_THAT([&] { companion_bytes(root_ / folder, name); }, ThrowsMessage<Error>(HasSubstr(why)));
  }
  fs::path root_;
};

TEST_F(CompanionTest, TakesWhatLiesInTheFolder) {
  put("model/merges.txt", "a b");
  put("model/templates/x.jinja", "x");
  fs::create_symlink("merges.txt", root_ / "model/link");
  fs::create_symlink("model", root_ / "other name of the folder");
  EXPECT_EQ(read_companion(root_ / "model", "merges.txt"), "a b");
  EXPECT_EQ(read_companion(root_ / "model", "templates/x.jinja"), "x");
  EXPECT_EQ(read_companion(root_ / "model", "link"), "a b");
  EXPECT_EQ(read_companion(root_ / "other name of the folder", "merges.txt"), "a b");
  EXPECT_EQ(companion_bytes(root_ / "model", "link"), 3);
}

TEST_F(CompanionTest, TakesWhatTheHubsCacheHolds) {
  put("hub/models--org--name/blobs/77", "a b");
  fs::create_directories(root_ / "hub/models--org--name/snapshots/1");
  fs::create_symlink("../../blobs/77", root_ / "hub/models--org--name/snapshots/1/merges.txt");
  EXPECT_EQ(read_companion(root_ / "hub/models--org--name/snapshots/1", "merges.txt"), "a b");
}

TEST_F(CompanionTest, RefusesWhatALinkCarriesIn) {
  fs::create_directories(root_ / "model/models--a--b/blobs");
  put("models/merges.txt", "of a folder whose name begins alike");
  fs::create_symlink("../private", root_ / "model/merges.txt");
  fs::create_symlink("../models/merges.txt", root_ / "model/vocab.json");
  fs::create_symlink("..", root_ / "model/templates");
  fs::create_symlink(root_ / "private", root_ / "model/models--a--b/blobs/77");
  fs::create_symlink("models--a--b/blobs/77", root_ / "model/tokenizer.json");
  for (const char* name : {"merges.txt", "vocab.json", "templates/private", "tokenizer.json"}) {
    expect_refused("model", name, "leads out of its folder");
  }
}

TEST_F(CompanionTest, RefusesWhatIsNoFile) {
  fs::create_directories(root_ / "model");
  ASSERT_EQ(::mkfifo((root_ / "model/merges.txt").c_str(), 0600), 0);
  expect_refused("model", "merges.txt", "is a pipe");
  expect_refused("model", "none", "No such file");
}

}  // namespace
}  // namespace fathom::weights
