// Jinja's filters, the tests behind `is`, and the names of what Jinja has and this subset has not.
#pragma once

#include <span>
#include <string>

#include "jinja/arguments.h"

namespace fathom::jinja {

bool has_filter(const std::string& name);
bool has_test(const std::string& name);
Value apply_filter(const std::string& name, const Value& operand, CallArguments arguments, Meter& meter);
bool apply_test(const std::string& name, const Value& operand, const CallArguments& arguments, Meter& meter);
// "No filter named 'x'", or that the subset does not have it.
std::string missing_filter(const std::string& name);
std::string missing_test(const std::string& name);

// The filters by subject; filters.cpp joins them.
std::span<const BuiltIn> text_filters();
std::span<const BuiltIn> sequence_filters();

}  // namespace fathom::jinja
