// Filters that make text.
#include <algorithm>

#include "jinja/arguments.h"
#include "jinja/filter_table.h"
#include "jinja/format.h"
#include "jinja/show.h"
#include "jinja/text.h"
#include "jinja/text_methods.h"

namespace fathom::jinja {
namespace {

// A result that is safe to print where its source was.
Value like(const Value& source, std::string text, Meter& meter) {
  return source.is<Markup>() ? make_markup(std::move(text), meter) : make_text(std::move(text), meter);
}

template <std::string (*change)(std::string_view)>
Value changed(const Value& operand, CallArguments arguments, Meter& meter) {
  const Signature none("the filter", std::move(arguments), {}, meter);
  const std::string text = to_text(operand, meter);
  meter.visit(text.size());
  return like(operand, change(text), meter);
}

// Upper case at the start and after blanks, hyphens and opening brackets; lower case elsewhere.
std::string titled(std::string_view text) {
  constexpr std::string_view kBreaks = "-({[<";
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const auto is_break = [&](size_t place) {
      const std::string_view character = text.substr(place, character_size(text, place));
      return kBreaks.find(character) != std::string_view::npos || strip(character, Ends::kLeft).empty();
    };
    size_t end = at;
    const bool breaks = is_break(at);
    while (end < text.size() && is_break(end) == breaks) end += character_size(text, end);
    if (breaks) {
      result += text.substr(at, end - at);
    } else {
      const size_t first = character_size(text, at);
      result += upper(text.substr(at, first)) + lower(text.substr(at + first, end - at - first));
    }
    at = end;
  }
  return result;
}

Value title_filter(const Value& operand, CallArguments arguments, Meter& meter) {
  const Signature none("title", std::move(arguments), {}, meter);
  const std::string text = to_text(operand, meter);
  meter.visit(4 * text.size());  // words of one letter take as long
  return make_text(titled(text), meter);
}

Value trim(const Value& operand, CallArguments arguments, Meter& meter) {
  const Signature signature("trim", std::move(arguments), {"chars"}, meter);
  const std::string text = to_text(operand, meter);
  meter.make(text.size());
  const bool blanks = !signature.has(0) || signature.value(0).is<None>();
  return like(operand, std::string(blanks ? strip(text, Ends::kBoth) : strip(text, Ends::kBoth, signature.text(0))),
              meter);
}

Value replace(const Value& operand, CallArguments arguments, Meter& meter) {
  const Signature signature("replace", std::move(arguments), {"old", "new", "count"}, meter);
  const bool all = !signature.has(2) || signature.value(2).is<None>();
  const std::string old = to_text(signature.value(0), meter), by = to_text(signature.value(1), meter);
  return make_text(replace_text(to_text(operand, meter), old, by, all ? -1 : signature.integer(2, -1), meter), meter);
}

Value indent(const Value& operand, CallArguments arguments, Meter& meter) {
  const Signature signature("indent", std::move(arguments), {"width", "first", "blank"}, meter);
  if (operand.text() == nullptr) refuse(operand, "indent: expected a string", meter);
  const Value width = signature.value(0, Value(Value::Data(int64_t{4})));
  const int64_t blanks = width.text() != nullptr ? 0 : std::max<int64_t>(signature.integer(0, 4), 0);
  if (blanks > 1000) meter.fail("indent: widths beyond 1000 are not supported");
  const std::string margin = width.text() != nullptr ? *width.text() : std::string(static_cast<size_t>(blanks), ' ');
  const std::string text = *operand.text() + "\n";  // so that a text without a line has one
  std::string result = signature.flag(1, false) ? margin : "";
  bool first = true;
  for (std::string_view line : split_lines(text, meter)) {
    meter.make(margin.size() + 1);
    if (!first) result += '\n';
    if (!first && (!line.empty() || signature.flag(2, false))) result += margin;
    result += line;
    first = false;
  }
  return like(operand, std::move(result), meter);
}

Value string(const Value& operand, CallArguments arguments, Meter& meter) {
  const Signature none("string", std::move(arguments), {}, meter);
  return operand.text() != nullptr ? operand : make_text(to_text(operand, meter), meter);
}

Value safe(const Value& operand, CallArguments arguments, Meter& meter) {
  const Signature none("safe", std::move(arguments), {}, meter);
  return make_markup(to_text(operand, meter), meter);
}

Value escape(const Value& operand, CallArguments arguments, Meter& meter) {
  const Signature none("escape", std::move(arguments), {}, meter);
  if (operand.is<Markup>()) return operand;
  std::string result;
  const std::string text = to_text(operand, meter);
  meter.make(6 * text.size());  // of quotes
  for (char c : text) {
    constexpr std::pair<char, std::string_view> kEntities[] = {
        {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'\'', "&#39;"}, {'"', "&#34;"}};
    const auto* found =
        std::find_if(std::begin(kEntities), std::end(kEntities), [&](auto& row) { return row.first == c; });
    if (found != std::end(kEntities)) {
      result += found->second;
    } else {
      result += c;
    }
  }
  return make_markup(std::move(result), meter);
}

Value format(const Value& operand, CallArguments arguments, Meter& meter) {
  if (!arguments.positional.empty() && !arguments.named.empty()) {
    meter.fail("format: can't handle positional and keyword arguments at the same time");
  }
  Value values = make_tuple(std::move(arguments.positional), meter);
  if (!arguments.named.empty()) {
    Dict dict;
    for (auto& [name, value] : arguments.named) dict.set(make_text(name, meter), std::move(value), meter);
    values = make_dict(std::move(dict), meter);
  }
  return make_text(format_percent(to_text(operand, meter), values, meter), meter);
}

Value center(const Value& operand, CallArguments arguments, Meter& meter) {
  const Signature signature("center", std::move(arguments), {"width"}, meter);
  CallArguments width;
  width.positional.push_back(signature.value(0, Value(Value::Data(int64_t{80}))));
  return call_text_method(make_text(to_text(operand, meter), meter), "center", std::move(width), meter);
}

Value tojson(const Value& operand, CallArguments arguments, Meter& meter) {
  const Signature signature("tojson", std::move(arguments), {"ensure_ascii", "indent", "separators", "sort_keys"},
                            meter);
  JsonStyle style;
  style.ensure_ascii = signature.flag(0, false);
  style.sort_keys = signature.flag(3, false);
  const Value indent = signature.value(1, Value());
  if (indent.text() != nullptr) style.indent = *indent.text();
  if (indent.integer())
    style.indent = std::string(static_cast<size_t>(std::clamp<int64_t>(*indent.integer(), 0, 1000)), ' ');
  if (!indent.is<None>() && !style.indent) refuse(indent, "tojson: indent: expected an integer or a string", meter);
  if (style.indent) style.item_separator = ",";
  const Value separators = signature.value(2, Value());
  if (!separators.is<None>()) {
    const std::vector<Value> pair = to_vector(separators, meter);
    if (pair.size() != 2 || pair[0].text() == nullptr || pair[1].text() == nullptr) {
      meter.fail("tojson: separators: expected two strings");
    }
    style.item_separator = *pair[0].text();
    style.key_separator = *pair[1].text();
  }
  return make_text(to_json_text(operand, style, meter), meter);
}

constexpr FilterEntry kFilters[] = {{"upper", changed<upper>},
                                    {"lower", changed<lower>},
                                    {"capitalize", changed<capitalize>},
                                    {"title", title_filter},
                                    {"trim", trim},
                                    {"replace", replace},
                                    {"indent", indent},
                                    {"string", string},
                                    {"safe", safe},
                                    {"escape", escape},
                                    {"e", escape},
                                    {"format", format},
                                    {"center", center},
                                    {"tojson", tojson}};

}  // namespace

std::span<const FilterEntry> text_filters() { return kFilters; }

}  // namespace fathom::jinja
