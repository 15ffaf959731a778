// Reads `merges` in both spellings into a hash table that is sized once.
#include "tokenizer/merge_table.h"

#include <bit>

#include "base/error.h"
#include "base/json_value.h"

namespace fathom::tokenizer {
namespace {

// Slots looked at per insertion beyond which the ids must have been chosen to collide.
constexpr size_t kProbesPerMerge = 64;

struct Texts {
  std::string left, right;
};

Texts read_texts(const Json& merge, const std::string& where) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  }
  if (merge.is_string()) {
    const auto& text = merge.get_ref<const std::string&>();
    const size_t blank = text.find(' ');
    if (blank != std::string::npos && text.find(' ', blank + 1) == std::string::npos) {
      return {text.substr(0, blank), text.substr(blank + 1)};
    }
  }
  throw Error(where + ": expected \"a b\" or [\"a\", \"b\"], got " + merge.dump().substr(0, 80));
}

int32_t find_token(const Vocabulary& vocabulary, const std::string& spelling, const std::string& where) {
  const std::optional<int32_t> id = vocabulary.find_spelling(spelling);
  if (!id) throw Error(where + ": '" + spelling.substr(0, 80) + "' is not in the vocabulary");
  return *id;
}

}  // namespace

MergeTable::MergeTable(const Json& merges, const Vocabulary& vocabulary, const std::string& where) {
  if (!merges.is_array()) throw Error(where + ": expected a list");
  slots_.resize(std::bit_ceil(2 * merges.size() + 1));
  mask_ = slots_.size() - 1;
  pairs_.reserve(merges.size());
  size_t probes = 0;
  for (const Json& merge : merges) {
    // merges.txt begins with its version, which some converters carried along.
    if (merge.is_string() && merge.get_ref<const std::string&>().starts_with("#version")) continue;
    const std::string here = where + "[" + std::to_string(pairs_.size()) + "]";
    const Texts texts = read_texts(merge, here);
    const Pair pair{find_token(vocabulary, texts.left, here), find_token(vocabulary, texts.right, here)};
    const int32_t joined = find_token(vocabulary, texts.left + texts.right, here);
    probes += insert(pair, {static_cast<uint32_t>(pairs_.size()), joined});
    if (probes > kProbesPerMerge * (pairs_.size() + 1024))
      throw Error(where + ": the ids collide in the table of merges");
    pairs_.push_back(pair);
  }
}

// Of a pair that is listed twice, the later rank holds, as in Hugging Face's table.
size_t MergeTable::insert(Pair pair, Merge merge) {
  const uint64_t key = key_of(pair.left, pair.right);
  size_t probes = 1;
  size_t at = slot_of(key);
  for (; slots_[at].key != kEmpty && slots_[at].key != key; at = (at + 1) & mask_) ++probes;
  slots_[at] = {key, merge};
  return probes;
}

}  // namespace fathom::tokenizer
