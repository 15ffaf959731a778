// A chat template: parsed, and rendered with a conversation under small limits; then what the assistant says is found.
#include "base/error.h"
#include "base/json_value.h"
#include "chat/chat_template.h"
#include "jinja/template.h"
#include "scratch_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const fathom::Json messages = fathom::parse_json(
      R"([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Grüße 😀 <b>"},
          {"role": "assistant", "content": "", "reasoning_content": "hm", "tool_calls":
            [{"type": "function", "function": {"name": "f", "arguments": {"x": [1, 2.5, null]}}}]},
          {"role": "tool", "content": "7"}, {"role": "assistant", "content": "Seven.\n"}])",
      "messages");
  static const fathom::Json variables = {{"messages", messages},
                                         {"add_generation_prompt", true},
                                         {"tools", nullptr},
                                         {"bos_token", "<s>"},
                                         {"eos_token", "</s>"}};
  const std::string source(fathom::fuzz::text_of(data, size));
  try {
    fathom::jinja::Template(source, "t").render(variables, {.steps = 200'000, .bytes = 1 << 23, .depth = 100});
    if (size < 4096) fathom::chat::ChatTemplate(source, "t").render_with_assistant(messages);
  } catch (const fathom::Error&) {
  }
  return 0;
}
