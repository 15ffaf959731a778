// Pickles byte by byte, as Python's pickletools documents them.
#include "page/pickle.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace fathom::page {
namespace {

using namespace std::string_literals;

std::string pickled(auto write) {
  PickleWriter pickle;
  write(pickle);
  const std::string bytes = pickle.finish();
  EXPECT_EQ(bytes.substr(0, 2), "\x80\x02");
  EXPECT_EQ(bytes.back(), '.');
  return bytes.substr(2, bytes.size() - 3);
}

std::string integer(int64_t value) {
  return pickled([&](PickleWriter& pickle) { pickle.integer(value); });
}

TEST(Pickle, WritesIntegersInTheFewestBytes) {
  EXPECT_EQ(integer(0), "K\0"s);
  EXPECT_EQ(integer(255), "K\xFF"s);
  EXPECT_EQ(integer(256), "M\0\x01"s);
  EXPECT_EQ(integer(65536), "J\0\0\x01\0"s);
  EXPECT_EQ(integer(-1), "J\xFF\xFF\xFF\xFF"s);
  EXPECT_EQ(integer(int64_t{1} << 31), "\x8a\x08\0\0\0\x80\0\0\0\0"s);
  EXPECT_EQ(integer(-(int64_t{1} << 40)), "\x8a\x08\0\0\0\0\0\xFF\xFF\xFF"s);
}

TEST(Pickle, RecallsTexts) {
  EXPECT_EQ(pickled([](PickleWriter& pickle) {
              pickle.begin_list();
              pickle.text("ab");
              pickle.text("ab");
              pickle.none();
              pickle.end_list();
            }),
            "](X\x02\0\0\0abq\0h\0Ne"s);
}

TEST(Pickle, RecallsWholeValues) {
  EXPECT_EQ(pickled([](PickleWriter& pickle) {
              pickle.begin_list();
              pickle.begin_list();
              pickle.end_list();
              const uint32_t number = pickle.remember();
              pickle.recall(number);
              pickle.end_list();
            }),
            "](](eq\0h\0e"s);
}

TEST(Pickle, CountsBeyondOneByte) {
  const std::string bytes = pickled([](PickleWriter& pickle) {
    pickle.begin_list();
    for (int i = 0; i < 257; ++i) pickle.text(std::to_string(i));
    pickle.text("256");
    pickle.end_list();
  });
  EXPECT_NE(bytes.find("r\0\x01\0\0"s), std::string::npos);
  EXPECT_NE(bytes.find("j\0\x01\0\0"s), std::string::npos);
}

TEST(Pickle, EndsLongListsInBatches) {
  const std::string bytes = pickled([](PickleWriter& pickle) {
    pickle.begin_list();
    for (int i = 0; i < 2500; ++i) pickle.integer(7);
    pickle.end_list();
  });
  std::string batch;
  for (int i = 0; i < 1000; ++i) batch += "K\x07";
  EXPECT_EQ(bytes, "](" + batch + "e(" + batch + "e(" + batch.substr(0, 1000) + "e");
}

TEST(Pickle, IsWholeOrRefused) {
  PickleWriter other;
  other.begin_dict();
  EXPECT_THROW(other.end_list(), Error);
  PickleWriter pickle;
  pickle.begin_dict();
  pickle.entry("size", 5);
  EXPECT_THROW(pickle.finish(), Error);
}

}  // namespace
}  // namespace fathom::page
