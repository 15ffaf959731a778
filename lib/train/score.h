// What a model answers to the prompts of an evaluation, held against the data.
#pragma once

#include <functional>

#include "config/run_config.h"
#include "schedule/inputs.h"
#include "train/answer_scores.h"
#include "train/trainer.h"

namespace fathom::train {

struct ScoredAnswers {
  AnswerScores scores;
  bool complete = true;  // false: stopped early, the scores are of nothing
  memory::Memory memory;
};

// Of the validation data, in text: the tokenizer decodes both, special tokens left out, references up to the token that
// ends an answer. stop: asked after each batch.
ScoredAnswers score_answers(const config::RunConfig& config, const schedule::RunInputs& inputs, Evaluator& evaluator,
                            const std::function<bool()>& stop = nullptr);

}  // namespace fathom::train
