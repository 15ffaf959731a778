// What a run is made of before any tensor exists: the model's folder and architecture, its tokenizer, the examples.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "arch/architecture.h"
#include "config/run_config.h"
#include "data/dataset.h"
#include "tokenizer/tokenizer.h"
#include "weights/folder.h"

namespace fathom::schedule {

struct RunInputs {
  std::unique_ptr<weights::ModelFolder> folder;
  arch::Architecture architecture;
  std::unique_ptr<tokenizer::Tokenizer> tokenizer;  // null where the folder has none and the data are token ids
  data::Dataset train;
  data::Dataset validation;
  std::string date;           // of the run (run_date.h), which chat templates may write
  int64_t longest_train = 0;  // tokens of the longest example
  int64_t longest_validation = 0;
};

// Opens the folder and reads the files that the config names. A file whose key is empty is left empty.
// weights_required: false for plans, which need no more than config.json.
RunInputs read_inputs(const config::RunConfig& config, bool weights_required = true);

// The tokens at which generation stops: generation_config.json's eos_token_id (a number or a list), else config.json's,
// else the tokenizer's.
std::vector<int64_t> stop_ids(const RunInputs& inputs);

// Whether the run saves checkpoints while it trains, be it only of the best evaluations.
bool saves_checkpoints(const config::RunConfig& config);
// The id that fills batches up; it is masked by position, so any id will do where the tokenizer names none.
int32_t padding_id(const RunInputs& inputs);

}  // namespace fathom::schedule
