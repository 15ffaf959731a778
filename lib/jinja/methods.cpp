// Methods by type and name. Those that would change their value are hidden, as Jinja's immutable sandbox hides them.
#include <algorithm>

#include "jinja/built_ins.h"
#include "jinja/loop.h"

namespace fathom::jinja {
namespace {

using View = std::string_view;

Value get(const Value& receiver, const Bound& arguments, Meter& meter) {
  const Value key = arguments.value(0);
  if (!is_hashable(key)) refuse(key, "get: expected a value that can be a key", meter);
  const Value* found = receiver.dict()->find(key, meter);
  return found != nullptr ? *found : arguments.value(1, Value());
}

enum class Side { kKeys, kValues, kItems };
template <Side side>
Value view_of(const Value& receiver, const Bound&, Meter& meter) {
  std::vector<Value> items;
  for (const auto& [key, value] : receiver.dict()->entries()) {
    items.push_back(side == Side::kItems ? make_tuple({key, value}, meter) : side == Side::kKeys ? key : value);
  }
  return make_sequence(std::move(items), Sequence::Flavor::kView, meter);
}

Value cycle(const Value& receiver, const Bound& arguments, Meter& meter) {
  const auto& choices = arguments.all().positional;
  if (choices.empty()) meter.fail("no items for cycling given");
  Loop& loop = **receiver.get_if<std::shared_ptr<Loop>>();
  return choices[static_cast<size_t>(*loop.attribute("index0", meter)->integer()) % choices.size()];
}

struct Methods {
  const char* receivers;
  std::span<const BuiltIn> supported;
  std::span<const View> others;     // that Python has
  std::span<const View> forbidden;  // by the sandbox
};

constexpr View kOtherOfTexts[] = {"casefold",     "center",       "count",    "encode",    "expandtabs",  "find",
                                  "format_map",   "index",        "isalnum",  "isalpha",   "isascii",     "isdecimal",
                                  "isdigit",      "isidentifier", "islower",  "isnumeric", "isprintable", "isspace",
                                  "istitle",      "isupper",      "join",     "ljust",     "maketrans",   "partition",
                                  "removeprefix", "removesuffix", "rfind",    "rindex",    "rjust",       "rpartition",
                                  "rsplit",       "splitlines",   "swapcase", "translate", "zfill"};
constexpr BuiltIn kOfDicts[] = {{"get", {"key", "default"}, get},
                                {"keys", {}, view_of<Side::kKeys>},
                                {"values", {}, view_of<Side::kValues>},
                                {"items", {}, view_of<Side::kItems>}};
constexpr View kOtherOfDicts[] = {"copy", "fromkeys"};
constexpr View kForbiddenOfDicts[] = {"clear", "pop", "popitem", "setdefault", "update"};
constexpr View kOtherOfLists[] = {"copy", "count", "index"}, kOtherOfTuples[] = {"count", "index"};
constexpr View kForbiddenOfLists[] = {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"};
constexpr BuiltIn kOfLoops[] = {{"cycle", {kAll}, cycle}};
constexpr View kOtherOfLoops[] = {"changed"};

Methods methods_of(const Value& receiver) {
  if (receiver.text() != nullptr) return {"strings", text_methods(), kOtherOfTexts, {}};
  if (receiver.dict() != nullptr) return {"mappings", kOfDicts, kOtherOfDicts, kForbiddenOfDicts};
  if (receiver.is_sequence(Sequence::Flavor::kList)) return {"lists", {}, kOtherOfLists, kForbiddenOfLists};
  if (receiver.is_sequence(Sequence::Flavor::kTuple)) return {"tuples", {}, kOtherOfTuples, {}};
  if (receiver.is<std::shared_ptr<Loop>>()) return {"loops", kOfLoops, kOtherOfLoops, {}};
  return {};
}

bool holds(std::span<const View> names, View name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

MethodKind method_kind(const Value& receiver, const std::string& name) {
  const Methods methods = methods_of(receiver);
  if (find_built_in(methods.supported, name) != nullptr || holds(methods.others, name)) return MethodKind::kAllowed;
  return holds(methods.forbidden, name) ? MethodKind::kForbidden : MethodKind::kNone;
}

Value call_method(const Value& receiver, const std::string& name, CallArguments arguments, Meter& meter) {
  const Methods methods = methods_of(receiver);
  const BuiltIn* method = find_built_in(methods.supported, name);
  if (method == nullptr) meter.fail("the method '" + name + "' of " + methods.receivers + " is not supported");
  return method->call(receiver, std::move(arguments), meter);
}

}  // namespace fathom::jinja
