// The variable `loop`: where a for statement stands in what it visits.
#pragma once

#include "jinja/value.h"

namespace fathom::jinja {

struct Loop {
  Loop(const Value& iterable, Meter& meter);

  std::optional<Value> advance();
  // After the statement: what is left is not visited any more, as a filter of the items would read a scope that is
  // gone.
  void close();
  // loop.index and the like; nullopt for a name that a loop does not have.
  std::optional<Value> attribute(const std::string& name);

  int depth;

 private:
  int64_t length();
  const std::optional<Value>& peek();

  Meter& meter_;
  std::optional<Cursor> cursor_;
  std::vector<Value> drained_;  // the rest of a generator, once its length was asked for
  size_t drained_at_ = 0;
  bool is_drained_ = false;
  std::optional<int64_t> length_;
  std::optional<Value> before_, current_, after_;
  bool has_peeked_ = false;
  int64_t index0_ = -1;
};

}  // namespace fathom::jinja
