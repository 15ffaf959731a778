// Reads Metaspace, Replace, ByteFallback, Fuse, Strip and Sequence, in the orders that converters write.
#include "tokenizer/token_decoder.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/error.h"
#include "base/json_value.h"
#include "tokenizer/json_part.h"
#include "tokenizer/metaspace.h"

namespace fathom::tokenizer {
namespace {

constexpr size_t kMostReplacements = 16;

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  for (size_t at = 0; at <= text.size();) {
    const size_t next = std::min(text.find(from, at), text.size());
    result.append(text.substr(at, next - at));
    if (next < text.size()) result.append(to);
    at = next + from.size();
  }
  return result;
}

// Of "<0x41>".
std::optional<char> byte_of(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  unsigned value = 0;
  const auto [end, problem] = std::from_chars(token.data() + 3, token.data() + 5, value, 16);
  if (problem != std::errc() || end != token.data() + 5) return std::nullopt;
  return static_cast<char>(static_cast<unsigned char>(value));
}

}  // namespace

TokenDecoder::TokenDecoder(const Json& json, const std::string& file) {
  const std::string where = file + ": decoder";
  const Json* decoder = find_key(json, "decoder");
  if (decoder == nullptr) {
    throw Error(where + ": expected ByteLevel, Metaspace, or Replace, ByteFallback, Fuse and Strip");
  }
  read(*decoder, where);
}

void TokenDecoder::read(const Json& part, const std::string& where) {
  const std::string type = type_of(part, where);
  if (type == "Sequence") {
    const Json& parts = list_of(part, "decoders", where);
    for (size_t i = 0; i < parts.size(); ++i) read(parts[i], where + ".decoders[" + std::to_string(i) + "]");
    return;
  }
  const bool is_of_tokens = type == "Replace" || type == "Metaspace" || type == "ByteFallback";
  if (is_of_tokens && (fused_ || falls_back_)) {
    throw Error(where + ".type: '" + type + "' is not supported behind ByteFallback or Fuse");
  }
  if (type == "Replace") {
    const std::optional<std::string> from = read_literal_pattern(part);
    if (!from) throw Error(where + R"(.pattern: expected {"String": …})");
    if (replacements_.size() == kMostReplacements) throw Error(where + ": more than 16 replacements are not supported");
    replacements_.push_back({*from, read_text(part, "content", where)});
  } else if (type == "Metaspace") {
    if (marks_) throw Error(where + ": a second Metaspace is not supported");
    marks_ = true;
    drops_marks_ = read_metaspace(part, where).prepends != Metaspace::Prepends::kNever;
  } else if (type == "ByteFallback") {
    falls_back_ = true;
  } else if (type == "Fuse") {
    fused_ = true;
  } else if (type == "Strip") {
    const auto is = [&](const char* key, uint64_t value) { return part.contains(key) && part.at(key) == value; };
    const bool none = is("start", 0);
    if (!fused_ || !is("stop", 0) || !(none || is("start", 1)) || !dropped_first_.empty()) {
      throw Error(where + ": Strip is supported behind Fuse alone, once, with start 0 or 1 and stop 0");
    }
    if (!none) dropped_first_ = read_text(part, "content", where);
  } else {
    reject_type(where, type, "ByteLevel, Metaspace, Replace, ByteFallback, Fuse, Strip, Sequence");
  }
}

std::string TokenDecoder::bytes(std::string_view spelling, bool first) const {
  std::string text(spelling);
  for (const Replacement& replacement : replacements_) text = replaced(text, replacement.from, replacement.to);
  if (marks_) text = replaced(text, kBlankMark, first && drops_marks_ ? "" : " ");
  if (falls_back_) {
    if (const std::optional<char> byte = byte_of(text)) text = *byte;
  }
  if (first && text.starts_with(dropped_first_)) text.erase(0, dropped_first_.size());
  return text;
}

}  // namespace fathom::tokenizer
