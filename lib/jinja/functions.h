// The functions that transformers gives to templates: range, namespace, dict, raise_exception, strftime_now.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "jinja/arguments.h"

namespace fathom::jinja {

std::optional<Function> function_named(std::string_view name);

class Functions {
 public:
  Functions(std::optional<std::chrono::local_seconds> now, Meter& meter) : now_(now), meter_(meter) {}
  Value call(Function function, CallArguments arguments);

 private:
  Value make_namespace(const CallArguments& arguments);

  std::optional<std::chrono::local_seconds> now_;
  std::vector<std::unique_ptr<Namespace>> namespaces_;  // outlive all values
  Meter& meter_;
};

}  // namespace fathom::jinja
