// A line of a data file to an example.
#pragma once

#include <vector>

#include "data/line.h"
#include "data/notes.h"
#include "data/read.h"

namespace fathom::data {

// What fails one line would fail every such line: to be told once.
class EveryLineFails : public Error {
 public:
  using Error::Error;
};

struct Encoders {
  const tokenizer::Tokenizer* tokenizer = nullptr;  // null if the model's folder has none
  const chat::ChatTemplate* chat = nullptr;
};

// Throws Error, naming the line, for what the line or the settings do not allow, and EveryLineFails for a tokenizer
// or a chat template that is not there, and for one that takes more than it may. Notes what the user should know. Safe
// from several threads.
Example encode_line(const Line& line, config::DatasetFormat format, const Encoders& encoders,
                    const DatasetOptions& options, LineNotes& notes);
// The same for an encoder and decoder (Example): prompt and completion, Alpaca's, or input_ids with labels, source and
// target each ended by the tokenizer's token and cut to its length, which `truncation` counts.
Example encode_pair(const Line& line, config::DatasetFormat format, const Encoders& encoders,
                    const DatasetOptions& options, Truncation& truncation, LineNotes& notes);
// The same of a preference: the prompt with the chosen answer, and with the rejected one; the answers alone count. The
// prompt is what both share with it, so that both begin behind as many tokens.
std::vector<Example> encode_preference(const Line& line, const Encoders& encoders, const DatasetOptions& options,
                                       LineNotes& notes);
bool is_conversation(const Line& line, config::DatasetFormat format);

}  // namespace fathom::data
