// Lines of a data file, of every format, with a tokenizer of bytes and a chat template.
#include "base/error.h"
#include "data/encode.h"
#include "scratch_folder.h"
#include "tests/data/byte_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const fathom::data::testing::ByteTokenizer tokenizer;
  static const fathom::chat::ChatTemplate chat(
      "{% for m in messages %}{{ m['role'] }}:{{ m['content'] }}$\n{% endfor %}", "a template");
  const std::string_view text = fathom::fuzz::text_of(data, size);
  for (const bool assistant_only : {false, true}) {
    fathom::data::DatasetOptions options;
    options.assistant_only_loss = assistant_only;
    options.vocabulary_size = 256;
    try {
      const fathom::data::Line line(text, "data.jsonl:1");
      fathom::data::Words words;
      fathom::data::LineNotes notes;
      notes.looks_at_share = true;
      words.append(fathom::data::encode_line(line, fathom::data::recognise(line), {&tokenizer, &chat}, options, notes));
    } catch (const fathom::Error&) {
    }
  }
  return 0;
}
