// A tokenizer_config.json: special and added tokens, flags, and the chat templates in it.
#include "base/error.h"
#include "base/json_value.h"
#include "chat/chat_template.h"
#include "scratch_folder.h"
#include "tokenizer/special_tokens.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const fathom::fuzz::ScratchFolder folder;
  static const fathom::Json messages = {{{"role", "user"}, {"content", "a"}},
                                        {{"role", "assistant"}, {"content", "b"}}};
  folder.write("tokenizer_config.json", fathom::fuzz::text_of(data, size));
  try {
    fathom::tokenizer::read_tokenizer_files(folder.path());
  } catch (const fathom::Error&) {
  }
  try {
    const auto chat = fathom::chat::ChatTemplate::open(folder.path());
    if (chat) chat->render_with_assistant(messages);
  } catch (const fathom::Error&) {
  }
  return 0;
}
