// Models found by name in the cache of the Hugging Face hub, through each variable that moves it.
#include "weights/hub.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "base/error.h"
#include "base/json_value.h"
#include "weights/folder.h"

namespace fathom::weights {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class Hub : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("fathom_hub_" + std::to_string(::getpid()));
    fs::create_directories(root_);
    for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"}) unsetenv(name);
    set("HOME", root_ / "home");
  }
  void TearDown() override { fs::remove_all(root_); }

  static void set(const char* name, const fs::path& value) { setenv(name, value.c_str(), 1); }
  // As huggingface_hub leaves it: files are links into blobs/.
  fs::path download(const fs::path& hub, const std::string& folder, const std::string& commit = "0123abcd") {
    const fs::path model = hub / folder, snapshot = model / "snapshots" / commit;
    for (const char* part : {"refs", "blobs"}) fs::create_directories(model / part);
    fs::create_directories(snapshot);
    std::ofstream(model / "refs" / "main") << commit;
    std::ofstream(model / "blobs" / "77") << R"({"model_type": "llama"})";
    fs::create_symlink("../../blobs/77", snapshot / "config.json");
    return snapshot;
  }
  static std::string refusal(const std::string& name) {
    try {
      find_model(name);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }

  fs::path root_;
};

TEST_F(Hub, FindsTheMainSnapshotWhereverTheCacheIs) {
  const fs::path usual = download(root_ / "home/.cache/huggingface/hub", "models--some-org--A.Model_1");
  EXPECT_EQ(find_model("some-org/A.Model_1"), usual);
  set("HF_HOME", root_ / "hf");
  EXPECT_NE(refusal("some-org/A.Model_1"), "") << "one cache counts, not several";
  const fs::path moved = download(root_ / "hf/hub", "models--some-org--A.Model_1");
  EXPECT_EQ(find_model("some-org/A.Model_1"), moved);
  set("HF_HUB_CACHE", root_ / "cache");
  const fs::path named = download(root_ / "cache", "models--some-org--A.Model_1");
  EXPECT_EQ(find_model("some-org/A.Model_1"), named);
  set("HF_HUB_CACHE", "~/mine");
  const fs::path at_home = download(root_ / "home/mine", "models--owner--m");
  EXPECT_EQ(find_model("owner/m"), at_home);
}

TEST_F(Hub, OpensWhatItFinds) {
  const fs::path snapshot = download(root_ / "home/.cache/huggingface/hub", "models--org--name");
  const ModelFolder folder("org/name", /*weights_required=*/false);
  EXPECT_EQ(folder.path(), snapshot);
  EXPECT_EQ(folder.config()["model_type"], "llama");
}

TEST_F(Hub, PrefersAFolderOfThatName) {
  download(root_ / "home/.cache/huggingface/hub", "models--org--name");
  const fs::path before = fs::current_path();
  fs::current_path(root_);
  fs::create_directories("org/name");
  EXPECT_EQ(find_model("org/name"), "org/name");
  fs::current_path(before);
}

TEST_F(Hub, SaysWhereItLookedAndHowToGetTheModel) {
  const std::string message = refusal("org/name");
  EXPECT_THAT(message, AllOf(HasSubstr((root_ / "home/.cache/huggingface/hub/models--org--name").string()),
                             HasSubstr((fs::current_path() / "org/name").string()), HasSubstr("hf download org/name")));
  EXPECT_THAT(refusal("name"), AllOf(HasSubstr("; give the path of a model folder, or org/name as on the hub"),
                                     ::testing::Not(HasSubstr("hf download"))));
  const fs::path snapshot = download(root_ / "home/.cache/huggingface/hub", "models--org--name");
  fs::remove_all(snapshot);
  EXPECT_THAT(refusal("org/name"), HasSubstr("not whole"));
}

TEST_F(Hub, IsNotLedOutOfTheCache) {
  const fs::path hub = root_ / "home/.cache/huggingface/hub";
  download(hub, "models--org--name");
  for (const char* commit : {"../../../../secret", "..", "", "a/b", "0123abcd\n\n../x"}) {
    std::ofstream(hub / "models--org--name/refs/main") << commit;
    EXPECT_THAT(refusal("org/name"), HasSubstr("expected the name of a commit")) << commit;
  }
  // No names of models: paths as they are, for whoever opens them to complain about.
  for (const char* path :
       {"../name", "/org/name", "org/../name", "a/b/c", "./org", "org/", "", "org/na me", "a/b.json"}) {
    EXPECT_EQ(find_model(path), path);
    EXPECT_FALSE(is_hub_name(path)) << path;
  }
}

}  // namespace
}  // namespace fathom::weights
