// Prompts and answers by the labels of samples, in batches of similar prompts.
#include "schedule/answers.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>

#include "arch/rotary_frequencies.h"
#include "base/error.h"
#include "schedule/frontier.h"

namespace fathom::schedule {
namespace {

[[noreturn]] void refuse_without_prompt(int64_t row) {
  throw UsageError("predict_with_generate: true, but sample " + std::to_string(row + 1) +
                       " of the validation data has no prompt: all its tokens count for the loss",
                   "take prompts with completions, or conversations with assistant_only_loss: true");
}

bool covers(const AnswerShape& large, const AnswerShape& small, const KernelTraits& traits) {
  const auto covers_scores = [&](int64_t AnswerShape::*queries, int64_t AnswerShape::*keys) {
    const auto scores = [&](const AnswerShape& shape) {
      return scores_at_once(shape.rows * traits.score_heads, shape.*queries, shape.*keys);
    };
    return scores(large) >= scores(small);
  };
  if (!covers_scores(&AnswerShape::first, &AnswerShape::first) ||
      !covers_scores(&AnswerShape::source_length, &AnswerShape::source_length)) {
    return false;
  }
  return large.rows == small.rows && large.first >= small.first && large.positions >= small.positions &&
         large.source_length >= small.source_length;
}

}  // namespace

Question question_of(const data::Dataset& dataset, int64_t row) {
  data::Example example = dataset.example(row);
  auto last = std::ssize(example.labels);
  while (last > 0 && example.labels[static_cast<size_t>(last - 1)] == data::kIgnored) --last;
  int64_t first = dataset.decoder_start() ? dataset.source_length(row) : last;
  while (!dataset.decoder_start() && first > 0 && example.labels[static_cast<size_t>(first - 1)] != data::kIgnored) {
    --first;
  }
  return {{example.ids.begin(), example.ids.begin() + first},
          {example.labels.begin() + first, example.labels.begin() + last}};
}

std::vector<AnswerBatch> answer_batches(const config::RunConfig& config, const data::Dataset& validation,
                                        int64_t most) {
  std::vector<int64_t> prompts;
  for (int64_t row = 0; row < validation.size(); ++row) {
    prompts.push_back(std::ssize(question_of(validation, row).prompt));
    if (prompts.back() == 0) refuse_without_prompt(row);
  }
  std::vector<int64_t> order(prompts.size());
  std::iota(order.begin(), order.end(), 0);
  const auto prompt_of = [&](int64_t row) { return prompts[static_cast<size_t>(row)]; };
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return prompt_of(a) < prompt_of(b); });
  std::vector<AnswerBatch> batches;
  for (int64_t begin = 0; begin < std::ssize(order); begin += config.per_device_eval_batch_size) {
    const int64_t end = std::min(std::ssize(order), begin + config.per_device_eval_batch_size);
    AnswerBatch& batch = batches.emplace_back();
    batch.rows.assign(order.begin() + begin, order.begin() + end);
    const int64_t shortest = prompt_of(batch.rows.front()), longest = prompt_of(batch.rows.back());
    if (validation.decoder_start()) {
      batch.shape = {end - begin, 1, most, longest};
    } else {
      batch.shape = {end - begin, shortest, longest + most - 1, 0};
    }
  }
  return batches;
}

int64_t longest_answer(const config::RunConfig& config, const data::Dataset& validation) {
  if (config.generation_max_length > 0) return config.generation_max_length;
  int64_t longest = 1;
  for (int64_t row = 0; row < validation.size(); ++row) {
    longest = std::max<int64_t>(longest, std::ssize(question_of(validation, row).reference));
  }
  return longest;
}

std::vector<AnswerShape> answer_shapes(const config::RunConfig& config, const data::Dataset& validation,
                                       const KernelTraits& traits) {
  std::vector<AnswerShape> largest;
  if (!config.predict_with_generate) return largest;
  for (const AnswerBatch& batch : answer_batches(config, validation, longest_answer(config, validation))) {
    const auto covers_it = [&](const AnswerShape& other) { return covers(other, batch.shape, traits); };
    if (std::any_of(largest.begin(), largest.end(), covers_it)) continue;
    std::erase_if(largest, [&](const AnswerShape& other) { return covers(batch.shape, other, traits); });
    largest.push_back(batch.shape);
  }
  return largest;
}

void refuse_longer_answers(const arch::Architecture& architecture, const std::vector<AnswerShape>& shapes,
                           int64_t most) {
  const std::optional<int64_t> learned = architecture.longest_text();
  int64_t positions = 0;
  for (const AnswerShape& shape : shapes) positions = std::max(positions, shape.positions);
  if (!learned || positions <= *learned) return;
  throw UsageError("predict_with_generate: the longest prompt and an answer of " + std::to_string(most) +
                       " tokens reach beyond the " + std::to_string(*learned) + " positions that the model has learned",
                   "set generation_max_length: " + std::to_string(most - (positions - *learned)) +
                       ", or remove predict_with_generate");
}

void refuse_answers_read_anew(const arch::Architecture& architecture, const std::vector<AnswerShape>& shapes) {
  for (const arch::Rotary& rotary : architecture.rotaries()) {
    const int64_t border = arch::original_positions(rotary);
    if (border == 0) continue;
    for (const AnswerShape& shape : shapes) {
      if (shape.first > border || shape.positions <= border) continue;
      throw UsageError("predict_with_generate: answers reach beyond " + std::to_string(border) +
                           " tokens, from where on this model's positions (longrope) are others for all of them",
                       "lower max_length or generation_max_length, or remove predict_with_generate");
    }
  }
}

}  // namespace fathom::schedule
