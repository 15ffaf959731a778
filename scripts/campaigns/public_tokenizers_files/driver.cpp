// Encodes and decodes a list of texts with a folder's tokenizer, for scripts/campaigns/public_tokenizers.
#include <iostream>

#include "base/error.h"
#include "base/json_value.h"
#include "tokenizer/tokenizer.h"

int main(int, char** arguments) {
  const auto texts = fathom::Json::parse(std::cin);
  fathom::Json result = {{"before", std::vector<int32_t>()}, {"behind", std::vector<int32_t>()}};
  try {
    const auto tokenizer = fathom::tokenizer::Tokenizer::open(arguments[1]);
    if (tokenizer->adds_bos && tokenizer->bos_id) result["before"].push_back(*tokenizer->bos_id);
    if (tokenizer->adds_eos && tokenizer->eos_id) result["behind"].push_back(*tokenizer->eos_id);
    for (const auto& text : texts) {
      const auto ids = tokenizer->encode(text.get<std::string>());
      result["ids"].push_back(ids);
      result["decoded"].push_back(tokenizer->decode(ids));
    }
  } catch (const fathom::Error& error) {
    result = {{"error", error.what()}};
  }
  std::cout << result.dump(-1, ' ', false, fathom::Json::error_handler_t::replace) << "\n";
}
