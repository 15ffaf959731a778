// "user.name.0": the attributes that filters like map and sort look up in each item.
#pragma once

#include <optional>
#include <vector>

#include "jinja/value.h"

namespace fathom::jinja {

class AttributePath {
 public:
  // A text with dots between names and places, an integer, or none for the item itself.
  AttributePath(const Value& path, Meter& meter);
  // fallback: what stands for what is undefined; none: nothing does.
  Value look_up(const Value& item, const Value& fallback, Meter& meter) const;
  int depth() const { return static_cast<int>(parts_.size()); }

 private:
  std::vector<Value> parts_;
};

// Text in lower case, other values as they are: by what filters compare without regard to case.
Value without_case(const Value& value, Meter& meter);

}  // namespace fathom::jinja
