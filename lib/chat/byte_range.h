// A stretch of a text.
#pragma once

#include <cstdint>

namespace fathom::chat {

struct ByteRange {
  int64_t begin = 0, end = 0;  // of the text; end is one past the last byte
  bool operator==(const ByteRange&) const = default;
};

}  // namespace fathom::chat
