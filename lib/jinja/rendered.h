// What a template wrote.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace fathom::jinja {

// What was written while a for statement stood at an item of the traced list.
struct Visit {
  size_t item = 0;            // its place in the list
  size_t begin = 0, end = 0;  // bytes of the text
  bool is_hidden = false;     // written inside a macro or set block, so that its place in the text is not known
};

struct Rendered {
  std::string text;
  std::vector<std::pair<size_t, size_t>> generations;  // bytes that {% generation %} blocks wrote, in order
  bool has_hidden_generation = false;  // one inside a macro or set block, whose place in the text is not known
  std::vector<Visit> visits;           // of items of the traced list, where something was written; as they ended
};

}  // namespace fathom::jinja
