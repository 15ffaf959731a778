// The methods of Python's strings, lists and mappings that the sandbox lets a template call.
#pragma once

#include <span>
#include <string>

#include "jinja/arguments.h"

namespace fathom::jinja {

enum class MethodKind { kNone, kAllowed, kForbidden };
// Whether values of this type have the method, and whether the sandbox hides it because it changes the value.
MethodKind method_kind(const Value& receiver, const std::string& name);
// Fails for a method that Python has and the subset has not.
Value call_method(const Value& receiver, const std::string& name, CallArguments arguments, Meter& meter);
std::span<const BuiltIn> text_methods();

}  // namespace fathom::jinja
