// Frames and encodes events. Field numbers are those of tensorflow/core/util/event.proto and framework/summary.proto.
#include "report/tensorboard.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "base/system_error.h"

namespace fathom::report {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie in memory");

constexpr size_t kHeaderBytes = 12, kFooterBytes = 4;  // length and its check; the data's check

std::array<uint32_t, 256> crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < table.size(); ++byte) {
    uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit) remainder = remainder % 2 == 1 ? remainder >> 1 ^ 0x82f63b78u : remainder >> 1;
    table[byte] = remainder;
  }
  return table;
}

// As TFRecord stores a check, so that checks of data with checks in them do not cancel out.
uint32_t masked(uint32_t check) { return (check >> 15 | check << 17) + 0xa282ead8u; }

template <typename Number>
std::string fixed(Number number) {
  std::string bytes(sizeof(Number), '\0');
  std::memcpy(bytes.data(), &number, sizeof(Number));
  return bytes;
}

// Protobuf: seven bits a byte, the lowest first.
std::string variable(uint64_t number) {
  std::string bytes;
  for (; number > 0x7f; number >>= 7) bytes += static_cast<char>(0x80 | (number & 0x7f));
  return bytes + static_cast<char>(number);
}

enum Wire : uint64_t { kVariable = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };
std::string key(uint64_t field, Wire wire) { return variable(field << 3 | wire); }
std::string delimited(uint64_t field, const std::string& content) {
  return key(field, kLengthDelimited) + variable(content.size()) + content;
}

std::string framed(const std::string& data) {
  const std::string length = fixed(static_cast<uint64_t>(data.size()));
  return length + fixed(masked(crc32c(length))) + data + fixed(masked(crc32c(data)));
}

// Event { wall_time = 1, file_version = 3 }: what every file begins with.
std::string version_record(double wall_time) {
  return framed(key(1, kFixed64) + fixed(wall_time) + delimited(3, "brain.Event:2"));
}

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& what) {
  throw system_error(path.string() + ": " + what, errno);
}

// Whether a record ends at `position`, going from one to the next.
bool ends_a_record(int file, int64_t position) {
  int64_t at = 0;
  while (at < position) {
    std::string header(kHeaderBytes, '\0');
    if (::pread(file, header.data(), kHeaderBytes, at) != static_cast<ssize_t>(kHeaderBytes)) return false;
    uint64_t length = 0;
    uint32_t check = 0;
    std::memcpy(&length, header.data(), sizeof length);
    std::memcpy(&check, header.data() + sizeof length, sizeof check);
    if (check != masked(crc32c(std::string_view(header).substr(0, sizeof length)))) return false;
    if (length > static_cast<uint64_t>(position - at)) return false;
    at += static_cast<int64_t>(kHeaderBytes + length + kFooterBytes);
  }
  return at == position;
}

}  // namespace

Scalars scalars_of(const EvaluationMetrics& metrics) {
  Scalars scalars = {{"eval/loss", metrics.eval_loss}};
  if (metrics.eval_exact_match) scalars.emplace_back("eval/exact_match", *metrics.eval_exact_match);
  if (metrics.eval_rouge_l) scalars.emplace_back("eval/rougeL", *metrics.eval_rouge_l);
  return scalars;
}

uint32_t crc32c(std::string_view bytes) {
  static const std::array<uint32_t, 256> table = crc_table();
  uint32_t remainder = 0xffffffffu;
  for (const char byte : bytes) remainder = remainder >> 8 ^ table[(remainder ^ static_cast<uint8_t>(byte)) & 0xff];
  return ~remainder;
}

// Event { wall_time = 1, step = 2, summary = 5 { value = 1 { tag = 1, simple_value = 2 } … } }
std::string event_record(double wall_time, int64_t step, const Scalars& scalars) {
  std::string summary;
  for (const auto& [tag, value] : scalars) {
    summary += delimited(1, delimited(1, tag) + key(2, kFixed32) + fixed(static_cast<float>(value)));
  }
  return framed(key(1, kFixed64) + fixed(wall_time) + key(2, kVariable) + variable(static_cast<uint64_t>(step)) +
                delimited(5, summary));
}

EventFile::EventFile(const std::filesystem::path& output_dir, int64_t keep_bytes)
    : path_(output_dir / "events.out.tfevents.fathom"),
      file_(open_to_write(path_, O_RDWR | O_APPEND)),
      bytes_(keep_bytes) {
  if (!ends_a_record(file_.get(), keep_bytes)) {
    throw Error(
        path_.string() + ": was changed since the checkpoint, when it had " + std::to_string(keep_bytes) + " bytes",
        "put the file of that run back, or remove it and set report_to: none");
  }
  if (::ftruncate(file_.get(), keep_bytes) != 0) fail(path_, "cannot be cut to its length at the checkpoint");
  if (keep_bytes == 0) write(version_record(now()));
}

void EventFile::append(int64_t step, const Scalars& scalars) { write(event_record(now(), step, scalars)); }

void EventFile::sync() {
  if (::fsync(file_.get()) != 0) fail(path_, "cannot be put on the disk");
}

void EventFile::write(const std::string& record) {
  if (!write_whole(file_, record.data(), record.size())) fail(path_, "cannot be written");
  bytes_ += static_cast<int64_t>(record.size());
}

}  // namespace fathom::report
