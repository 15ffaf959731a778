// Methods by type and name. Those that would change their value are hidden, as Jinja's immutable sandbox hides them.
#include "jinja/methods.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "jinja/arguments.h"
#include "jinja/format.h"
#include "jinja/loop.h"
#include "jinja/text.h"
#include "jinja/text_methods.h"

namespace fathom::jinja {
namespace {

using Names = std::initializer_list<std::string_view>;

bool is_one_of(const std::string& name, Names names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

MethodKind kind_in(const std::string& name, Names allowed, Names forbidden) {
  if (is_one_of(name, allowed)) return MethodKind::kAllowed;
  return is_one_of(name, forbidden) ? MethodKind::kForbidden : MethodKind::kNone;
}

Value view_of(const Dict& dict, Sequence::Flavor flavor, Meter& meter) {
  std::vector<Value> items;
  for (const auto& [key, value] : dict.entries()) {
    switch (flavor) {
      case Sequence::Flavor::kKeys:
        items.push_back(key);
        break;
      case Sequence::Flavor::kValues:
        items.push_back(value);
        break;
      default:
        items.push_back(make_tuple({key, value}, meter));
    }
  }
  return make_sequence(std::move(items), flavor, meter);
}

Value call_on_dict(const Value& receiver, const std::string& name, CallArguments arguments, Meter& meter) {
  const Dict& dict = *receiver.dict();
  if (name == "get") {
    const Signature signature("get", std::move(arguments), {"key", "default"}, meter);
    const Value key = signature.value(0);
    if (!is_hashable(key, meter)) refuse(key, "get: expected a value that can be a key", meter);
    const Value* found = dict.find(key, meter);
    return found != nullptr ? *found : signature.value(1, Value());
  }
  const Signature none(name, std::move(arguments), {}, meter);
  if (name == "keys") return view_of(dict, Sequence::Flavor::kKeys, meter);
  if (name == "values") return view_of(dict, Sequence::Flavor::kValues, meter);
  if (name == "items") return view_of(dict, Sequence::Flavor::kItems, meter);
  if (name == "copy") return receiver;
  meter.fail("the method '" + name + "' of mappings is not supported");
}

Value call_on_sequence(const Value& receiver, const std::string& name, CallArguments arguments, Meter& meter) {
  const auto& items = receiver.sequence()->items;
  if (name == "copy") {
    const Signature none(name, std::move(arguments), {}, meter);
    return receiver;
  }
  const Signature signature(name, std::move(arguments), {"value"}, meter);
  const Value wanted = signature.value(0);
  int64_t count = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!equal(items[i], wanted, meter)) continue;
    if (name == "index") return Value(Value::Data(static_cast<int64_t>(i)));
    ++count;
  }
  if (name == "index") meter.fail("index: the value is not in the list");
  return Value(Value::Data(count));
}

Value call_on_loop(const std::string& name, const CallArguments& arguments, Loop& loop, Meter& meter) {
  if (name != "cycle") meter.fail("loop." + name + " is not supported");
  if (arguments.positional.empty()) meter.fail("no items for cycling given");
  const int64_t index = *loop.attribute("index0")->integer();
  return arguments.positional[index % static_cast<int64_t>(arguments.positional.size())];
}

}  // namespace

MethodKind method_kind(const Value& receiver, const std::string& name) {
  if (receiver.text() != nullptr) return is_text_method(name) ? MethodKind::kAllowed : MethodKind::kNone;
  if (receiver.dict() != nullptr) {
    return kind_in(name, {"get", "keys", "values", "items", "copy", "fromkeys"},
                   {"clear", "pop", "popitem", "setdefault", "update"});
  }
  if (receiver.is_sequence(Sequence::Flavor::kList)) {
    return kind_in(name, {"copy", "count", "index"},
                   {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"});
  }
  if (receiver.is_sequence(Sequence::Flavor::kTuple)) return kind_in(name, {"count", "index"}, {});
  if (receiver.is<std::shared_ptr<Loop>>()) return kind_in(name, {"cycle", "changed"}, {});
  if (receiver.is<Function>() && *receiver.get_if<Function>() == Function::kDict)
    return kind_in(name, {"fromkeys"}, {});
  return MethodKind::kNone;
}

Value call_method(const Value& receiver, const std::string& name, CallArguments arguments, Meter& meter) {
  meter.step();
  if (receiver.text() != nullptr) return call_text_method(receiver, name, std::move(arguments), meter);
  if (receiver.dict() != nullptr) return call_on_dict(receiver, name, std::move(arguments), meter);
  if (receiver.sequence() != nullptr) return call_on_sequence(receiver, name, std::move(arguments), meter);
  if (const auto* loop = receiver.get_if<std::shared_ptr<Loop>>()) return call_on_loop(name, arguments, **loop, meter);
  meter.fail("the method '" + name + "' is not supported");
}

}  // namespace fathom::jinja
