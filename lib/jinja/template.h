// A Jinja template, in the subset and with the environment that transformers gives to chat templates. No torch header.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "jinja/meter.h"
#include "jinja/rendered.h"

namespace fathom::jinja {

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

 private:
  struct State;
  std::unique_ptr<const State> state_;
};

}  // namespace fathom::jinja
