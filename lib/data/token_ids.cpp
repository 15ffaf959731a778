// Masks as transformers and TRL write them.
#include "data/token_ids.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/json_value.h"

namespace fathom::data {
namespace {

using Integers = std::vector<int32_t>;

bool has(const Line& line, const char* key) {
  const auto found = line.value.find(key);
  return found != line.value.end() && !found->is_null();
}

// flags: true and false are 1 and 0.
Integers read_integers(const Line& line, const char* key, bool flags = false) {
  if (!line.value.contains(key)) line.fail(std::string("has no ") + key);
  const Json& list = line.value[key];
  if (!list.is_array()) line.fail(std::string(key) + ": expected a list of whole numbers, got " + kind_of(list));
  Integers numbers;
  numbers.reserve(list.size());
  for (const Json& item : list) {
    if (flags && item.is_boolean()) {
      numbers.push_back(item.get<bool>() ? 1 : 0);
      continue;
    }
    const bool whole = item.is_number_integer() && (!item.is_number_unsigned() || item.get<uint64_t>() <= INT32_MAX);
    if (!whole || item.get<int64_t>() < INT32_MIN) {
      line.fail(std::string(key) + ": expected whole numbers, got " + item.dump().substr(0, 40));
    }
    numbers.push_back(item.get<int32_t>());
  }
  return numbers;
}

// A list beside another one of so many entries.
Integers read_beside(const Line& line, const char* key, const char* other, size_t size, bool flags = false) {
  Integers numbers = read_integers(line, key, flags);
  if (numbers.size() == size) return numbers;
  line.fail(std::string(key) + " has " + std::to_string(numbers.size()) + " entries, " + other + " " +
            std::to_string(size));
}

Integers read_mask(const Line& line, const char* key, const char* other, size_t size) {
  Integers mask = read_beside(line, key, other, size, /*flags=*/true);
  const auto wrong = std::find_if(mask.begin(), mask.end(), [](int32_t bit) { return bit != 0 && bit != 1; });
  if (wrong != mask.end()) line.fail(std::string(key) + ": expected 0 and 1, got " + std::to_string(*wrong));
  return mask;
}

struct Stretch {
  std::ptrdiff_t begin = 0, end = 0;
};

// What a mask leaves of a list of so many entries when its padding is cut off.
Stretch attended(const Line& line, const char* key, const char* other, size_t size) {
  Stretch all{0, static_cast<std::ptrdiff_t>(size)};
  if (!has(line, key)) return all;
  const Integers mask = read_mask(line, key, other, size);
  const auto first = std::find(mask.begin(), mask.end(), 1);
  if (first == mask.end()) line.fail(std::string(key) + " has no 1: nothing of the line is read");
  const auto behind = std::find(first, mask.end(), 0);
  const bool is_padding =
      std::find(behind, mask.end(), 1) == mask.end() && (first == mask.begin() || behind == mask.end());
  if (!is_padding) {
    line.fail(
        std::string(key) + ": expected ones, then zeros (padding on the right), or zeros, then ones (on the left)",
        "other masks are not supported: leave the tokens out that nobody reads");
  }
  return {first - mask.begin(), behind - mask.begin()};
}

void keep(Integers& numbers, const Stretch& stretch) {
  numbers.erase(numbers.begin() + stretch.end, numbers.end());
  numbers.erase(numbers.begin(), numbers.begin() + stretch.begin);
}

// What says of the tokens what is so here anyhow.
void check_described(const Line& line, size_t size, const Stretch& stretch) {
  if (has(line, "position_ids")) {
    Integers positions = read_beside(line, "position_ids", "input_ids", size);
    keep(positions, stretch);
    Integers usual(positions.size());
    std::iota(usual.begin(), usual.end(), 0);
    if (positions != usual) {
      line.fail("position_ids: expected 0, 1, 2 and so on; other positions are not supported",
                "write each packed sample in a line of its own");
    }
  }
  if (has(line, "token_type_ids")) {
    const Integers types = read_beside(line, "token_type_ids", "input_ids", size);
    if (std::any_of(types.begin(), types.end(), [](int32_t type) { return type != 0; })) {
      line.fail("token_type_ids: expected zeros; models here know no types of tokens", "remove the key");
    }
  }
  if (has(line, "seq_lengths")) {
    const Integers lengths = read_integers(line, "seq_lengths");
    if (lengths != Integers{static_cast<int32_t>(stretch.end - stretch.begin)}) {
      line.fail("seq_lengths: expected the one length of the line; packed samples are not taken apart",
                "write each sample in a line of its own, and set packing: true");
    }
  }
}

}  // namespace

Example read_token_ids(const Line& line, const DatasetOptions& options) {
  Example example;
  example.ids = read_integers(line, "input_ids");
  const size_t size = example.ids.size();
  if (size == 0) line.fail("input_ids is empty");
  const bool labelled = has(line, "labels");
  example.labels = labelled ? read_beside(line, "labels", "input_ids", size) : example.ids;
  bool masked = false;
  for (const char* key : {"completion_mask", "assistant_masks"}) {
    if (!has(line, key)) continue;
    const Integers mask = read_mask(line, key, "input_ids", size);
    if (key == std::string_view("completion_mask") && options.completion_only_loss == false) continue;
    masked = true;
    for (size_t i = 0; i < size; ++i) {
      if (mask[i] == 1) continue;
      if (labelled && example.labels[i] != kIgnored) {
        line.fail("labels count token " + std::to_string(i) + ", where " + key + " has 0", "remove one of the two");
      }
      example.labels[i] = static_cast<int32_t>(kIgnored);
    }
  }
  if (options.completion_only_loss == true && !labelled && !masked) {
    line.fail("completion_only_loss: true, but input_ids has no labels that say what it is");
  }
  const Stretch stretch = attended(line, "attention_mask", "input_ids", size);
  check_described(line, size, stretch);
  keep(example.ids, stretch);
  keep(example.labels, stretch);
  return example;
}

TokenPair read_token_pair(const Line& line) {
  if (!line.value.contains("labels")) line.fail("has input_ids but no labels, which are what the model shall answer");
  TokenPair pair{read_integers(line, "input_ids"), read_integers(line, "labels")};
  keep(pair.source, attended(line, "attention_mask", "input_ids", pair.source.size()));
  keep(pair.target, attended(line, "decoder_attention_mask", "labels", pair.target.size()));
  for (const char* key : {"completion_mask", "assistant_masks", "position_ids", "token_type_ids", "seq_lengths"}) {
    if (has(line, key)) line.fail(std::string(key) + ": an encoder and decoder has none", "remove the key");
  }
  while (!pair.target.empty() && pair.target.back() == kIgnored) pair.target.pop_back();
  if (pair.source.empty()) line.fail("input_ids is empty");
  if (pair.target.empty()) line.fail("labels is empty");
  if (std::find(pair.target.begin(), pair.target.end(), kIgnored) != pair.target.end()) {
    line.fail("labels has -100 between tokens, but every token of a target is learned here");
  }
  return pair;
}

}  // namespace fathom::data
