// The table: OpenAI's, Mistral's, TRL's, Axolotl's and LLaMA-Factory's formats, and the columns of datasets.
#include "data/line_keys.h"

#include <algorithm>

#include "base/json_value.h"

namespace fathom::data {
namespace {

using config::DatasetFormat;
using enum KeyPlace;
using enum KeyHandling;

constexpr uint32_t kText = bit_of(DatasetFormat::kText), kPairs = bit_of(DatasetFormat::kPromptCompletion),
                   kIds = bit_of(DatasetFormat::kTokenIds), kChats = bit_of(DatasetFormat::kMessages),
                   kTurns = bit_of(DatasetFormat::kShareGpt), kAlpaca = bit_of(DatasetFormat::kAlpaca),
                   kTwo = bit_of(DatasetFormat::kPreference);
constexpr uint32_t kAll = kText | kPairs | kIds | kChats | kTurns | kAlpaca | kTwo;

constexpr std::string_view kAsMessages =
    "write the line as messages: jq -c '{messages: ([{role: \"system\", content: .system}, {role: \"user\", content: "
    "(.instruction + (if (.input // \"\") == \"\" then \"\" else \"\\n\" + .input end))}, {role: \"assistant\", "
    "content: "
    ".output}] | map(select((.content // \"\") != \"\")))}' OLD > NEW";
constexpr std::string_view kTextAlone = "leave these lines out: models read text alone here";
constexpr std::string_view kPreference =
    "write the good answers alone, as completion beside their prompt or as messages; for objective: dpo or simpo write "
    "prompt, chosen and rejected";

constexpr LineKey kKeys[] = {
    {"text", kLine, kText, kObeyed, "TRL, Axolotl, Mistral", "", ""},
    {"prompt", kLine, kPairs | kTwo, kObeyed, "TRL, Mistral", "", ""},
    {"completion", kLine, kPairs, kObeyed, "TRL, Mistral", "", ""},
    {"instruction", kLine, kAlpaca, kObeyed, "Alpaca, LLaMA-Factory, Axolotl", "", ""},
    {"input", kLine, kAlpaca, kObeyed, "Alpaca, LLaMA-Factory, Axolotl", "", ""},
    {"output", kLine, kAlpaca, kObeyed, "Alpaca, LLaMA-Factory, Axolotl", "", ""},
    {"messages", kLine, kChats, kObeyed, "OpenAI, Mistral, TRL, Axolotl", "", ""},
    {"conversations", kLine, kTurns, kObeyed, "ShareGPT, LLaMA-Factory, Axolotl", "", ""},
    {"input_ids", kLine, kIds, kObeyed, "TRL, Axolotl, datasets", "", ""},
    {"labels", kLine, kIds, kObeyed, "TRL, Axolotl, datasets", "", ""},
    {"system", kLine, kChats | kTurns | kPairs | kTwo, kObeyed, "Anthropic, LLaMA-Factory, Axolotl",
     "the conversation's first message, of which there must be no other; refused beside a prompt that is text", ""},
    {"system", kLine, kAlpaca, kRefused, "LLaMA-Factory, Axolotl", "the words of Stanford Alpaca have no place for it",
     kAsMessages},
    {"history", kLine, kAlpaca, kRefused, "LLaMA-Factory", "alpaca's lines are single questions here",
     "write the turns as messages"},
    {"tools", kLine, kChats | kTurns | kPairs | kTwo, kTemplate, "OpenAI, Mistral, TRL, LLaMA-Factory",
     "handed to the chat template; refused beside a prompt that is text", ""},
    {"tools", kLine, kAlpaca, kRefused, "LLaMA-Factory", "the words of Stanford Alpaca have no place for them",
     "write the line as messages, with tools"},
    {"chat_template_kwargs", kLine, kChats | kTurns | kPairs | kTwo, kObeyed, "TRL",
     "variables of the chat template; refused beside a prompt that is text", ""},
    {"documents", kLine, kChats | kTurns | kPairs | kTwo, kRefused, "transformers",
     "are read inside chat_template_kwargs alone", "write {\"chat_template_kwargs\": {\"documents\": …}}"},
    {"functions", kLine, kChats | kTurns | kPairs | kTwo, kRefused, "OpenAI", "is the older form of tools",
     "write tools"},
    {"parallel_tool_calls", kLine, kChats, kIdle, "OpenAI", "passed over: asks something of a service", ""},
    {"attention_mask", kLine, kIds, kObeyed, "transformers, Axolotl, datasets",
     "padding is cut off, with its labels: ones, then zeros, or zeros, then ones; other masks are refused", ""},
    {"decoder_attention_mask", kLine, kIds, kObeyed, "transformers", "the same, of an encoder and decoder's labels",
     ""},
    {"completion_mask", kLine, kIds, kObeyed, "TRL",
     "tokens with 0 do not count, unless `completion_only_loss: false`; refused where labels count one", ""},
    {"assistant_masks", kLine, kIds, kObeyed, "transformers, TRL",
     "tokens with 0 do not count; refused where labels count one", ""},
    {"position_ids", kLine, kIds, kObeyed, "transformers", "0, 1, 2 and so on; others are refused", ""},
    {"token_type_ids", kLine, kIds, kObeyed, "transformers", "zeros; others are refused", ""},
    {"seq_lengths", kLine, kIds, kObeyed, "TRL", "the one length of the line; several, of packed samples, are refused",
     ""},
    {"special_tokens_mask", kLine, kIds, kIdle, "transformers", "passed over: is for other losses", ""},
    {"length", kLine, kIds, kIdle, "datasets", "passed over: is counted anew", ""},
    {"loss_mask", kLine, kIds, kRefused, "several", "may be shifted or not, by whoever wrote it",
     "write labels, with -100 where there is no loss"},
    {"decoder_input_ids", kLine, kIds, kRefused, "transformers", "are made of labels here", "remove them"},
    {"inputs_embeds", kLine, kIds, kRefused, "transformers", "are made of input_ids here", "remove them"},
    {"weight", kLine, kAll, kObeyed, "Fireworks", "1; others are refused", ""},
    {"image", kLine, kAll, kRefused, "TRL", "is no text", kTextAlone},
    {"images", kLine, kAll, kRefused, "TRL, LLaMA-Factory, Axolotl", "are no text", kTextAlone},
    {"videos", kLine, kAll, kRefused, "LLaMA-Factory", "are no text", kTextAlone},
    {"audios", kLine, kAll, kRefused, "LLaMA-Factory", "are no text", kTextAlone},
    {"pixel_values", kLine, kAll, kRefused, "transformers", "are no text", kTextAlone},
    {"chosen", kLine, kTwo, kObeyed, "TRL", "", ""},
    {"rejected", kLine, kTwo, kObeyed, "TRL", "", ""},
    {"chosen", kLine, kTurns | kAlpaca, kRefused, "LLaMA-Factory", "makes it preference data", kPreference},
    {"rejected", kLine, kTurns | kAlpaca, kRefused, "LLaMA-Factory", "makes it preference data", kPreference},
    {"kto_tag", kLine, kTurns | kAlpaca | kPairs | kChats, kRefused, "LLaMA-Factory",
     "makes it preference data, and there is no KTO or the like here", kPreference},

    {"role", kMessage, kChats | kPairs | kTwo, kObeyed, "all", "", ""},
    {"content", kMessage, kChats | kPairs | kTwo, kObeyed, "all", "", ""},
    {"weight", kMessage, kChats | kPairs | kTwo, kObeyed, "OpenAI, Mistral, Fireworks, Together",
     "0: what the message says does not count; 1: as without it; others are refused", ""},
    {"train", kMessage, kChats | kPairs | kTwo, kObeyed, "Axolotl",
     "false: what the message says does not count; refused is true beside `assistant_only_loss` where another than the "
     "assistant speaks",
     ""},
    {"training", kMessage, kChats | kPairs | kTwo, kObeyed, "Axolotl", "the same", ""},
    {"train_detail", kMessage, kChats | kPairs | kTwo, kRefused, "Axolotl",
     "parts of a message cannot be left out of the loss", "split the message, or write input_ids with labels"},
    {"training_detail", kMessage, kChats | kPairs | kTwo, kRefused, "Axolotl",
     "parts of a message cannot be left out of the loss", "split the message, or write input_ids with labels"},
    {"tool_calls", kMessage, kChats | kPairs | kTwo, kTemplate, "OpenAI, Mistral, TRL", "handed to the chat template",
     ""},
    {"tool_call_id", kMessage, kChats | kPairs | kTwo, kIdle, "OpenAI, Mistral",
     "handed to the chat template, and not missed where that leaves it out", ""},
    {"name", kMessage, kChats | kPairs | kTwo, kTemplate, "OpenAI", "handed to the chat template", ""},
    {"reasoning_content", kMessage, kChats | kPairs | kTwo, kTemplate, "Qwen, DeepSeek",
     "handed to the chat template, also as thinking", ""},
    {"reasoning", kMessage, kChats | kPairs | kTwo, kTemplate, "several", "the same", ""},
    {"thinking", kMessage, kChats | kPairs | kTwo, kTemplate, "gpt-oss", "the same", ""},
    {"prefix", kMessage, kChats | kPairs | kTwo, kIdle, "Mistral", "passed over: asks something of a service", ""},
    {"function_call", kMessage, kChats | kPairs | kTwo, kRefused, "OpenAI", "is the older form of tool_calls",
     "write tool_calls"},
    {"refusal", kMessage, kChats | kPairs | kTwo, kRefused, "OpenAI", "is not what templates read",
     "write it as content"},
    {"audio", kMessage, kChats | kPairs | kTwo, kRefused, "OpenAI", "is no text", kTextAlone},
    {"images", kMessage, kChats | kPairs | kTwo, kRefused, "several", "are no text", kTextAlone},

    {"from", kTurn, kTurns, kObeyed, "ShareGPT", "", ""},
    {"value", kTurn, kTurns, kObeyed, "ShareGPT", "", ""},
    {"weight", kTurn, kTurns, kObeyed, "ShareGPT", "as of a message", ""},
    {"train", kTurn, kTurns, kObeyed, "Axolotl", "as of a message", ""},
    {"training", kTurn, kTurns, kObeyed, "Axolotl", "as of a message", ""},
    {"train_detail", kTurn, kTurns, kRefused, "Axolotl", "parts of a message cannot be left out of the loss",
     "split the message, or write input_ids with labels"},
    {"training_detail", kTurn, kTurns, kRefused, "Axolotl", "parts of a message cannot be left out of the loss",
     "split the message, or write input_ids with labels"},
    {"tool_calls", kTurn, kTurns, kRefused, "several", "ShareGPT's turns are texts", "write the turns as messages"},
};

std::string_view name_of(KeyPlace place) {
  return place == kLine ? "the line" : place == kMessage ? "a message" : "a turn";
}

std::string formats_of(uint32_t formats) {
  if (formats == kAll) return "all";
  std::string text;
  for (const auto format :
       {DatasetFormat::kText, DatasetFormat::kPromptCompletion, DatasetFormat::kTokenIds, DatasetFormat::kMessages,
        DatasetFormat::kShareGpt, DatasetFormat::kAlpaca, DatasetFormat::kPreference}) {
    if ((formats & bit_of(format)) != 0) text.append(text.empty() ? "" : "; ").append(describe(format));
  }
  return text;
}

}  // namespace

std::span<const LineKey> line_keys() { return kKeys; }

const LineKey* find_key(std::string_view key, KeyPlace place, DatasetFormat format) {
  const auto* const found = std::find_if(std::begin(kKeys), std::end(kKeys), [&](const LineKey& known) {
    return known.key == key && known.place == place && (known.formats & bit_of(format)) != 0;
  });
  return found == std::end(kKeys) ? nullptr : found;
}

bool holds_nothing(const Json& value) {
  return value.is_null() || ((value.is_array() || value.is_object()) && value.empty()) ||
         (value.is_string() && value.get_ref<const std::string&>().empty());
}

namespace {

void check(const Line& line, const Json& object, const std::string& before, KeyPlace place, DatasetFormat format,
           const std::function<void(const std::string&)>& on_unread) {
  for (const auto& [key, value] : object.items()) {
    if (holds_nothing(value)) continue;
    const LineKey* known = find_key(key, place, format);
    if (known == nullptr) {
      on_unread(key);
    } else if (known->handling == kRefused) {
      line.fail(before + key + ": " + std::string(known->done), std::string(known->remedy));
    }
  }
}

}  // namespace

void check_keys(const Line& line, DatasetFormat format, LineNotes& notes) {
  check(line, line.value, "", kLine, format, [&](const std::string& key) { notes.add(Note::kUnreadKey, key); });
  const auto weight = line.value.find("weight");
  if (weight != line.value.end() && !weight->is_null() && *weight != 1) {
    line.fail("weight: expected 1, got " + weight->dump().substr(0, 40), "all samples weigh the same here: remove it");
  }
}

void check_keys(const Line& line, const Json& message, const std::string& place, KeyPlace kind, DatasetFormat format,
                LineNotes& notes) {
  check(line, message, place + ".", kind, format, [&](const std::string& key) {
    if (kind == kTurn) notes.add(Note::kUnreadKey, "conversations[]." + key);
  });
}

std::string line_keys_page() {
  std::string page = "| key | of | beside | known from | |\n|---|---|---|---|---|\n";
  for (const LineKey& known : kKeys) {
    if (known.done.empty()) continue;
    page += "| `" + std::string(known.key) + "` | " + std::string(name_of(known.place)) + " | " +
            formats_of(known.formats) + " | " + std::string(known.tools) + " | " +
            (known.handling == kRefused ? "refused: " : "") + std::string(known.done) + " |\n";
  }
  return page;
}

}  // namespace fathom::data
