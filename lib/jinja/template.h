// A Jinja template, in the subset and with the environment that transformers gives to chat templates.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "jinja/meter.h"

namespace fathom::jinja {

// What was written while a for statement stood at an item of the traced list.
struct Visit {
  size_t item = 0;            // its place in the list
  size_t begin = 0, end = 0;  // bytes of the text
  bool is_hidden = false;     // written inside a macro or set block, so that its place in the text is not known
  bool operator==(const Visit&) const = default;
};

struct Rendered {
  std::string text;
  std::vector<std::pair<size_t, size_t>> generations;  // bytes that {% generation %} blocks wrote, in order
  bool has_hidden_generation = false;  // one inside a macro or set block, whose place in the text is not known
  std::vector<Visit> visits;           // of items of the traced list, where something was written; as they ended
};

struct RenderOptions {
  std::optional<std::chrono::local_seconds> now;  // what strftime_now tells; unset: the clock's time
  std::string traced;                             // a list among the variables, of which Rendered::visits tells
};

class Template {
 public:
  // origin: what errors call the template. Throws Error ("origin:line: what") for what Jinja or the subset refuses.
  Template(std::string_view source, std::string origin);
  Template(Template&&) noexcept;
  ~Template();

  // variables: an object, by name. Throws Error for what fails, and for what passes the limits.
  Rendered render(const Json& variables, const Limits& limits = {}) const;
  // The same with a meter that several renderings share.
  Rendered render(const Json& variables, Meter& meter, const RenderOptions& options) const;
  bool has_generation_blocks() const;
  // The texts that stand in quotes in it, each once: what it may look for in a conversation.
  const std::vector<std::string>& literals() const;

 private:
  struct State;
  std::unique_ptr<const State> state_;
};

}  // namespace fathom::jinja
