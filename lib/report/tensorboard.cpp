// Frames and encodes events. Field numbers are those of tensorflow/core/util/event.proto and framework/summary.proto.
#include "report/tensorboard.h"

#include <bit>
#include <chrono>
#include <cstring>

#include "base/error.h"
#include "report/metrics.h"

namespace fathom::report {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie in memory");

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

}  // namespace

// Event { wall_time = 1, step = 2, summary = 5 { value = 1 { tag = 1, simple_value = 2 } … } }
std::string event_record(double wall_time, int64_t step, const TaggedValues& values) {
  std::string summary;
  for (const auto& [tag, value] : values) {
    summary += delimited(1, delimited(1, tag) + key(2, kFixed32) + fixed(static_cast<float>(value)));
  }
  return framed(key(1, kFixed64) + fixed(wall_time) + key(2, kVariable) + variable(static_cast<uint64_t>(step)) +
                delimited(5, summary));
}

EventFile::EventFile(const std::filesystem::path& output_dir, const LogMark& kept)
    : Sink(output_dir / "events.out.tfevents.fathom", kept) {
  if (mark().bytes == 0) begin_with(version_record(now()));
}

void EventFile::append(int64_t step, const TaggedValues& values) { RunLog::append(event_record(now(), step, values)); }

void EventFile::append(const StepMetrics& metrics) {
  TaggedValues values = {{"train/loss", metrics.loss},
                         {"train/learning_rate", metrics.learning_rate},
                         {"train/grad_norm", metrics.grad_norm},
                         {"train/clipped_share", metrics.clipped_share},
                         {"train/epoch", metrics.epoch},
                         {"train/tokens_per_second", metrics.tokens_per_second},
                         {"memory/live_bytes", static_cast<double>(metrics.live_bytes)},
                         {"memory/peak_bytes", static_cast<double>(metrics.peak_bytes)}};
  for (const auto& [name, number] : metrics.more) values.emplace_back("train/" + name, as_double(number));
  append(metrics.step, values);
}

void EventFile::append(const EvaluationMetrics& metrics) {
  TaggedValues values = {{"eval/loss", metrics.eval_loss}};
  if (metrics.eval_exact_match) values.emplace_back("eval/exact_match", *metrics.eval_exact_match);
  if (metrics.eval_rouge_l) values.emplace_back("eval/rougeL", *metrics.eval_rouge_l);
  for (const auto& [name, number] : metrics.more) {
    values.emplace_back("eval/" + name.substr(kOfEvaluation.size()), as_double(number));
  }
  append(metrics.step, values);
}

}  // namespace fathom::report
