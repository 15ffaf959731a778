// The arguments of a call, taken one after another by their names and places, as Python's signatures have them.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "jinja/value.h"

namespace fathom::jinja {

struct CallArguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

class Signature {
 public:
  // names: of the parameters, in order. Fails for arguments that none of them takes. callee: what errors call it.
  Signature(std::string callee, CallArguments arguments, std::initializer_list<const char*> names, Meter& meter);

  bool has(size_t place) const { return values_[place] && !values_[place]->is<None>(); }  // none is as good as nothing
  // The argument, or the fallback where it is not given.
  Value value(size_t place) const;  // fails where it is not given
  Value value(size_t place, Value fallback) const;
  std::string text(size_t place) const;
  int64_t integer(size_t place, int64_t fallback) const;
  bool flag(size_t place, bool fallback) const;

 private:
  std::string callee_;
  std::vector<std::string> names_;
  std::vector<std::optional<Value>> values_;
  Meter& meter_;
};

}  // namespace fathom::jinja
