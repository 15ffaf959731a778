// What an evaluation with predict_with_generate asks: each sample's prompt, continued, beside the answer that the
// sample has.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "arch/architecture.h"
#include "config/run_config.h"
#include "data/dataset.h"
#include "schedule/steps.h"

namespace fathom::schedule {

// What decides the memory of answers that are written together.
struct AnswerShape {
  int64_t rows = 0;
  int64_t first = 0;      // tokens of each row in the first pass: as many as the shortest prompt has
  int64_t positions = 0;  // that passes read of the longest row: its prompt, and all of an answer but the last token
  int64_t source_length = 0;                             // of what an encoder reads, in as many rows; 0: there is none
  auto operator<=>(const AnswerShape&) const = default;  // NOLINT(modernize-use-nullptr): of what the compiler writes
};

// Of a sample: for an encoder its source and its target, for a decoder what stands before the last tokens in a row that
// count for the loss, and these. The prompt is empty where all tokens count.
struct Question {
  std::vector<int32_t> prompt, reference;
};
Question question_of(const data::Dataset& dataset, int64_t row);

struct AnswerBatch {
  std::vector<int64_t> rows;  // of the dataset
  AnswerShape shape;
};

// Of an evaluation: samples by the length of their prompts, per_device_eval_batch_size at a time, with answers of at
// most so many tokens. Throws UsageError for a sample without a prompt.
std::vector<AnswerBatch> answer_batches(const config::RunConfig& config, const data::Dataset& validation, int64_t most);
// Tokens after which an answer ends: generation_max_length, else those of the longest answer of these data.
int64_t longest_answer(const config::RunConfig& config, const data::Dataset& validation);
// Of each number of rows (kernels differ by it: one row has products of one token) those that no other exceeds; none
// where the config asks for no answers.
std::vector<AnswerShape> answer_shapes(const config::RunConfig& config, const data::Dataset& validation,
                                       const KernelTraits& traits = {});

// Throws UsageError for answers of at most so many tokens that go on beyond the positions that a model has learned,
// which their prompts do not.
void refuse_longer_answers(const arch::Architecture& architecture, const std::vector<AnswerShape>& shapes,
                           int64_t most);

// Throws UsageError for answers that cross the border from which on LongRoPE turns every token otherwise: they would be
// read anew there, in a pass that no plan has.
void refuse_answers_read_anew(const arch::Architecture& architecture, const std::vector<AnswerShape>& shapes);

}  // namespace fathom::schedule
