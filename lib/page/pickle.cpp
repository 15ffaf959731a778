// Opcodes and little-endian integers.
#include "page/pickle.h"

#include <cstddef>
#include <limits>

#include "base/error.h"

namespace fathom::page {
namespace {

constexpr int kBatch = 1000;  // even, so that a dict's batches hold whole pairs

// pickletools' names.
constexpr char kProto = '\x80', kStop = '.', kMark = '(', kEmptyDict = '}', kSetItems = 'u', kEmptyList = ']',
               kAppends = 'e', kBinUnicode = 'X', kBinInt1 = 'K', kBinInt2 = 'M', kBinInt = 'J', kLong1 = '\x8a',
               kNoneCode = 'N', kBinPut = 'q', kLongBinPut = 'r', kBinGet = 'h', kLongBinGet = 'j';

void append_little_endian(std::string& bytes, uint64_t value, int count) {
  for (int i = 0; i < count; ++i) bytes += static_cast<char>((value >> (8 * i)) & 0xFF);
}

void append_number(std::string& bytes, char of_one_byte, char of_four, uint32_t number) {
  const bool small = number < 256;
  bytes += small ? of_one_byte : of_four;
  append_little_endian(bytes, number, small ? 1 : 4);
}

}  // namespace

PickleWriter::PickleWriter() : bytes_({kProto, 2}) {}

// Before each value: ends the batch of an open list or dict once it is full and begins the next.
void PickleWriter::begin_value() {
  if (open_.empty()) return;
  Open& open = open_.back();
  if (open.batched == kBatch) {
    bytes_ += {open.end, kMark};
    open.batched = 0;
  }
  open.batched++;
}

void PickleWriter::begin(char opcode, char end) {
  begin_value();
  bytes_ += {opcode, kMark};
  open_.push_back({end});
}

void PickleWriter::end(char end) {
  if (open_.empty() || open_.back().end != end) throw Error("a pickle ends a list or dict that it did not begin");
  open_.pop_back();
  bytes_ += end;
}

void PickleWriter::begin_dict() { begin(kEmptyDict, kSetItems); }
void PickleWriter::end_dict() { end(kSetItems); }
void PickleWriter::begin_list() { begin(kEmptyList, kAppends); }
void PickleWriter::end_list() { end(kAppends); }

void PickleWriter::text(std::string_view value) {
  if (const auto known = texts_.find(std::string(value)); known != texts_.end()) return recall(known->second);
  if (value.size() > std::numeric_limits<uint32_t>::max()) throw Error("a text is too long for a pickle");
  begin_value();
  bytes_ += kBinUnicode;
  append_little_endian(bytes_, value.size(), 4);
  bytes_ += value;
  texts_.emplace(value, remember());
}

void PickleWriter::integer(int64_t value) {
  begin_value();
  if (value >= 0 && value < (1 << 8)) {
    bytes_ += kBinInt1;
    append_little_endian(bytes_, static_cast<uint64_t>(value), 1);
  } else if (value >= 0 && value < (1 << 16)) {
    bytes_ += kBinInt2;
    append_little_endian(bytes_, static_cast<uint64_t>(value), 2);
  } else if (value >= std::numeric_limits<int32_t>::min() && value <= std::numeric_limits<int32_t>::max()) {
    bytes_ += kBinInt;
    append_little_endian(bytes_, static_cast<uint64_t>(value), 4);
  } else {
    bytes_ += {kLong1, 8};
    append_little_endian(bytes_, static_cast<uint64_t>(value), 8);
  }
}

void PickleWriter::none() {
  begin_value();
  bytes_ += kNoneCode;
}

void PickleWriter::entry(std::string_view key, std::string_view value) {
  text(key);
  text(value);
}

void PickleWriter::entry(std::string_view key, int64_t value) {
  text(key);
  integer(value);
}

uint32_t PickleWriter::remember() {
  append_number(bytes_, kBinPut, kLongBinPut, remembered_);
  return remembered_++;
}

void PickleWriter::recall(uint32_t number) {
  begin_value();
  append_number(bytes_, kBinGet, kLongBinGet, number);
}

std::string PickleWriter::finish() {
  if (!open_.empty()) throw Error("a pickle has a list or a dict that is not ended");
  bytes_ += kStop;
  return std::move(bytes_);
}

}  // namespace fathom::page
