// One line of a data file as JSON, with its place, so that each complaint says where.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json_value.h"
#include "config/run_config.h"

namespace fathom::data {

struct Line {
  Json value;         // an object
  std::string where;  // "file:line"

  // Throws Error for what is no JSON object in UTF-8.
  Line(std::string_view text, const std::string& where);
  [[noreturn]] void fail(const std::string& what, const std::string& remedy = "") const;
  const std::string& text(const char* key) const;  // fails if it is no text
};

// What a value is, as errors call it: "string", "NaN, which is not JSON".
std::string kind_of(const Json& value);

// The format whose keys the line has. Fails for the keys of none, or of several.
config::DatasetFormat recognise(const Line& line);
// What messages call it: "prompt and completion".
std::string_view describe(config::DatasetFormat format);

}  // namespace fathom::data
