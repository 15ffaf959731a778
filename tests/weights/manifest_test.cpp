// Manifests over files of several blocks, and those of the version before.
#include "weights/manifest.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <barrier>
#include <thread>

#include "base/block_hash.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json_value.h"

namespace fathom::weights {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class ManifestTest : public ::testing::Test {
 protected:
  fs::path folder_ = fs::temp_directory_path() / ("fathom_manifest_" + std::to_string(::getpid()));
  std::string content_ = std::string(static_cast<size_t>(2 * kHashedBlock + 77), 'w');

  void SetUp() override {
    fs::create_directories(folder_);
    content_[100] = 'x';
    write_manifest(folder_, 7, {write_new(folder_, "large", content_), write_new(folder_, "small", "s")});
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string refusal() const {
    try {
      read_and_verify_manifest(folder_);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }
};

TEST_F(ManifestTest, FindsOneByteThatChanged) {
  EXPECT_EQ(read_and_verify_manifest(folder_).step, 7);
  for (const size_t at : {size_t{0}, static_cast<size_t>(kHashedBlock), content_.size() - 1}) {
    std::string changed = content_;
    changed[at] ^= 1;
    write_new(folder_, "large", changed);
    EXPECT_THAT(refusal(), HasSubstr("differs from what was written")) << at;
  }
  std::string turned = content_.substr(static_cast<size_t>(kHashedBlock)) + content_;
  turned.resize(content_.size());  // its blocks in another order
  write_new(folder_, "large", turned);
  EXPECT_THAT(refusal(), HasSubstr("differs from what was written"));
}

// A thread of three.
class OneOfThree final : public Readers {
 public:
  struct Shared {
    std::barrier<> all{3};
    std::vector<std::string> texts{3};
  };
  OneOfThree(int64_t rank, Shared& shared) : rank_(rank), shared_(shared) {}
  int64_t rank() const override { return rank_; }
  int64_t size() const override { return 3; }
  std::vector<std::string> gather(const std::string& text) override {
    shared_.texts[static_cast<size_t>(rank_)] = text;
    shared_.all.arrive_and_wait();
    std::vector<std::string> texts = shared_.texts;
    shared_.all.arrive_and_wait();
    return texts;
  }

 private:
  int64_t rank_;
  Shared& shared_;
};

TEST_F(ManifestTest, IsFoundTheSameByAllThatReadIt) {
  const auto expect = [&](const std::string& refusal) {
    OneOfThree::Shared shared;
    std::vector<std::thread> readers;
    for (int64_t rank = 0; rank < 3; ++rank) {
      readers.emplace_back([&, rank] {
        OneOfThree reader(rank, shared);
        try {
          EXPECT_EQ(read_and_verify_manifest(folder_, &reader).files.size(), 2);
          EXPECT_EQ(refusal, "") << rank;
        } catch (const Error& error) {
          EXPECT_NE(refusal, "") << error.what();
          EXPECT_THAT(error.what(), HasSubstr(refusal)) << rank;
        }
      });
    }
    for (std::thread& reader : readers) reader.join();
  };
  expect("");
  std::string changed = content_;
  changed[static_cast<size_t>(kHashedBlock)] ^= 1;  // of the second's block
  write_new(folder_, "large", changed);
  expect("large: differs from what was written");
  write_new(folder_, "large", content_ + "w");
  expect("rank 0: " + (folder_ / "large").string() + ": has 16777294 bytes");
  fs::remove(folder_ / "large");
  expect("large: is missing");
  fs::remove(folder_ / "manifest.json");
  expect("rank 0: " + folder_.string() + ": has no manifest.json");
}

TEST_F(ManifestTest, OfVersionOneIsRead) {
  Json manifest = read_json(folder_ / "manifest.json");
  EXPECT_EQ(manifest["version"], 2);
  EXPECT_NE(manifest["files"][0]["hash"], hash_file(folder_ / "large"));
  EXPECT_EQ(manifest["files"][1]["hash"], hash_file(folder_ / "small"));
  manifest["version"] = 1;
  write_new(folder_, "manifest.json", format_json(manifest));
  EXPECT_THAT(refusal(), HasSubstr("large: differs from what was written"));
  manifest["files"][0]["hash"] = hash_file(folder_ / "large");
  write_new(folder_, "manifest.json", format_json(manifest));
  EXPECT_EQ(refusal(), "");
}

}  // namespace
}  // namespace fathom::weights
