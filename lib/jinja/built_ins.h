// Jinja's filters, the tests behind `is`, the methods of Python's strings, lists and mappings that the sandbox lets a
// template call, and the names of what there is and this subset has not.
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

enum class MethodKind { kNone, kAllowed, kForbidden };
// Whether values of this type have the method, and whether the sandbox hides it because it changes the value.
MethodKind method_kind(const Value& receiver, const std::string& name);
// Fails for a method that Python has and the subset has not.
Value call_method(const Value& receiver, const std::string& name, CallArguments arguments, Meter& meter);

// "%s of %d" % value, or a tuple of values.
Value formatted(const Value& format, const Value& values, Meter& meter);

// By subject; filters.cpp and methods.cpp join them.
std::span<const BuiltIn> text_filters();
std::span<const BuiltIn> sequence_filters();
std::span<const BuiltIn> text_methods();

}  // namespace fathom::jinja
