// The variable `loop`: where a for statement stands in what it visits.
#pragma once

#include "jinja/value.h"

namespace fathom::jinja {

struct Loop {
  Loop(const Value& iterable, Meter& meter);

  std::optional<Value> advance();
  // After the statement: what is left is not visited any more, as a filter of the items would read a scope that is
  // gone.
  void close() { cursor_.reset(); }
  // loop.index and the like; nullopt for a name that a loop does not have.
  std::optional<Value> attribute(const std::string& name, Meter& meter);

  int depth;

 private:
  const std::optional<Value>& peek();

  std::optional<int64_t> length_;
  std::optional<Cursor> cursor_;
  std::optional<Value> before_, current_, after_;
  bool has_peeked_ = false;
  int64_t index0_ = -1;
};

}  // namespace fathom::jinja
