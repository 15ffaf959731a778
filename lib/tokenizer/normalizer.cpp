// Reads NFC, NFKC, Prepend, Precompiled, Strip, Replace and Sequence into one chain of steps.
#include "tokenizer/normalizer.h"

#include <cstdint>
#include <optional>

#include "base/error.h"
#include "base/json_value.h"
#include "tokenizer/character_classes.h"
#include "tokenizer/json_part.h"
#include "tokenizer/normal_form.h"
#include "tokenizer/utf8.h"

namespace fathom::tokenizer {
namespace {

constexpr size_t kMostSteps = 16;

// NFKC's longest replacement has eleven times the bytes of its character.
size_t most_bytes_from(size_t given) { return 32 * given + 4096; }

// Of letters, digits, + and /, padded with = to a multiple of four.
std::optional<std::string> decode_base64(std::string_view text) {
  static constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  if (text.size() % 4 != 0) return std::nullopt;
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
  std::string bytes;
  for (size_t at = 0; at < text.size(); at += 4) {
    const size_t letters = at + 4 == text.size() ? 4 - padding : 4;
    uint32_t bits = 0;
    for (size_t i = 0; i < 4; ++i) {
      const size_t value = i < letters ? kLetters.find(text[at + i]) : 0;
      if (value == std::string_view::npos) return std::nullopt;
      bits = bits << 6 | static_cast<uint32_t>(value);
    }
    for (size_t i = 0; i + 1 < letters; ++i)
      bytes += static_cast<char>(static_cast<unsigned char>(bits >> (16 - 8 * i)));
  }
  return bytes;
}

bool is_space(std::string_view text, size_t at) {
  return (CharacterClasses::instance()(character_at(text.data() + at).code) & kSpace) != 0;
}

std::string_view strip(std::string_view text, bool left, bool right) {
  while (left && !text.empty() && is_space(text, 0)) text.remove_prefix(character_at(text.data()).bytes);
  while (right && !text.empty() && is_space(text, previous_character(text, text.size()))) {
    text = text.substr(0, previous_character(text, text.size()));
  }
  return text;
}

void find_all(std::string_view text, std::string_view wanted, std::vector<Piece>& matches) {
  for (size_t at = 0; (at = text.find(wanted, at)) != std::string_view::npos; at += wanted.size()) {
    matches.push_back({at, at + wanted.size()});
  }
}

std::string replace(std::string_view text, const std::vector<Piece>& matches, std::string_view content,
                    OffsetMap& origins) {
  std::string result;
  size_t done = 0;
  for (const Piece& match : matches) {
    origins.copied(result.size(), done);
    result.append(text.substr(done, match.begin - done));
    origins.rewritten(result.size(), match.begin);
    result.append(content);
    done = match.end;
  }
  origins.copied(result.size(), done);
  return result.append(text.substr(done));
}

}  // namespace

void Rewritten::take(std::string rewritten, OffsetMap origins) {
  buffer = std::move(rewritten);
  text = buffer;
  steps.push_back(std::move(origins));
}

size_t Rewritten::origin(size_t at) const {
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) at = step->origin(at);
  return at;
}

Normalizer::Normalizer(const Json& json, const std::string& file) {
  if (const Json* part = find_key(json, "normalizer")) read(*part, file + ": normalizer");
}

void Normalizer::read(const Json& part, const std::string& where) {
  const std::string type = type_of(part, where);
  if (steps_.size() == kMostSteps)
    throw Error(where + ": more than " + std::to_string(kMostSteps) + " steps are not supported");
  if (type == "NFC" || type == "NFKC") {
    steps_.emplace_back(Composition{type == "NFC" ? NormalForm::kComposed : NormalForm::kCompatible});
  } else if (type == "Prepend") {
    steps_.emplace_back(Prefix{read_text(part, "prepend", where)});
  } else if (type == "Precompiled") {
    const std::string key = where + ".precompiled_charsmap";
    const auto table = decode_base64(read_text(part, "precompiled_charsmap", where));
    if (!table) throw Error(key + ": is not base64");
    steps_.emplace_back(CharacterMap(*table, key));
  } else if (type == "Strip") {
    steps_.emplace_back(
        Strip{read_flag(part, "strip_left", false, where), read_flag(part, "strip_right", false, where)});
  } else if (type == "Replace") {
    Replacement replacement;
    replacement.literal = read_literal_pattern(part).value_or("");
    if (replacement.literal.empty()) replacement.pattern.emplace(read_pattern(part, where), where + ".pattern");
    replacement.content = read_text(part, "content", where);
    replacement.where = where;
    steps_.emplace_back(std::move(replacement));
  } else if (type == "Sequence") {
    const Json& parts = list_of(part, "normalizers", where);
    for (size_t i = 0; i < parts.size(); ++i) read(parts[i], where + ".normalizers[" + std::to_string(i) + "]");
  } else {
    reject_type(where, type, "NFC, NFKC, Prepend, Precompiled, Replace, Strip, Sequence, none");
  }
}

void Normalizer::apply(Rewritten& text, MatchBudget& budget) const {
  const size_t most_bytes = most_bytes_from(text.text.size());
  std::vector<Piece> matches;
  for (const Step& step : steps_) {
    OffsetMap origins;
    std::string rewritten;
    if (const auto* composition = std::get_if<Composition>(&step)) {
      if (is_plainly_composed(text.text, composition->form)) continue;
      rewritten = compose(text.text, composition->form, &origins);
    } else if (const auto* prefix = std::get_if<Prefix>(&step)) {
      if (text.text.empty()) continue;
      origins.rewritten(0, 0);
      origins.copied(prefix->text.size(), 0);
      rewritten = prefix->text + std::string(text.text);
    } else if (const auto* map = std::get_if<CharacterMap>(&step)) {
      rewritten = map->apply(text.text, origins, most_bytes);
    } else if (const auto* sides = std::get_if<Strip>(&step)) {
      const std::string_view stripped = strip(text.text, sides->left, sides->right);
      if (stripped.size() == text.text.size()) continue;
      origins.copied(0, static_cast<size_t>(stripped.data() - text.text.data()));
      rewritten = stripped;
    } else if (const auto* replacement = std::get_if<Replacement>(&step)) {
      matches.clear();
      if (replacement->pattern) {
        replacement->pattern->find_all(text.text, matches, budget);
      } else {
        find_all(text.text, replacement->literal, matches);
      }
      if (matches.empty()) continue;
      if (text.text.size() + matches.size() * replacement->content.size() > most_bytes) {
        throw Error(replacement->where + ": makes a text of " + std::to_string(text.text.size()) + " bytes too long");
      }
      rewritten = replace(text.text, matches, replacement->content, origins);
    }
    text.take(std::move(rewritten), std::move(origins));
  }
}

}  // namespace fathom::tokenizer
