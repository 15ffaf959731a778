// Lays a GGUF file out: a header of fixed numbers, keys, a line for each tensor, and the tensors, each at a multiple
// of 32.
#include "weights/gguf_writer.h"

#include <fcntl.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <set>
#include <string_view>

#include "base/bytes.h"
#include "base/error.h"
#include "base/file.h"
#include "base/rounding.h"
#include "base/system_error.h"

namespace fathom::weights {
namespace {

constexpr uint32_t kGgufVersion = 3;
constexpr int64_t kAlignment = 32;
constexpr uint32_t kArray = 9;  // the kind of every list

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie in memory");

// GGUF's number for a kind of value.
template <typename T>
constexpr uint32_t kKind = 0;
template <>
constexpr uint32_t kKind<uint8_t> = 0;
template <>
constexpr uint32_t kKind<uint32_t> = 4;
template <>
constexpr uint32_t kKind<int32_t> = 5;
template <>
constexpr uint32_t kKind<float> = 6;
template <>
constexpr uint32_t kKind<bool> = 7;
template <>
constexpr uint32_t kKind<std::string> = 8;

template <typename Number>
void append(std::string& text, Number number) {
  char bytes[sizeof number];
  std::memcpy(bytes, &number, sizeof number);
  text.append(bytes, sizeof number);
}

void append(std::string& text, const std::string& value) {
  append(text, uint64_t{value.size()});
  text += value;
}

template <typename T>
void append_value(std::string& text, const T& value) {
  append(text, kKind<T>);
  append(text, value);
}

template <typename T>
void append_value(std::string& text, const std::vector<T>& values) {
  append(text, kArray);
  append(text, kKind<T>);
  append(text, uint64_t{values.size()});
  for (const auto& value : values) append(text, static_cast<T>(value));
}

[[noreturn]] void refuse_second(const std::filesystem::path& path, const char* what, const std::string& name) {
  throw Error(path.string() + ": " + what + " '" + name + "' occurs twice");
}

int64_t place_of_next(int64_t offset, const GgufTensor& tensor) {
  const int64_t end = checked_add(offset, tensor.bytes(), "size of a GGUF file");
  return checked_add(end, round_up(end, kAlignment) - end, "size of a GGUF file");
}

// All that comes before the tensors' bytes.
std::string header_text(const std::filesystem::path& path, const GgufKeys& keys,
                        const std::vector<GgufTensor>& tensors) {
  std::string text = "GGUF";
  append(text, kGgufVersion);
  append(text, uint64_t{tensors.size()});
  append(text, uint64_t{keys.size()});
  std::set<std::string_view> names;
  for (const auto& [key, value] : keys) {
    if (!names.insert(key).second) refuse_second(path, "key", key);
    append(text, key);
    std::visit([&](const auto& given) { append_value(text, given); }, value);
  }
  names.clear();
  int64_t offset = 0;
  for (const GgufTensor& tensor : tensors) {
    if (!names.insert(tensor.name).second) refuse_second(path, "tensor", tensor.name);
    append(text, tensor.name);
    append(text, static_cast<uint32_t>(tensor.shape.size()));
    for (auto size = tensor.shape.rbegin(); size != tensor.shape.rend(); ++size) {
      append(text, static_cast<uint64_t>(*size));
    }
    append(text, static_cast<uint32_t>(tensor.type));
    append(text, static_cast<uint64_t>(offset));
    offset = place_of_next(offset, tensor);
  }
  text.append(static_cast<size_t>(round_up(std::ssize(text), kAlignment) - std::ssize(text)), '\0');
  return text;
}

}  // namespace

bool is_quantized(GgufType type) { return type == GgufType::kQ4_0 || type == GgufType::kQ8_0; }

int64_t gguf_row_bytes(GgufType type, int64_t columns) {
  const auto of_blocks = [columns](int64_t block_bytes) {
    return checked_multiply(columns / kGgufBlock, block_bytes, "size of a row");
  };
  switch (type) {
    case GgufType::kQ4_0:
      return of_blocks(2 + kGgufBlock / 2);  // a scale in FP16, and codes
    case GgufType::kQ8_0:
      return of_blocks(2 + kGgufBlock);
    case GgufType::kF32:
      return checked_multiply(columns, 4, "size of a row");
    case GgufType::kF16:
    case GgufType::kBF16:
      break;
  }
  return checked_multiply(columns, 2, "size of a row");
}

int64_t GgufTensor::bytes() const {
  int64_t bytes = gguf_row_bytes(type, columns());
  for (size_t i = 0; i + 1 < shape.size(); ++i) bytes = checked_multiply(bytes, shape[i], "size of tensor " + name);
  return bytes;
}

GgufWriter::GgufWriter(const std::filesystem::path& path, const GgufKeys& keys, std::vector<GgufTensor> tensors)
    : path_(path), tensors_(std::move(tensors)) {
  const std::string header = header_text(path, keys, tensors_);
  file_ = open_to_write(path, O_WRONLY | O_TRUNC);
  put(header.data(), std::ssize(header));
}

void GgufWriter::put(const void* data, int64_t bytes) {
  if (!write_whole(file_, data, static_cast<size_t>(bytes))) {
    throw system_error(path_.string() + ": writing failed", errno);
  }
}

void GgufWriter::write(const void* data, int64_t bytes) {
  if (current_ == tensors_.size() || bytes > tensors_[current_].bytes() - written_) {
    throw Error(path_.string() + ": more bytes than its tensors have");
  }
  put(data, bytes);
  written_ += bytes;
  if (written_ < tensors_[current_].bytes()) return;
  constexpr char kZeros[kAlignment] = {};
  put(kZeros, round_up(written_, kAlignment) - written_);
  ++current_;
  written_ = 0;
}

void GgufWriter::finish() {
  if (current_ < tensors_.size())
    throw Error(path_.string() + ": tensor '" + tensors_[current_].name + "' is not whole");
}

int64_t GgufWriter::bytes_of(const GgufKeys& keys, const std::vector<GgufTensor>& tensors) {
  int64_t bytes = std::ssize(header_text("a GGUF file", keys, tensors));
  for (const GgufTensor& tensor : tensors) bytes = place_of_next(bytes, tensor);
  return bytes;
}

}  // namespace fathom::weights
