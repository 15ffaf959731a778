// `fathom generate`: text after each prompt, on stdout.
#include "train/generate.h"

#include <iostream>

#include "app/commands.h"
#include "app/model.h"
#include "app/session.h"
#include "base/error.h"
#include "train/trainer.h"

namespace fathom::app {
namespace {

// Where to stop: generation_config.json's eos_token_id (a number or a list), else config.json's, else the tokenizer's.
std::vector<int64_t> stop_ids(const train::RunInputs& inputs) {
  std::vector<int64_t> ids = inputs.shape.eos_token_ids;
  const auto& generation = inputs.folder->generation_config();
  if (generation && generation->contains("eos_token_id")) {
    const Json& eos = generation->at("eos_token_id");
    if (eos.is_number_integer()) ids = {eos.get<int64_t>()};
    if (eos.is_array()) ids = eos.get<std::vector<int64_t>>();
  }
  if (ids.empty() && inputs.tokenizer->eos_id) ids = {*inputs.tokenizer->eos_id};
  return ids;
}

}  // namespace

int run_generate(const Invocation& invocation) {
  const config::RunConfig config = config_with_adapter(invocation);
  const Session session = open_session(invocation);
  const train::RunInputs inputs = train::open_inputs(config);
  if (!inputs.tokenizer) throw Error(config.model_name_or_path + " has no tokenizer", "generate needs tokenizer.model");
  model::Llama model(inputs.shape, train::model_options(config, inputs.shape, session.placement));
  load_weights(model, invocation, *inputs.folder);

  train::GenerationOptions options;
  options.max_new_tokens = invocation.max_new_tokens;
  options.temperature = invocation.temperature;
  options.top_k = invocation.top_k;
  options.top_p = invocation.top_p;
  options.seed = invocation.seed;
  options.stop_ids = stop_ids(inputs);
  for (const std::string& prompt : invocation.prompts) {
    std::vector<int32_t> ids = inputs.tokenizer->encode(prompt);
    if (inputs.tokenizer->adds_bos && inputs.tokenizer->bos_id) ids.insert(ids.begin(), *inputs.tokenizer->bos_id);
    std::cout << inputs.tokenizer->decode(train::generate(model, ids, options)) << std::endl;
  }
  return 0;
}

}  // namespace fathom::app
