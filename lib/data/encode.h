// A line of a data file to an example. No torch header.
#pragma once

#include "data/line.h"
#include "data/read.h"

namespace fathom::data {

// Throws Error, naming the line, for what the line or the settings do not allow. Safe from several threads.
Example encode_line(const Line& line, config::DatasetFormat format, const tokenizer::Tokenizer* tokenizer,
                    const DatasetOptions& options);

}  // namespace fathom::data
