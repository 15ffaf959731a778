// A strict reading of YAML: maps of keys to scalars, lists and maps; whatever is ambiguous in YAML is told as a
// problem.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/problem.h"

namespace fathom::config {

struct Entry;

struct Value {
  enum class Kind { kNull, kScalar, kList, kMap };
  Kind kind = Kind::kNull;
  Position at;
  std::string text;            // of a scalar
  bool quoted = false;         // the scalar is a text, never a number or a truth value
  std::vector<Value> items;    // of a list
  std::vector<Entry> entries;  // of a map, in the order of the text
};

struct Entry {
  std::string key;
  Position at;  // of the key
  Value value;
};

inline constexpr size_t kLargestYaml = size_t{256} << 10;

// The text's one map. Duplicate keys, `<<`, anchors, aliases, tags, further documents, nesting deeper than 8 levels and
// texts that are no YAML or no UTF-8 become problems. Reading stops where it makes no sense to go on; what came before
// is returned.
std::vector<Entry> read_yaml(std::string_view text, Problems& problems);
// A value alone, as it stands behind `key=` on the command line.
Value read_yaml_value(std::string_view key, std::string_view text, Problems& problems);

}  // namespace fathom::config
