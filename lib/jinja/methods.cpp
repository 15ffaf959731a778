// Methods by type and name, on UTF-8. Those that would change their value are hidden, as Jinja's immutable sandbox
// does.
#include "jinja/methods.h"

#include <algorithm>
#include <limits>
#include <span>
#include <string_view>

#include "jinja/format.h"
#include "jinja/loop.h"
#include "jinja/text.h"

namespace fathom::jinja {
namespace {

constexpr size_t kNone = std::string::npos;
using View = std::string_view;

Value list_of(const std::vector<View>& parts, Meter& meter) {
  std::vector<Value> items;
  items.reserve(parts.size());
  for (View part : parts) items.push_back(make_text(std::string(part), meter));
  return make_list(std::move(items), meter);
}

// str.split() without a separator: at runs of blanks. limit < 0: all.
std::vector<View> split_blanks(View text, int64_t limit, Meter& meter) {
  std::vector<View> parts;
  meter.step(static_cast<int64_t>(text.size() / 2));
  for (View rest = strip(text, Ends::kLeft); !rest.empty();) {
    const bool is_last = static_cast<int64_t>(parts.size()) == limit;
    size_t end = is_last ? rest.size() : 0;
    const auto is_blank = [&](size_t at) {
      return strip(rest.substr(at, character_size(rest, at)), Ends::kLeft).empty();
    };
    while (end < rest.size() && !is_blank(end)) end += character_size(rest, end);
    meter.make(sizeof(View));
    parts.push_back(rest.substr(0, end));
    rest = strip(rest.substr(end), Ends::kLeft);
  }
  return parts;
}

std::vector<View> split_at(View text, View separator, int64_t limit, Meter& meter) {
  std::vector<View> parts;
  size_t begin = 0;
  for (size_t at = 0; limit < 0 || static_cast<int64_t>(parts.size()) < limit; begin = at + separator.size()) {
    at = find_text(text, separator, begin);
    if (at == kNone) break;
    meter.make(sizeof(View));
    parts.push_back(text.substr(begin, at - begin));
  }
  parts.push_back(text.substr(begin));
  return parts;
}

Value split(const Value& receiver, CallArguments arguments, Meter& meter) {
  const std::string& text = *receiver.text();
  const Signature signature("split", std::move(arguments), {"sep", "maxsplit"}, meter);
  const int64_t limit = signature.integer(1, -1);
  meter.make(text.size());
  if (!signature.has(0)) return list_of(split_blanks(text, limit, meter), meter);
  const std::string separator = signature.text(0);
  if (separator.empty()) meter.fail("split: empty separator");
  return list_of(split_at(text, separator, limit, meter), meter);
}

Value split_lines_method(const Value& receiver, CallArguments arguments, Meter& meter) {
  const Signature signature("splitlines", std::move(arguments), {"keepends"}, meter);
  return list_of(split_lines(*receiver.text(), meter, signature.flag(0, false)), meter);
}

template <Ends ends>
Value strip_method(const Value& receiver, CallArguments arguments, Meter& meter) {
  const std::string& text = *receiver.text();
  const Signature signature("strip", std::move(arguments), {"chars"}, meter);
  meter.make(text.size());
  meter.step(static_cast<int64_t>(text.size() / 4));
  if (!signature.has(0)) return make_text(std::string(strip(text, ends)), meter);
  const std::string characters = signature.text(0);
  meter.make(4 * characters.size());
  return make_text(std::string(strip(text, ends, characters)), meter);
}

template <bool at_start>
bool has_end(const Value& receiver, const Value& end, Meter& meter) {
  if (end.text() == nullptr) refuse(end, "startswith, endswith: expected a string or a tuple of strings", meter);
  meter.read(end.text()->size());
  return at_start ? receiver.text()->starts_with(*end.text()) : receiver.text()->ends_with(*end.text());
}

template <bool at_start>
Value begins_or_ends(const Value& receiver, CallArguments arguments, Meter& meter) {
  const Value wanted = Signature(at_start ? "startswith" : "endswith", std::move(arguments), {"text"}, meter).value(0);
  const auto matches = [&](const Value& end) { return has_end<at_start>(receiver, end, meter); };
  if (!wanted.is_sequence(Sequence::Flavor::kTuple)) return Value(Value::Data(matches(wanted)));
  const auto& all = wanted.sequence()->items;
  return Value(Value::Data(std::any_of(all.begin(), all.end(), matches)));
}

Value find(const Value& receiver, CallArguments arguments, Meter& meter) {
  const std::string& text = *receiver.text();
  const std::string wanted = Signature("find", std::move(arguments), {"text"}, meter).text(0);
  meter.read(text.size());
  const size_t at = find_text(text, wanted);
  return Value(Value::Data(at == kNone ? int64_t{-1} : count_characters(View(text).substr(0, at))));
}

Value count(const Value& receiver, CallArguments arguments, Meter& meter) {
  const std::string& text = *receiver.text();
  const std::string wanted = Signature("count", std::move(arguments), {"text"}, meter).text(0);
  meter.read(text.size());
  if (wanted.empty()) return Value(Value::Data(count_characters(text) + 1));
  int64_t found = 0;
  for (size_t at = 0; (at = find_text(text, wanted, at)) != kNone; at += wanted.size()) {
    meter.step();
    ++found;
  }
  return Value(Value::Data(found));
}

Value join(const Value& receiver, CallArguments arguments, Meter& meter) {
  const std::string& separator = *receiver.text();
  std::string text;
  bool first = true;
  Cursor cursor(Signature("join", std::move(arguments), {"iterable"}, meter).value(0), meter);
  while (const auto item = cursor.next()) {
    if (item->text() == nullptr) refuse(*item, "join: expected strings", meter);
    meter.make(item->text()->size() + separator.size());
    if (!first) text += separator;
    text += *item->text();
    first = false;
  }
  return make_text(std::move(text), meter);
}

Value replace(const Value& receiver, CallArguments arguments, Meter& meter) {
  const Signature signature("replace", std::move(arguments), {"old", "new", "count"}, meter);
  const int64_t most = signature.integer(2, -1);
  return make_text(replace_text(*receiver.text(), signature.text(0), signature.text(1), most, meter), meter);
}

Value remove_prefix(const Value& receiver, CallArguments arguments, Meter& meter) {
  const Value end = Signature("removeprefix", std::move(arguments), {"prefix"}, meter).value(0);
  const size_t cut = has_end<true>(receiver, end, meter) ? end.text()->size() : 0;
  return make_text(receiver.text()->substr(cut), meter);
}

Value remove_suffix(const Value& receiver, CallArguments arguments, Meter& meter) {
  const Value end = Signature("removesuffix", std::move(arguments), {"suffix"}, meter).value(0);
  const size_t cut = has_end<false>(receiver, end, meter) ? end.text()->size() : 0;
  return make_text(receiver.text()->substr(0, receiver.text()->size() - cut), meter);
}

template <std::string (*change)(View, Meter&)>
Value in_case(const Value& receiver, CallArguments arguments, Meter& meter) {
  const Signature none("the method", std::move(arguments), {}, meter);
  meter.visit(receiver.text()->size());
  return make_text(change(*receiver.text(), meter), meter);
}

Value format(const Value& receiver, CallArguments arguments, Meter& meter) {
  return make_text(format_braces(*receiver.text(), arguments, meter), meter);
}

Value get(const Value& receiver, CallArguments arguments, Meter& meter) {
  const Signature signature("get", std::move(arguments), {"key", "default"}, meter);
  const Value key = signature.value(0);
  if (!is_hashable(key)) refuse(key, "get: expected a value that can be a key", meter);
  const Value* found = receiver.dict()->find(key, meter);
  return found != nullptr ? *found : signature.value(1, Value());
}

enum class Side { kKeys, kValues, kItems };
template <Side side>
Value view_of(const Value& receiver, CallArguments arguments, Meter& meter) {
  const Signature none("the method", std::move(arguments), {}, meter);
  std::vector<Value> items;
  for (const auto& [key, value] : receiver.dict()->entries()) {
    items.push_back(side == Side::kItems ? make_tuple({key, value}, meter) : side == Side::kKeys ? key : value);
  }
  return make_sequence(std::move(items), Sequence::Flavor::kView, meter);
}

Value copy(const Value& receiver, CallArguments arguments, Meter& meter) {
  const Signature none("copy", std::move(arguments), {}, meter);
  return receiver;
}

Value index(const Value& receiver, CallArguments arguments, Meter& meter) {
  const Value wanted = Signature("index", std::move(arguments), {"value"}, meter).value(0);
  const auto& items = receiver.sequence()->items;
  for (size_t i = 0; i < items.size(); ++i) {
    if (equal(items[i], wanted, meter)) return Value(Value::Data(static_cast<int64_t>(i)));
  }
  meter.fail("index: the value is not in the list");
}

Value cycle(const Value& receiver, CallArguments arguments, Meter& meter) {
  const auto& choices = arguments.positional;
  if (choices.empty()) meter.fail("no items for cycling given");
  Loop& loop = **receiver.get_if<std::shared_ptr<Loop>>();
  return choices[static_cast<size_t>(*loop.attribute("index0", meter)->integer()) % choices.size()];
}

struct MethodEntry {
  View name;
  Value (*call)(const Value& receiver, CallArguments arguments, Meter& meter);
};
struct Methods {
  const char* receivers;
  std::span<const MethodEntry> supported;
  std::span<const View> others;     // that Python has
  std::span<const View> forbidden;  // by the sandbox
};

constexpr MethodEntry kOfTexts[] = {{"split", split},
                                    {"splitlines", split_lines_method},
                                    {"strip", strip_method<Ends::kBoth>},
                                    {"lstrip", strip_method<Ends::kLeft>},
                                    {"rstrip", strip_method<Ends::kRight>},
                                    {"startswith", begins_or_ends<true>},
                                    {"endswith", begins_or_ends<false>},
                                    {"find", find},
                                    {"count", count},
                                    {"join", join},
                                    {"replace", replace},
                                    {"removeprefix", remove_prefix},
                                    {"removesuffix", remove_suffix},
                                    {"upper", in_case<upper>},
                                    {"lower", in_case<lower>},
                                    {"title", in_case<title>},
                                    {"capitalize", in_case<capitalize>},
                                    {"format", format}};
constexpr View kOtherOfTexts[] = {"casefold",   "center",    "encode",      "expandtabs", "format_map", "index",
                                  "isalnum",    "isalpha",   "isascii",     "isdecimal",  "isdigit",    "isidentifier",
                                  "islower",    "isnumeric", "isprintable", "isspace",    "istitle",    "isupper",
                                  "ljust",      "maketrans", "partition",   "rfind",      "rindex",     "rjust",
                                  "rpartition", "rsplit",    "swapcase",    "translate",  "zfill"};
constexpr MethodEntry kOfDicts[] = {{"get", get},
                                    {"keys", view_of<Side::kKeys>},
                                    {"values", view_of<Side::kValues>},
                                    {"items", view_of<Side::kItems>},
                                    {"copy", copy}};
constexpr View kOtherOfDicts[] = {"fromkeys"};
constexpr View kForbiddenOfDicts[] = {"clear", "pop", "popitem", "setdefault", "update"};
constexpr MethodEntry kOfLists[] = {{"index", index}, {"copy", copy}};
constexpr MethodEntry kOfTuples[] = {{"index", index}};
constexpr View kOtherOfLists[] = {"count"};
constexpr View kForbiddenOfLists[] = {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"};
constexpr MethodEntry kOfLoops[] = {{"cycle", cycle}};
constexpr View kOtherOfLoops[] = {"changed"};

Methods methods_of(const Value& receiver) {
  if (receiver.text() != nullptr) return {"strings", kOfTexts, kOtherOfTexts, {}};
  if (receiver.dict() != nullptr) return {"mappings", kOfDicts, kOtherOfDicts, kForbiddenOfDicts};
  if (receiver.is_sequence(Sequence::Flavor::kList)) return {"lists", kOfLists, kOtherOfLists, kForbiddenOfLists};
  if (receiver.is_sequence(Sequence::Flavor::kTuple)) return {"tuples", kOfTuples, kOtherOfLists, {}};
  if (receiver.is<std::shared_ptr<Loop>>()) return {"loops", kOfLoops, kOtherOfLoops, {}};
  return {};
}

bool holds(std::span<const View> names, View name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

const MethodEntry* find_method(std::span<const MethodEntry> methods, View name) {
  const auto found =
      std::find_if(methods.begin(), methods.end(), [&](const MethodEntry& row) { return row.name == name; });
  return found == methods.end() ? nullptr : &*found;
}

}  // namespace

MethodKind method_kind(const Value& receiver, const std::string& name) {
  const Methods methods = methods_of(receiver);
  if (find_method(methods.supported, name) != nullptr || holds(methods.others, name)) return MethodKind::kAllowed;
  return holds(methods.forbidden, name) ? MethodKind::kForbidden : MethodKind::kNone;
}

Value call_method(const Value& receiver, const std::string& name, CallArguments arguments, Meter& meter) {
  meter.step();
  if (receiver.is<Markup>()) meter.fail("methods of what |safe returns are not supported");
  const Methods methods = methods_of(receiver);
  const MethodEntry* method = find_method(methods.supported, name);
  if (method == nullptr) meter.fail("the method '" + name + "' of " + methods.receivers + " is not supported");
  return method->call(receiver, std::move(arguments), meter);
}

std::string replace_text(const std::string& text, const std::string& old, const std::string& by, int64_t count,
                         Meter& meter) {
  std::string result;
  meter.make(text.size());
  if (count < 0) count = std::numeric_limits<int64_t>::max();
  size_t begin = 0;
  while (count-- > 0) {
    // An empty text is found before every character and at the end.
    const size_t at = find_text(text, old, begin);
    if (at == kNone) break;
    meter.make(by.size());
    result.append(text, begin, at - begin).append(by);
    begin = at + old.size();
    if (!old.empty()) continue;
    if (begin >= text.size()) return result;
    const size_t size = character_size(text, begin);
    result.append(text, begin, size);
    begin += size;
  }
  return result.append(text, begin);
}

}  // namespace fathom::jinja
