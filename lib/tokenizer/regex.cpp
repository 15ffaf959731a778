// Oniguruma behind two functions: the only file that includes its header.
#include "tokenizer/regex.h"

#include <oniguruma.h>

#include <mutex>

#include "base/error.h"
#include "tokenizer/utf8.h"

namespace fathom::tokenizer {
namespace {

constexpr size_t kLongestPattern = 1 << 14;
constexpr unsigned kMostSteps = 10'000'000;
constexpr unsigned kDeepestStack = 10'000'000;

void initialize() {
  static std::once_flag once;
  std::call_once(once, [] {
    OnigEncoding encoding = ONIG_ENCODING_UTF8;
    onig_initialize(&encoding, 1);
    onig_set_retry_limit_in_match(kMostSteps);
    onig_set_retry_limit_in_search(kMostSteps);
    onig_set_match_stack_limit_size(kDeepestStack);
    onig_set_parse_depth_limit(100);
  });
}

const OnigUChar* bytes_of(std::string_view text) { return reinterpret_cast<const OnigUChar*>(text.data()); }

std::string explain(int code, OnigErrorInfo* info = nullptr) {
  OnigUChar text[ONIG_MAX_ERROR_MESSAGE_LEN];
  const int length = onig_error_code_to_str(text, code, info);
  return {reinterpret_cast<const char*>(text), static_cast<size_t>(length)};
}

struct Region {
  OnigRegion* value = onig_region_new();
  Region() = default;
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  ~Region() { onig_region_free(value, 1); }
};

}  // namespace

struct Regex::Compiled {
  std::string pattern, where;
  regex_t* regex = nullptr;
  Compiled() = default;
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;
  ~Compiled() { onig_free(regex); }
};

Regex::Regex(std::string pattern, const std::string& where) : compiled_(std::make_unique<Compiled>()) {
  initialize();
  compiled_->pattern = std::move(pattern);
  compiled_->where = where;
  const std::string_view text = compiled_->pattern;
  if (text.size() > kLongestPattern) {
    throw Error(where + ": a pattern of " + std::to_string(text.size()) + " bytes is too long");
  }
  OnigErrorInfo info{};
  const int code = onig_new(&compiled_->regex, bytes_of(text), bytes_of(text) + text.size(), ONIG_OPTION_NONE,
                            ONIG_ENCODING_UTF8, ONIG_SYNTAX_RUBY, &info);
  if (code != ONIG_NORMAL) throw Error(where + ": not a regular expression: " + explain(code, &info));
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

void Regex::find_all(std::string_view text, std::vector<Piece>& matches) const {
  const Region region;
  const OnigUChar* const begin = bytes_of(text);
  const OnigUChar* const end = begin + text.size();
  size_t from = 0, last_end = std::string::npos;
  while (from <= text.size()) {
    const int found = onig_search(compiled_->regex, begin, end, begin + from, end, region.value, ONIG_OPTION_NONE);
    if (found == ONIG_MISMATCH) return;
    if (found < 0) {
      throw Error(compiled_->where + ": the pattern fails on a text of " + std::to_string(text.size()) +
                      " bytes: " + explain(found),
                  "Split the text, or mend the pattern: " + compiled_->pattern);
    }
    const Piece match{static_cast<size_t>(region.value->beg[0]), static_cast<size_t>(region.value->end[0])};
    if (match.begin == match.end && match.end == last_end) {
      from += from < text.size() ? character_at(text.data() + from).bytes : 1;
      continue;
    }
    matches.push_back(match);
    from = last_end = match.end;
  }
}

std::vector<std::pair<char32_t, char32_t>> code_ranges(const std::string& property) {
  initialize();
  const OnigEncoding encoding = ONIG_ENCODING_UTF8;
  // The tables are not written to; old interfaces say otherwise.
  auto* name = const_cast<OnigUChar*>(bytes_of(property));
  const int type = ONIGENC_PROPERTY_NAME_TO_CTYPE(encoding, name, name + property.size());
  OnigCodePoint single_bytes = 0;
  const OnigCodePoint* ranges = nullptr;
  if (type < 0 || ONIGENC_GET_CTYPE_CODE_RANGE(encoding, type, &single_bytes, &ranges) != 0) {
    throw Error("this Oniguruma (" + std::string(onig_version()) + ") has no property " + property);
  }
  std::vector<std::pair<char32_t, char32_t>> result;
  for (OnigCodePoint i = 0; i < ranges[0]; ++i) result.emplace_back(ranges[1 + 2 * i], ranges[2 + 2 * i]);
  return result;
}

}  // namespace fathom::tokenizer
