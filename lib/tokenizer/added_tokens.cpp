// A binary search that narrows the sorted tokens byte by byte, at the places where one may begin.
#include "tokenizer/added_tokens.h"

#include <algorithm>

#include "tokenizer/character_classes.h"
#include "tokenizer/utf8.h"

namespace fathom::tokenizer {
namespace {

bool has_class_before(std::string_view text, size_t at, uint8_t wanted) {
  return at > 0 && CharacterClasses::instance()(character_at(text.data() + previous_character(text, at)).code) & wanted;
}

bool has_class_at(std::string_view text, size_t at, uint8_t wanted) {
  return at < text.size() && CharacterClasses::instance()(character_at(text.data() + at).code) & wanted;
}

bool is_single_word(std::string_view text, size_t begin, size_t end) {
  return !has_class_before(text, begin, kWord) && !has_class_at(text, end, kWord);
}

}  // namespace

AddedTokenFinder::AddedTokenFinder(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::sort(tokens_.begin(), tokens_.end(), [](const auto& a, const auto& b) { return a.text < b.text; });
  for (const AddedToken& token : tokens_) first_byte_[static_cast<unsigned char>(token.text[0])] = true;
  one_first_byte_ = !tokens_.empty() && tokens_.front().text[0] == tokens_.back().text[0];
}

size_t AddedTokenFinder::next_candidate(std::string_view text, size_t at) const {
  if (one_first_byte_) return std::min(text.find(tokens_.front().text[0], at), text.size());
  while (at < text.size() && !first_byte_[static_cast<unsigned char>(text[at])]) ++at;
  return at;
}

const AddedToken* AddedTokenFinder::longest_at(std::string_view text, size_t at) const {
  const AddedToken* longest = nullptr;
  auto low = tokens_.begin(), high = tokens_.end();
  for (size_t depth = 0; at + depth < text.size(); ++depth) {
    // A token that ends here comes before those that go on, as char_traits compares bytes.
    const auto byte = static_cast<unsigned char>(text[at + depth]);
    auto byte_of = [depth](const AddedToken& token) {
      return depth < token.text.size() ? int{static_cast<unsigned char>(token.text[depth])} : -1;
    };
    low = std::partition_point(low, high, [&](const AddedToken& token) { return byte_of(token) < byte; });
    high = std::partition_point(low, high, [&](const AddedToken& token) { return byte_of(token) <= byte; });
    if (low == high) break;
    if (low->text.size() == depth + 1) longest = &*low;
  }
  return longest;
}

std::vector<AddedTokenFinder::Stretch> AddedTokenFinder::find(std::string_view text,
                                                              const StaysText& stays_text) const {
  std::vector<Stretch> stretches;
  size_t done = 0;  // end of the last stretch
  for (size_t at = tokens_.empty() ? text.size() : 0; (at = next_candidate(text, at)) < text.size();) {
    const AddedToken* token = longest_at(text, at);
    if (token == nullptr) {
      ++at;
      continue;
    }
    size_t begin = at, end = at + token->text.size();
    at = end;  // the search goes on behind the token, whatever becomes of it
    if (token->special && stays_text && stays_text(begin, end)) continue;
    if (token->single_word && !is_single_word(text, begin, end)) continue;
    // What was taken in before is skipped, so that no blank is read twice.
    if (token->lstrip) {
      while (begin > done && has_class_before(text, begin, kSpace)) begin = previous_character(text, begin);
    }
    if (token->rstrip) {
      end = std::max(end, done);
      while (has_class_at(text, end, kSpace)) end += character_at(text.data() + end).bytes;
    }
    if (done < begin) stretches.push_back({done, begin, kText});
    stretches.push_back({begin, end, token->id});
    done = std::max(done, end);
  }
  if (done < text.size()) stretches.push_back({done, text.size(), kText});
  return stretches;
}

}  // namespace fathom::tokenizer
