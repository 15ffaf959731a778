// Python's operators on values: arithmetic, comparison, membership, subscripts and slices.
#pragma once

#include <optional>

#include "jinja/ast.h"
#include "jinja/value.h"

namespace fathom::jinja {

Value arithmetic(BinaryOperator operation, const Value& left, const Value& right, Meter& meter);
Value negated(const Value& operand, bool minus, Meter& meter);  // -x or +x
bool compare(BinaryOperator comparison, const Value& left, const Value& right, Meter& meter);
bool less(const Value& left, const Value& right, Meter& meter);
bool contains(const Value& container, const Value& item, Meter& meter);

// object.name and object[index] as Jinja's sandbox has them: undefined where there is nothing. Methods come as such.
Value get_attribute(const Value& object, const std::string& name, Meter& meter);
Value get_item(const Value& object, const Value& index, Meter& meter);
// object[start:stop:step]; bounds none where they are not given.
Value get_slice(const Value& object, const Value& start, const Value& stop, const Value& step, Meter& meter);

}  // namespace fathom::jinja
