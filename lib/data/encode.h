// A line of a data file to an example.
#pragma once

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
bool is_conversation(const Line& line, config::DatasetFormat format);

}  // namespace fathom::data
