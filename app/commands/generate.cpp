// `fathom generate`: text after each prompt, on stdout as it comes; after several prompts one line each, line breaks
// escaped.
#include "app/commands/generate.h"

#include <optional>

#include "app/commands/answer.h"
#include "app/commands/hold_chat.h"
#include "app/engine.h"
#include "app/run/model.h"
#include "app/run/session.h"
#include "base/error.h"
#include "base/json_value.h"
#include "base/output.h"
#include "checkpoint/adapter.h"
#include "ops/autocast.h"
#include "ops/tf32.h"
#include "train/generate.h"
#include "train/inputs.h"
#include "train/trainer.h"

namespace fathom::app {
namespace {

std::vector<int32_t> prompt_ids(const tokenizer::Tokenizer& tokenizer, const std::string& prompt,
                                const std::optional<chat::ChatTemplate>& chat_template) {
  if (chat_template) {  // which writes BOS and the like itself
    const Json turn = {{"role", "user"}, {"content", prompt}};
    return tokenizer.encode(chat_template->render(Json::array({turn}), true).text);
  }
  std::vector<int32_t> ids = tokenizer.encode(prompt);
  const bool present = !ids.empty() && tokenizer.bos_id && ids.front() == *tokenizer.bos_id;
  if (tokenizer.adds_bos && tokenizer.bos_id && !present) ids.insert(ids.begin(), *tokenizer.bos_id);
  return ids;
}

// So that the n-th line belongs to the n-th prompt: \n, \r and the backslash itself as in C.
std::string on_one_line(const std::string& text) {
  std::string line;
  for (char c : text) {
    if (c == '\n') {
      line += "\\n";
    } else if (c == '\r') {
      line += "\\r";
    } else if (c == '\\') {
      line += "\\\\";
    } else {
      line += c;
    }
  }
  return line;
}

int run_generate(const Generate& invocation) {
  config::RunConfig config = config_with_adapter(invocation);
  const Session session = open_session(invocation);
  keep_within_budget(invocation.config.memory_budget, session);
  const schedule::RunInputs inputs = train::open_inputs(config);
  if (!inputs.tokenizer) {
    throw Error(config.model_name_or_path + " has no tokenizer",
                "generate needs tokenizer.model, spiece.model or tokenizer.json");
  }
  if (!config.dtype)
    config.dtype = inputs.architecture.dtype_in_use();  // nothing is trained: as the checkpoint stores it
  const arch::Run run = checkpoint::resolve_adapted(config, inputs.architecture);
  model::Decoder model(run.architecture, options_for_use(invocation, run, session.placement));
  load_weights(model, invocation, *inputs.folder);

  train::GenerationOptions options;
  options.max_new_tokens = invocation.max_new_tokens;
  options.temperature = invocation.temperature;
  options.top_k = invocation.top_k;
  options.top_p = invocation.top_p;
  options.seed = invocation.seed;
  options.stop_ids = schedule::stop_ids(inputs);
  ops::use_tf32(config.tf32, session.placement.device);
  const ops::AutocastScope autocast(session.placement.device.type(), train::autocast_type(run.precision));
  if (invocation.chat) hold_chat(model, inputs, options, invocation.stops, invocation.system_prompt);
  std::vector<std::string> stops = invocation.stops;
  std::optional<chat::ChatTemplate> chat_template;
  if (invocation.prompt_form == data::PromptForm::kChat) {
    chat_template = open_chat_template(*inputs.folder);
    add_ends_of_turns(*chat_template, *inputs.tokenizer, options, stops);
  }
  const bool in_alpacas_words = invocation.prompt_form == data::PromptForm::kAlpaca;
  for (const std::string& prompt : invocation.prompts) {
    const std::string put = in_alpacas_words ? data::alpaca_prompt(prompt, "") : prompt;
    const auto show = [&](const std::string& text) {
      print_verbatim(invocation.prompts.size() > 1 ? on_one_line(text) : text);
    };
    write_answer(model, *inputs.tokenizer, prompt_ids(*inputs.tokenizer, put, chat_template), options, stops, show);
    print("\n");
  }
  return 0;
}

const InEngine<run_generate> kGenerate;

}  // namespace
}  // namespace fathom::app
