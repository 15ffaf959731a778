// The filters by subject; filters.cpp joins them to one table.
#pragma once

#include <span>
#include <string_view>

#include "jinja/filters.h"

namespace fathom::jinja {

struct FilterEntry {
  std::string_view name;
  Value (*apply)(const Value& operand, CallArguments arguments, Meter& meter);
};

std::span<const FilterEntry> text_filters();
std::span<const FilterEntry> number_filters();
std::span<const FilterEntry> sequence_filters();
std::span<const FilterEntry> order_filters();

}  // namespace fathom::jinja
