// Of one whose matrix is the head's too, and of one by itself.
#include "footprint/embedding.h"

#include <algorithm>
#include <utility>

#include "base/rounding.h"
#include "footprint/tied_embedding_part.h"

namespace fathom::footprint {

Footprint embedding_footprint(const StepSizes& step, int64_t vocabulary, int64_t width, bool tied) {
  constexpr const char* kSorted = "embedding_dense_backward sorts the ids of more than 3,072 tokens; LibTorch 2.11";
  constexpr int64_t kUnsortedTokens = 3072;
  Tensors backward;
  const int64_t part = tied_part_rows(vocabulary, width * step.stored_bytes);
  const bool by_rows = tied && step.cuda && part < vocabulary;
  const int64_t distinct = std::min(step.tokens, vocabulary);
  if (by_rows) {
    constexpr const char* kRows = "rows of ids, added to a tied head's; lib/ops/tied_embedding.cpp";
    backward.push_back(
        {"gradient of the ids that there are", kRows, {{distinct, "ids"}, {width, ""}, {step.stored_bytes, "bytes"}}});
    backward.push_back({"their places, and they", kRows, {{2, "of"}, {step.tokens, "tokens"}, {8, "bytes"}}});
  } else if (tied && part < vocabulary) {
    backward.push_back({"gradient of a part of the embedding",
                        "added to a tied head's part by part; lib/ops/tied_embedding.cpp",
                        {{part + 1, "tokens of a part"}, {width, ""}, {step.stored_bytes, "bytes"}}});
  } else if (tied) {
    backward.push_back({"gradient of the embedding, apart",
                        kGradientSource,
                        {{vocabulary, "tokens of the vocabulary"}, {width, ""}, {step.stored_bytes, "bytes"}}});
  }
  if (step.cuda && step.tokens > kUnsortedTokens) {
    const int64_t sums = step.tokens + step.tokens / 10;
    backward.push_back({"sorted ids", kSorted, {{5, "of"}, {step.tokens, "tokens"}, {8, "bytes"}}});
    backward.push_back({"partial sums", kSorted, {{sums, "sums"}, {width, ""}, {4, "bytes"}}});
  }
  Footprint footprint = {{}, {}, {std::move(backward)}};
  const int64_t rows = value_of(step.wide(width, step.stored_bytes)), all = value_of({{vocabulary, ""}, {width, ""}});
  footprint.forward_work.bytes = 2 * rows;
  if (by_rows) {
    footprint.backward_work.bytes = rows + 4 * value_of({{distinct, ""}, {width, ""}, {step.stored_bytes, ""}});
    return footprint;
  }
  footprint.backward_work.bytes =
      (tied ? 2 + divide_up(vocabulary, part) : 3) * rows + (tied ? 4 : 1) * all * step.stored_bytes;
  return footprint;
}

}  // namespace fathom::footprint
