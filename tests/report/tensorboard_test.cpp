// TensorBoard's files, read back by a parser of the test's own.
#include "report/tensorboard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "base/error.h"
#include "base/file.h"

namespace fathom::report {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::Pair;

struct Event {
  double wall_time = 0;
  int64_t step = 0;
  std::string version;
  std::vector<std::pair<std::string, float>> scalars;
};

// Reads protobuf's wire format: calls visit(field, number, content) for each field of a message.
template <typename Visit>
void each_field(std::string_view message, const Visit& visit) {
  const auto variable = [&] {
    uint64_t number = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<uint8_t>(message.front());
      message.remove_prefix(1);
      number |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return number;
    }
  };
  while (!message.empty()) {
    const uint64_t key = variable();
    const uint64_t wire = key & 7;
    if (wire == 0) {
      visit(key >> 3, variable(), std::string_view());
      continue;
    }
    const uint64_t length = wire == 1 ? 8 : wire == 5 ? 4 : variable();
    ASSERT_LE(length, message.size());
    visit(key >> 3, 0, message.substr(0, length));
    message.remove_prefix(length);
  }
}

template <typename Number>
Number number_at(std::string_view bytes) {
  Number number;
  std::memcpy(&number, bytes.data(), sizeof number);
  return number;
}

uint32_t unmasked(uint32_t check) {
  const uint32_t turned = check - 0xa282ead8u;
  return turned >> 17 | turned << 15;
}

Event parse_event(std::string_view data) {
  Event event;
  each_field(data, [&](uint64_t field, uint64_t number, std::string_view content) {
    if (field == 1) event.wall_time = number_at<double>(content);
    if (field == 2) event.step = static_cast<int64_t>(number);
    if (field == 3) event.version = content;
    if (field != 5) return;
    each_field(content, [&](uint64_t, uint64_t, std::string_view value) {
      auto& scalar = event.scalars.emplace_back();
      each_field(value, [&](uint64_t part, uint64_t, std::string_view text) {
        if (part == 1) scalar.first = text;
        if (part == 2) scalar.second = number_at<float>(text);
      });
    });
  });
  return event;
}

// Whole records; what a kill cut off at the end is left out.
std::vector<Event> parse(std::string_view bytes) {
  std::vector<Event> events;
  while (bytes.size() >= 16) {
    const auto length = number_at<uint64_t>(bytes);
    EXPECT_EQ(unmasked(number_at<uint32_t>(bytes.substr(8))), crc32c(bytes.substr(0, 8)));
    if (bytes.size() < 16 + length) break;
    const std::string_view data = bytes.substr(12, length);
    EXPECT_EQ(unmasked(number_at<uint32_t>(bytes.substr(12 + length))), crc32c(data));
    events.push_back(parse_event(data));
    bytes.remove_prefix(16 + length);
  }
  return events;
}

class TensorBoardTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("fathom-tensorboard-" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path file() const { return folder_ / "events.out.tfevents.fathom"; }
  fs::path folder_;
};

TEST_F(TensorBoardTest, writes_what_is_read_back) {
  EventFile events(folder_);
  events.append(1, {{"train/loss", 2.5}, {"train/epoch", 0.125}});
  events.append(300, {{"eval/loss", -1}});
  EXPECT_EQ(events.mark().bytes, static_cast<int64_t>(fs::file_size(file())));
  const std::vector<Event> read = parse(read_file(file()));
  ASSERT_EQ(read.size(), 3U);
  EXPECT_EQ(read[0].version, "brain.Event:2");
  EXPECT_EQ(read[1].step, 1);
  EXPECT_GT(read[1].wall_time, 1.7e9);
  EXPECT_THAT(read[1].scalars, ElementsAre(Pair("train/loss", 2.5f), Pair("train/epoch", 0.125f)));
  EXPECT_EQ(read[2].step, 300);
  EXPECT_THAT(read[2].scalars, ElementsAre(Pair("eval/loss", -1.0f)));
}

TEST_F(TensorBoardTest, holds_each_step_once_after_a_resume) {
  LogMark at_checkpoint;
  {
    EventFile events(folder_);
    events.append(1, {{"train/loss", 1}});
    at_checkpoint = events.mark();
    events.append(2, {{"train/loss", 2}});
  }
  std::ofstream(file(), std::ios::app | std::ios::binary) << "half a rec";
  EventFile events(folder_, at_checkpoint);
  events.append(2, {{"train/loss", 2.5}});
  const std::vector<Event> read = parse(read_file(file()));
  ASSERT_EQ(read.size(), 3U);
  EXPECT_THAT(read[2].scalars, ElementsAre(Pair("train/loss", 2.5f)));
}

TEST_F(TensorBoardTest, a_missing_file_begins_as_every_file_does) {
  LogMark at_checkpoint;
  {
    EventFile events(folder_);
    events.append(1, {{"train/loss", 1}});
    at_checkpoint = events.mark();
  }
  fs::remove(file());
  EventFile events(folder_, at_checkpoint);
  events.append(2, {{"train/loss", 2}});
  const std::vector<Event> read = parse(read_file(file()));
  ASSERT_EQ(read.size(), 2U);
  EXPECT_EQ(read[0].version, "brain.Event:2");
  EXPECT_EQ(read[1].step, 2);
}

}  // namespace
}  // namespace fathom::report
