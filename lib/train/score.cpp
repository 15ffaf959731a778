// Prompts to answers, answers to text.
#include "train/score.h"

#include <algorithm>
#include <vector>

#include "schedule/answers.h"

namespace fathom::train {
namespace {

// Until the first token that ends it. A model may have tokens that its tokenizer has not, for which there is no text.
std::string text_of(const tokenizer::Tokenizer& tokenizer, const std::vector<int64_t>& stop_ids,
                    std::vector<int32_t> ids) {
  ids.erase(std::find_first_of(ids.begin(), ids.end(), stop_ids.begin(), stop_ids.end()), ids.end());
  std::erase_if(ids, [&](int32_t id) { return id < 0 || id >= tokenizer.vocabulary_size(); });
  return tokenizer.decode(ids);
}

}  // namespace

ScoredAnswers score_answers(const config::RunConfig& config, const schedule::RunInputs& inputs, Evaluator& evaluator,
                            const std::function<bool()>& stop) {
  const std::vector<int64_t> stop_ids = schedule::stop_ids(inputs);
  const int64_t most = schedule::longest_answer(config, inputs.validation);
  const std::vector<schedule::AnswerBatch> batches = schedule::answer_batches(config, inputs.validation, most);
  const auto prompts_at = [&](int64_t index) {
    const schedule::AnswerBatch& batch = batches[static_cast<size_t>(index)];
    Prompts prompts{batch.shape, {}, most, stop_ids};
    for (const int64_t row : batch.rows) prompts.rows.push_back(schedule::question_of(inputs.validation, row).prompt);
    return prompts;
  };
  const Answers answers = evaluator.answer(std::ssize(batches), prompts_at, stop);
  ScoredAnswers result;
  result.complete = answers.complete;
  result.memory = answers.memory;
  if (!result.complete) return result;
  auto said = answers.ids.begin();
  for (const schedule::AnswerBatch& batch : batches) {
    for (const int64_t row : batch.rows) {
      const std::vector<int32_t> reference = schedule::question_of(inputs.validation, row).reference;
      result.scores.add(text_of(*inputs.tokenizer, stop_ids, *said++), text_of(*inputs.tokenizer, stop_ids, reference));
    }
  }
  return result;
}

}  // namespace fathom::train
