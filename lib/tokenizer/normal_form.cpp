// Sequence by sequence: utf8proc decomposes and composes; the order of marks is sorted here, as its own sort is
// quadratic.
#include "tokenizer/normal_form.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "tokenizer/utf8.h"

namespace fathom::tokenizer {
namespace {

constexpr char32_t kFirstMark = 0x300;          // every character below stands alone, or begins a sequence
constexpr unsigned char kFirstMarkByte = 0xCC;  // the first byte of its UTF-8
constexpr int kLongestDecomposition = 32;       // of one character; Unicode's longest is 18

// Characters from which on a form may change one that stands alone, and the first byte of their UTF-8.
struct First {
  char32_t code;
  unsigned char byte;
};
First first_changed(NormalForm form) {
  return form == NormalForm::kComposed ? First{kFirstMark, kFirstMarkByte} : First{0x80, 0xC2};
}

// Marks, and Hangul's vowels and final consonants: all that may join the character before it, or change places with it.
bool is_mark(char32_t code) {
  if (code < kFirstMark) return false;
  if (code >= 0x1160 && code <= 0x11FF) return true;
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC || category == UTF8PROC_CATEGORY_ME;
}

using Codes = std::vector<utf8proc_int32_t>;

utf8proc_propval_t combining_class(utf8proc_int32_t code) { return utf8proc_get_property(code)->combining_class; }

void decompose(char32_t code, NormalForm form, Codes& codes) {
  const int options = UTF8PROC_DECOMPOSE | (form == NormalForm::kCompatible ? UTF8PROC_COMPAT : 0);
  utf8proc_int32_t parts[kLongestDecomposition];
  int boundary = 0;
  const utf8proc_ssize_t count =
      utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code), parts, kLongestDecomposition,
                              static_cast<utf8proc_option_t>(options), &boundary);
  if (count < 0 || count > kLongestDecomposition) throw Error("utf8proc cannot decompose a character");
  codes.insert(codes.end(), parts, parts + count);
}

Codes decompose(std::string_view sequence, NormalForm form) {
  Codes codes;
  for (size_t at = 0; at < sequence.size();) {
    const Character character = character_at(sequence.data() + at);
    at += character.bytes;
    decompose(character.code, form, codes);
  }
  return codes;
}

// Some letters become marks where they are made compatible (U+FF9E).
bool joins_backward(char32_t code, NormalForm form) {
  if (form == NormalForm::kComposed || code < kFirstMark) return is_mark(code);
  Codes codes;
  decompose(code, form, codes);
  return !codes.empty() && is_mark(static_cast<char32_t>(codes.front()));
}

// Marks between two starters go by their combining class; equal ones keep their order.
void order_marks(Codes& codes) {
  for (size_t begin = 0; begin < codes.size(); ++begin) {
    if (combining_class(codes[begin]) == 0) continue;
    size_t end = begin;
    while (end < codes.size() && combining_class(codes[end]) != 0) ++end;
    std::stable_sort(codes.begin() + static_cast<std::ptrdiff_t>(begin),
                     codes.begin() + static_cast<std::ptrdiff_t>(end),
                     [](auto a, auto b) { return combining_class(a) < combining_class(b); });
    begin = end;
  }
}

std::string compose_sequence(std::string_view sequence, NormalForm form) {
  Codes codes = decompose(sequence, form);
  order_marks(codes);
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);
  const utf8proc_ssize_t count =
      utf8proc_normalize_utf32(codes.data(), static_cast<utf8proc_ssize_t>(codes.size()), options);
  if (count < 0) throw Error(std::string("utf8proc: ") + utf8proc_errmsg(count));
  std::string result;
  for (utf8proc_ssize_t i = 0; i < count; ++i) append_character(result, static_cast<char32_t>(codes[i]));
  return result;
}

// What a character may do in a form, looked up once for the planes that have the letters of languages.
class Behaviour {
 public:
  static const Behaviour& instance(NormalForm form) {
    static const Behaviour composed(NormalForm::kComposed);
    if (form == NormalForm::kComposed) return composed;
    static const Behaviour compatible(NormalForm::kCompatible);
    return compatible;
  }
  bool joins(char32_t code) const { return code < kTabled ? (table_[code] & kJoins) != 0 : is_mark(code); }
  // Whether the form neither changes it on its own nor lets it change with what stands before it.
  bool is_stable(char32_t code) const { return code < kTabled ? table_[code] == 0 : !is_mark(code); }

 private:
  static constexpr char32_t kTabled = 0x30000;  // beyond, there are no decompositions
  enum : uint8_t { kJoins = 1, kChanges = 2 };

  explicit Behaviour(NormalForm form) : table_(kTabled) {
    for (char32_t code = first_changed(form).code; code < kTabled; ++code) {
      if (code >= 0xD800 && code <= 0xDFFF) continue;
      if (joins_backward(code, form)) table_[code] |= kJoins;
      const utf8proc_property_t* property = utf8proc_get_property(static_cast<utf8proc_int32_t>(code));
      const bool decomposes = property->decomp_seqindex != UINT16_MAX;
      if (!decomposes || (form == NormalForm::kComposed && property->decomp_type != 0)) continue;
      std::string character;
      append_character(character, code);
      if (compose_sequence(character, form) != character) table_[code] |= kChanges;
    }
  }
  std::vector<uint8_t> table_;
};

// Where the sequence that begins at `at` ends; `plain` tells whether the form surely leaves it alone.
size_t sequence_end(std::string_view text, size_t at, const Behaviour& behaviour, bool& plain) {
  const Character first = character_at(text.data() + at);
  plain = behaviour.is_stable(first.code);
  size_t end = at + first.bytes;
  while (end < text.size() && static_cast<unsigned char>(text[end]) >= kFirstMarkByte) {
    const Character next = character_at(text.data() + end);
    if (!behaviour.joins(next.code)) break;
    plain = false;
    end += next.bytes;
  }
  return end;
}

}  // namespace

bool is_plainly_composed(std::string_view text, NormalForm form) {
  const Behaviour& behaviour = Behaviour::instance(form);
  const unsigned char first_byte = first_changed(form).byte;
  for (size_t at = 0; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) < first_byte) {
      ++at;  // the rest of a character is skipped byte by byte: bytes within one are below that, too
      continue;
    }
    const Character character = character_at(text.data() + at);
    if (!behaviour.is_stable(character.code)) return false;
    at += character.bytes;
  }
  return true;
}

std::string compose(std::string_view text, NormalForm form, OffsetMap* origins) {
  std::string result;
  result.reserve(text.size());
  bool copying = false;
  const Behaviour& behaviour = Behaviour::instance(form);
  for (size_t at = 0; at < text.size();) {
    bool plain = false;
    const size_t end = sequence_end(text, at, behaviour, plain);
    const std::string_view sequence = text.substr(at, end - at);
    const std::string composed = plain ? "" : compose_sequence(sequence, form);
    const bool copies = plain || composed == sequence;
    if (origins != nullptr && !copies) origins->rewritten(result.size(), at);
    if (origins != nullptr && copies && !copying) origins->copied(result.size(), at);
    copying = copies;
    result.append(copies ? sequence : composed);
    at = end;
  }
  return result;
}

}  // namespace fathom::tokenizer
