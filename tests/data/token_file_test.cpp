// Kept tokens: every changed byte is noticed, writers do not meet, and killed ones leave nothing for good.
#include "data/token_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <thread>

namespace fathom::data {
namespace {

namespace fs = std::filesystem;

class TokenFileTest : public ::testing::Test {
 protected:
  ~TokenFileTest() override { fs::remove_all(folder_); }

  void keep(const std::vector<int32_t>& words, const std::string& key = "key") const {
    TokenFileWriter writer(folder_, key);
    writer.write(words);
    writer.finish({{.first = 0, .length = static_cast<int32_t>(words.size()), .targets = 1}}, 0);
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) names.push_back(entry.path().filename());
    return names;
  }

  const fs::path folder_ = fs::temp_directory_path() / ("fathom-tokens-" + std::to_string(getpid()));
};

TEST_F(TokenFileTest, any_byte_that_was_changed_is_noticed) {
  keep({5, 6, 7});
  ASSERT_TRUE(open_tokens(folder_, "key", 256));
  const auto size = static_cast<int64_t>(fs::file_size(folder_ / "key.tokens"));
  for (int64_t at = 128; at < size; ++at) {
    std::fstream file(folder_ / "key.tokens", std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(at);
    const int byte = file.get();
    file.seekp(at);
    file.put(static_cast<char>(byte ^ 1));
    file.close();
    EXPECT_FALSE(open_tokens(folder_, "key", 256)) << "byte " << at;
    keep({5, 6, 7});
  }
}

TEST_F(TokenFileTest, verifies_more_words_than_it_reads_at_once) {
  std::vector<int32_t> words((size_t{1} << 20) + 3);
  for (size_t i = 0; i < words.size(); ++i) words[i] = static_cast<int32_t>(i % 251);
  keep(words);
  EXPECT_TRUE(open_tokens(folder_, "key", 256));
  std::fstream file(folder_ / "key.tokens", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(128 + 4 * static_cast<std::streamoff>(words.size()) - 4);
  file.put('\x01').put('\x02');
  file.close();
  EXPECT_FALSE(open_tokens(folder_, "key", 256));
}

TEST_F(TokenFileTest, places_outside_the_words_count_as_damage_though_the_digests_are_right) {
  const auto is_whole = [&](const Place& place) {
    TokenFileWriter writer(folder_, "key");
    writer.write({5, 6, 7});
    writer.finish({place}, 0);
    return open_tokens(folder_, "key", 256).has_value();
  };
  EXPECT_TRUE(is_whole({.first = 1, .length = 2, .targets = 1}));
  EXPECT_TRUE(is_whole({.first = 1, .paired = 1, .length = 1}));
  EXPECT_FALSE(is_whole({.first = 1, .length = 3}));
  EXPECT_FALSE(is_whole({.first = 0, .paired = 1, .length = 2}));
  EXPECT_FALSE(is_whole({.first = 0, .length = -1}));
  EXPECT_FALSE(is_whole({.first = 0, .length = 2, .targets = 3}));
  EXPECT_FALSE(is_whole({.first = (uint64_t{1} << 63) - 1, .length = INT32_MAX, .targets = 1}));
}

TEST_F(TokenFileTest, an_id_outside_the_vocabulary_is_refused) {
  keep({5, 300});
  std::vector<int32_t> words(2);
  EXPECT_THROW(open_tokens(folder_, "key", 256)->tokens->read(0, words), TokenFileError);
}

TEST_F(TokenFileTest, a_file_that_changes_while_it_is_read_is_named) {
  const fs::path path = folder_ / "key.tokens";
  const auto told = [&](const std::function<void()>& change) -> std::string {
    keep({5, 6, 7});
    const auto kept = open_tokens(folder_, "key", 256);
    std::vector<int32_t> words(3);
    kept->tokens->read(0, words);
    change();
    try {
      kept->tokens->read(0, words);
    } catch (const TokenFileError& error) {
      return error.what();
    }
    EXPECT_THAT(words, ::testing::ElementsAre(5, 6, 7));
    return "";
  };
  const auto write_into = [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the file system's clock may tick 100 times a second
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(128);
    file.put('\x09');
  };
  for (const std::string& what :
       {told([&] { fs::resize_file(path, 130); }), told([&] { fs::resize_file(path, 1'000); }), told(write_into)}) {
    EXPECT_THAT(what, ::testing::AllOf(::testing::HasSubstr(path.string() + "' was changed by another process"),
                                       ::testing::HasSubstr("resume")));
  }
  EXPECT_EQ(told([&] { fs::remove(path); }), "");
  EXPECT_EQ(told([&] { keep({1, 2, 3}); }), "") << "a file that takes the name is another one";
}

TEST_F(TokenFileTest, two_writers_of_one_file_do_not_meet) {
  TokenFileWriter first(folder_, "key"), second(folder_, "key");
  first.write({1, 2, 3, 4});
  second.write({1, 2, 3, 4});
  first.finish({}, 1);
  second.finish({}, 2);
  EXPECT_EQ(open_tokens(folder_, "key", 256)->duplicates, 2);
  EXPECT_THAT(files(), ::testing::ElementsAre("key.tokens"));
}

TEST_F(TokenFileTest, what_killed_writers_left_goes_and_what_others_write_stays) {
  TokenFileWriter other(folder_, "other");
  std::ofstream(folder_ / "key.tokens.tmp-123") << "half";
  for (const std::string& name : files()) {
    fs::last_write_time(folder_ / name, fs::file_time_type::clock::now() - std::chrono::hours(1));
  }
  std::ofstream(folder_ / "new.tokens.tmp-124") << "not locked yet";
  keep({1, 2});
  EXPECT_THAT(files(), ::testing::UnorderedElementsAre("key.tokens", "new.tokens.tmp-124",
                                                       ::testing::StartsWith("other.tokens.tmp-")));
  other.finish({}, 0);
  EXPECT_TRUE(open_tokens(folder_, "other", 256));
}

TEST_F(TokenFileTest, a_folder_that_cannot_be_had_is_told_apart_from_other_errors) {
  EXPECT_THROW(TokenFileWriter("/dev/null/cache", "key"), TokenFileError);
  EXPECT_FALSE(open_tokens("/dev/null/cache", "key", 256));
}

}  // namespace
}  // namespace fathom::data
