// How near a model's answers come to those of the data.
#pragma once

#include <cstdint>
#include <string_view>

namespace fathom::train {

// Of the longest common subsequence of the words (what blanks divide) of both: the harmonic mean of its share of each
// (Lin 2004, "ROUGE: A Package for Automatic Evaluation of Summaries", section 3.1, with beta = 1); 0 where they share
// none. Words are taken as they stand: none is stemmed or turned to lower case.
double rouge_l(std::string_view said, std::string_view reference);

// Means over answers, each from 0 to 1.
class AnswerScores {
 public:
  void add(std::string_view said, std::string_view reference);
  int64_t answers() const { return answers_; }
  double exact_match() const { return mean(exact_); }  // share that is the reference, blanks around both apart
  double rouge_l() const { return mean(rouge_l_); }

 private:
  double mean(double sum) const { return answers_ > 0 ? sum / static_cast<double>(answers_) : 0; }
  int64_t answers_ = 0;
  double exact_ = 0, rouge_l_ = 0;
};

}  // namespace fathom::train
