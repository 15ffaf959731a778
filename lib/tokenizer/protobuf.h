// The fields of a protocol buffer's message, as far as SentencePiece's models need them.
#pragma once

#include <cstdint>
#include <string_view>

namespace fathom::tokenizer {

struct ProtobufField {
  uint64_t number, kind;   // kind 2 has a length (texts, messages)
  uint64_t value;          // of kind 0
  std::string_view bytes;  // of the others
};

// Calls on_field(field) for each. False: the message is not well-formed.
template <typename OnField>
bool for_each_field(std::string_view message, const OnField& on_field) {
  const auto varint = [&message] {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && !message.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(message.front());
      message.remove_prefix(1);
      value |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) break;
    }
    return value;
  };
  while (!message.empty()) {
    const uint64_t key = varint(), kind = key & 7;
    const uint64_t value = kind == 0 || kind == 2 ? varint() : 0;
    const uint64_t bytes = kind == 0 ? 0 : kind == 1 ? 8 : kind == 2 ? value : kind == 5 ? 4 : UINT64_MAX;
    if (bytes > message.size()) return false;
    on_field(ProtobufField{key >> 3, kind, value, message.substr(0, bytes)});
    message.remove_prefix(bytes);
  }
  return true;
}

}  // namespace fathom::tokenizer
