// Views of tokens: cutting, selecting and joining move places alone.
#include "data/dataset.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/split_mix.h"

namespace fathom::data {
namespace {

int32_t word_of(int32_t id, bool counts) { return counts ? id : id | kWithoutLoss; }

int32_t count_targets(const std::vector<int32_t>& labels) {
  const auto later = labels.begin() + std::min<std::ptrdiff_t>(1, std::ssize(labels));
  return static_cast<int32_t>(std::count_if(later, labels.end(), [](int32_t label) { return label != kIgnored; }));
}

}  // namespace

void Truncation::add(const Truncation& other) {
  truncated += other.truncated;
  cut_tokens += other.cut_tokens;
  cut_targets += other.cut_targets;
  without_target += other.without_target;
  alike += other.alike;
}

void Words::append(const Example& example) {
  const auto own = [&](size_t i) { return example.labels[i] == kIgnored || example.labels[i] == example.ids[i]; };
  Place place;
  place.first = words.size();
  place.length = static_cast<int32_t>(example.ids.size());
  place.targets = count_targets(example.labels);
  for (size_t i = 0; i < example.ids.size(); ++i) place.paired |= !own(i);
  for (size_t i = 0; i < example.ids.size(); ++i) {
    const bool counts = example.labels[i] != kIgnored;
    words.push_back(word_of(example.ids[i], counts));
    if (place.paired) words.push_back(counts ? example.labels[i] : kWithoutLoss);
  }
  places.push_back(place);
}

Dataset::Dataset(const std::vector<Example>& examples, int64_t rows_of_example) : rows_of_example_(rows_of_example) {
  Words all;
  for (const Example& example : examples) all.append(example);
  tokens_ = tokens_in_memory(std::move(all.words));
  places_ = std::move(all.places);
}

Dataset::Dataset(std::shared_ptr<const Tokens> tokens, std::vector<Place> places, const Truncation& truncation)
    : tokens_(std::move(tokens)), places_(std::move(places)), truncation_(truncation) {}

std::vector<int64_t> Dataset::rows_of(const std::vector<int64_t>& examples) const {
  if (rows_of_example_ == 1) return examples;
  std::vector<int64_t> rows;
  rows.reserve(examples.size() * static_cast<size_t>(rows_of_example_));
  for (const int64_t example : examples) {
    for (int64_t row = 0; row < rows_of_example_; ++row) rows.push_back(example * rows_of_example_ + row);
  }
  return rows;
}

Example Dataset::example(int64_t row) const {
  const Place& at = place(row);
  const auto length = static_cast<size_t>(at.length);
  std::vector<int32_t> words(at.paired ? 2 * length : length);
  tokens_->read(at.first, words);
  Example example;
  example.labels.reserve(length);
  for (size_t i = 0; i < words.size(); i += at.paired ? 2 : 1) {
    const int32_t label = at.paired ? words[i + 1] : words[i];
    example.labels.push_back(label < 0 ? static_cast<int32_t>(kIgnored) : label);
    words[at.paired ? i / 2 : i] = words[i] & ~kWithoutLoss;
  }
  words.resize(length);
  example.ids = std::move(words);
  return example;
}

int64_t Dataset::longest() const {
  int64_t length = 0;
  for (const Place& place : places_) length = std::max<int64_t>(length, place.length);
  return length;
}

int64_t Dataset::token_count() const {
  int64_t count = 0;
  for (const Place& place : places_) count += place.length;
  return count;
}

int64_t Dataset::target_count() const {
  int64_t count = 0;
  for (const Place& place : places_) count += place.targets;
  return count;
}

// Whether these rows, from `first` on, begin with the same tokens, as many as are kept of each.
bool Dataset::are_alike(int64_t first, const std::vector<Place>& kept) const {
  std::vector<std::vector<int32_t>> ids;
  for (const Place& each : kept) {
    ids.push_back(example(first++).ids);
    ids.back().resize(static_cast<size_t>(each.length));
  }
  return std::all_of(ids.begin(), ids.end(), [&](const auto& each) { return each == ids.front(); });
}

Dataset Dataset::cut(int64_t max_length) const {
  Dataset result = with_places({});
  std::vector<Place> of_example;
  for (int64_t first = 0; first < row_count(); first += rows_of_example_) {
    Truncation lost;
    of_example.clear();
    for (int64_t row = first; row < first + rows_of_example_; ++row) {
      Place& kept = of_example.emplace_back(place(row));
      if (decoder_start_ || kept.length <= max_length) continue;
      std::vector<int32_t> labels = example(row).labels;
      labels.resize(static_cast<size_t>(max_length));
      kept.length = static_cast<int32_t>(max_length);
      kept.targets = count_targets(labels);
      lost.add({0, length(row) - max_length, target_count(row) - kept.targets, 0});
    }
    lost.truncated = lost.cut_tokens > 0 ? 1 : 0;
    if (std::all_of(of_example.begin(), of_example.end(), [](const Place& kept) { return kept.targets > 0; })) {
      result.places_.insert(result.places_.end(), of_example.begin(), of_example.end());
      lost.alike = lost.truncated == 1 && rows_of_example_ > 1 && are_alike(first, of_example) ? 1 : 0;
    } else {
      lost.without_target = 1;
    }
    result.truncation_.add(lost);
  }
  return result;
}

Dataset Dataset::with_places(std::vector<Place> places) const {
  Dataset result(tokens_, std::move(places), truncation_);
  result.decoder_start_ = decoder_start_;
  result.rows_of_example_ = rows_of_example_;
  return result;
}

Dataset Dataset::select(const std::vector<int64_t>& examples) const {
  const std::vector<int64_t> rows = rows_of(examples);
  Dataset result = with_places({});
  result.places_.reserve(rows.size());
  for (int64_t row : rows) result.places_.push_back(place(row));
  return result;
}

Dataset Dataset::join(const std::vector<Dataset>& parts) {
  if (parts.size() == 1) return parts[0];
  Dataset result;
  std::vector<std::shared_ptr<const Tokens>> tokens;
  uint64_t start = 0;
  for (const Dataset& part : parts) {
    result.truncation_.add(part.truncation_);
    result.decoder_start_ = part.decoder_start_;
    result.rows_of_example_ = part.rows_of_example_;
    if (part.tokens_ == nullptr) continue;
    for (Place place : part.places_) {
      place.first += start;
      result.places_.push_back(place);
    }
    start += part.tokens_->size();
    tokens.push_back(part.tokens_);
  }
  result.tokens_ = joined_tokens(std::move(tokens));
  return result;
}

std::string Dataset::fingerprint() const {
  Hasher hasher;
  const std::string tokens = tokens_ == nullptr ? "" : tokens_->digest();
  hasher.update(tokens.data(), tokens.size());
  hasher.update(places_.data(), places_.size() * sizeof(Place));
  return hasher.digest();
}

Split split(const Dataset& dataset, double share, uint64_t seed) {
  if (dataset.size() < 2) throw Error("an example cannot be held out of " + std::to_string(dataset.size()));
  std::vector<int64_t> order(static_cast<size_t>(dataset.size()));
  std::iota(order.begin(), order.end(), 0);
  const auto wanted = static_cast<int64_t>(std::ceil(share * static_cast<double>(dataset.size())));
  const auto held = static_cast<std::ptrdiff_t>(std::clamp<int64_t>(wanted, 1, dataset.size() - 1));
  // Fisher and Yates as far as rows are held out; a stream of its own, apart from the order of the samples.
  SplitMix64 random(seed ^ 0x686f6c646f757421);
  for (std::ptrdiff_t i = 0; i < held; ++i) {
    std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(i) + random.below(order.size() - i)]);
  }
  std::sort(order.begin(), order.begin() + held);
  std::sort(order.begin() + held, order.end());
  return {dataset.select({order.begin() + held, order.end()}), dataset.select({order.begin(), order.begin() + held})};
}

}  // namespace fathom::data
