// Oniguruma behind two functions: the only file that includes its header.
#include "tokenizer/regex.h"

#include <oniguruma.h>

#include <algorithm>
#include <ctime>
#include <mutex>
#include <optional>

#include "base/error.h"
#include "tokenizer/utf8.h"

namespace fathom::tokenizer {
namespace {

constexpr size_t kLongestPattern = 1 << 14;
constexpr unsigned long kFewSteps = 1024;  // of backtracking, which every search may take
constexpr int64_t kSearchesPerLook = 16;   // at the clock
constexpr unsigned kDeepestStack = 10'000'000;

void initialize() {
  static std::once_flag once;
  std::call_once(once, [] {
    OnigEncoding encoding = ONIG_ENCODING_UTF8;
    onig_initialize(&encoding, 1);
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

std::chrono::nanoseconds processor_time() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

}  // namespace

MatchBudget::MatchBudget(int64_t steps, std::chrono::nanoseconds time) : steps_(steps), end_(processor_time() + time) {}

bool MatchBudget::is_spent() {
  if (steps_ < 0) return true;
  return ++searches_ % kSearchesPerLook == 0 && processor_time() > end_;
}

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

// Oniguruma does not tell how many steps a search took. So each begins with few, and with twice as many when they were
// too few: what failed is known to have been spent, and in between the clock can be looked at.
struct Regex::Search {
  const Compiled& compiled;
  std::string_view text;
  MatchBudget& budget;
  OnigRegion* region = onig_region_new();
  OnigMatchParam* limits = onig_new_match_param();
  unsigned long steps = 0;

  Search(const Compiled& pattern, std::string_view searched, MatchBudget& shared)
      : compiled(pattern), text(searched), budget(shared) {
    onig_initialize_match_param(limits);
  }
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;
  ~Search() {
    onig_region_free(region, 1);
    onig_free_match_param(limits);
  }

  void allow(unsigned long count) {
    if (count == steps) return;
    onig_set_retry_limit_in_match_of_match_param(limits, count);
    onig_set_retry_limit_in_search_of_match_param(limits, count);
    steps = count;
  }

  [[noreturn]] void fail(const std::string& why) const {
    throw Error(compiled.where + ": the pattern fails on a text of " + std::to_string(text.size()) + " bytes: " + why,
                "split the text, or mend the pattern: " + compiled.pattern);
  }

  // The first match that begins at or behind `from`.
  std::optional<Piece> find(size_t from) {
    const OnigUChar *const begin = bytes_of(text), *const end = begin + text.size();
    allow(kFewSteps);
    while (true) {
      if (budget.is_spent()) fail("it takes too long");
      const int found =
          onig_search_with_param(compiled.regex, begin, end, begin + from, end, region, ONIG_OPTION_NONE, limits);
      if (found >= 0) return Piece{static_cast<size_t>(region->beg[0]), static_cast<size_t>(region->end[0])};
      if (found == ONIG_MISMATCH) return std::nullopt;
      if (found != ONIGERR_RETRY_LIMIT_IN_MATCH_OVER && found != ONIGERR_RETRY_LIMIT_IN_SEARCH_OVER) {
        fail(explain(found));
      }
      budget.spend(static_cast<int64_t>(steps));
      allow(2 * steps);
    }
  }
};

void Regex::find_all(std::string_view text, std::vector<Piece>& matches, MatchBudget& budget) const {
  Search search(*compiled_, text, budget);
  size_t from = 0, last_end = std::string::npos;
  while (from <= text.size()) {
    const std::optional<Piece> match = search.find(from);
    if (!match) return;
    if (match->begin == match->end && match->end == last_end) {
      from += from < text.size() ? character_at(text.data() + from).bytes : 1;
      continue;
    }
    matches.push_back(*match);
    from = last_end = match->end;
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
