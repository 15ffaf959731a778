// Examples: token ids with their labels, as a view of tokens that lie in memory or in a file.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/tokens.h"

namespace fathom::data {

inline constexpr int64_t kIgnored = -100;  // a label that counts for no loss

// For an encoder and decoder the source, without labels, and behind it the target, of which every token has one.
struct Example {
  std::vector<int32_t> ids;
  std::vector<int32_t> labels;  // of the same length, unshifted; kIgnored where there is no loss
};

// What a dataset lost when it was cut to max_length.
struct Truncation {
  int64_t truncated = 0;       // examples that were cut
  int64_t cut_tokens = 0;      // of those
  int64_t cut_targets = 0;     // target tokens among them
  int64_t without_target = 0;  // examples that had no target token left and were dropped
  int64_t alike = 0;           // preferences whose answers were cut to the same tokens
  void add(const Truncation& other);
};

// Where an example lies among the tokens.
struct Place {
  uint64_t first : 63 = 0;  // its first word
  uint64_t paired : 1 = 0;  // id and label in two words for each token
  int32_t length = 0;       // tokens
  int32_t targets = 0;      // tokens after the first that count for the loss
};

// Where the words of one example after the other go.
struct Words {
  std::vector<int32_t> words;
  std::vector<Place> places;
  Truncation truncation;  // of what was cut before it came here
  void append(const Example& example);
};

// The first label of an example is never a target: no token comes before it. Of preferences an example is several rows
// of one prompt, one behind the other; else one.
class Dataset {
 public:
  Dataset() = default;  // no examples
  explicit Dataset(const std::vector<Example>& examples, int64_t rows_of_example = 1);
  Dataset(std::shared_ptr<const Tokens> tokens, std::vector<Place> places, const Truncation& truncation = {});

  int64_t size() const { return row_count() / rows_of_example_; }  // examples
  int64_t row_count() const { return static_cast<int64_t>(places_.size()); }
  bool empty() const { return places_.empty(); }
  int64_t rows_of_example() const { return rows_of_example_; }
  void set_rows_of_example(int64_t rows) { rows_of_example_ = rows; }
  // The rows of these examples.
  std::vector<int64_t> rows_of(const std::vector<int64_t>& examples) const;
  // Of one row; throws std::out_of_range for one that is not there.
  int64_t length(int64_t row) const { return place(row).length; }
  int64_t target_count(int64_t row) const { return place(row).targets; }
  Example example(int64_t row) const;
  int64_t longest() const;       // tokens of the longest row; 0 without examples
  int64_t token_count() const;   // of all examples
  int64_t target_count() const;  // of all examples
  const Truncation& truncation() const { return truncation_; }
  // Set: of sources and targets, which a decoder reads from this token on; unset: of one stream.
  const std::optional<int32_t>& decoder_start() const { return decoder_start_; }
  void set_decoder_start(std::optional<int32_t> id) { decoder_start_ = id; }
  // Of sources and targets. The first token of an example is never a target.
  int64_t source_length(int64_t row) const { return length(row) - target_count(row); }

  // The examples cut on the right to max_length tokens, without those of which a row has no target then; may be left
  // empty. Not for sources and targets, each of which was cut when it was read.
  Dataset cut(int64_t max_length) const;
  // These examples, in this order.
  Dataset select(const std::vector<int64_t>& examples) const;
  // The examples of each part behind those of the part before.
  static Dataset join(const std::vector<Dataset>& parts);
  // Two datasets of one fingerprint train alike, so a resumed run can tell that its files or tokenizer have changed:
  // XXH3-128 of the tokens and of each example's place among them.
  std::string fingerprint() const;

 private:
  Dataset with_places(std::vector<Place> places) const;  // of these tokens
  bool are_alike(int64_t first, const std::vector<Place>& kept) const;
  const Place& place(int64_t row) const { return places_.at(static_cast<size_t>(row)); }

  std::shared_ptr<const Tokens> tokens_;
  std::vector<Place> places_;
  Truncation truncation_;
  std::optional<int32_t> decoder_start_;
  int64_t rows_of_example_ = 1;
};

// Splits off a share in (0, 1) of the examples, at least one and never all, drawn by the seed; both parts keep the
// order of the file. Throws Error for fewer than two examples.
struct Split {
  Dataset kept, held_out;
};
Split split(const Dataset& dataset, double share, uint64_t seed);

}  // namespace fathom::data
