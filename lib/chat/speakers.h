// Which message each part of a rendered conversation belongs to.
#pragma once

#include <cstddef>
#include <vector>

#include "base/json.h"
#include "chat/byte_range.h"
#include "jinja/template.h"

namespace fathom::chat {

// Of each range, in their order, the place of its message: by what the template wrote while it stood at each message,
// or, where it did not go through them one by one, by their number where each of the assistant's messages has one.
// Empty where neither tells, or where there are no ranges.
std::vector<size_t> speakers_of(const std::vector<ByteRange>& ranges, const std::vector<jinja::Visit>& visits,
                                const Json& messages);

}  // namespace fathom::chat
