// What a template wrote.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace fathom::jinja {

struct Rendered {
  std::string text;
  std::vector<std::pair<size_t, size_t>> generations;  // bytes that {% generation %} blocks wrote, in order
  bool has_hidden_generation = false;  // one inside a macro or set block, whose place in the text is not known
};

}  // namespace fathom::jinja
