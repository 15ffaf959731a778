// "{}".format(…): finding the fields and their values.
#include <charconv>

#include "jinja/format.h"
#include "jinja/operators.h"
#include "jinja/show.h"

namespace fathom::jinja {
namespace {

class BraceFields {
 public:
  BraceFields(const CallArguments& arguments, Meter& meter) : arguments_(arguments), meter_(meter) {}

  // Of what stands between the braces: name, conversion, spec.
  std::string fill(std::string_view field) {
    if (field.find('{') != std::string_view::npos) meter_.fail("format: fields within fields are not supported");
    const size_t colon = std::min(field.find(':'), field.size());
    std::string_view name = field.substr(0, colon);
    const std::string_view spec = colon < field.size() ? field.substr(colon + 1) : "";
    char conversion = 0;
    if (const size_t mark = name.find('!'); mark != std::string_view::npos) {
      if (mark + 2 != name.size()) meter_.fail("format: expected one letter after '!'");
      conversion = name[mark + 1];
      name = name.substr(0, mark);
    }
    const Value value = look_up(name);
    switch (conversion) {
      case 0:
        return format_field(value, spec, meter_);
      case 's':
        return format_field(make_text(to_text(value, meter_), meter_), spec, meter_);
      case 'r':
        return format_field(make_text(to_repr(value, meter_), meter_), spec, meter_);
      default:
        meter_.fail("format: unknown conversion '" + std::string(1, conversion) + "'");
    }
  }

 private:
  Value look_up(std::string_view path) {
    size_t end = std::min(path.find_first_of(".["), path.size());
    Value value = first(path.substr(0, end));
    while (end < path.size()) {
      const size_t start = end + 1;
      const bool is_item = path[end] == '[';
      end = is_item ? path.find(']', start) : std::min(path.find_first_of(".[", start), path.size());
      if (end == std::string_view::npos || end == start) meter_.fail("format: malformed field");
      const std::string key(path.substr(start, end - start));
      const auto number = is_item ? integer(key) : std::nullopt;
      if (number) {
        value = get_item(value, Value(Value::Data(*number)), meter_);
      } else {
        value = is_item ? get_item(value, make_text(key, meter_), meter_) : get_attribute(value, key, meter_);
      }
      if (is_item) ++end;
      if (end < path.size() && path[end] != '.' && path[end] != '[') meter_.fail("format: malformed field");
    }
    return value;
  }
  Value first(std::string_view name) {
    const auto place = name.empty() ? std::optional(next_place()) : integer(name);
    if (place) {
      if (!name.empty()) gives_ = true;
      if (gives_ && counts_) meter_.fail("format: places both given and counted");
      if (*place >= static_cast<int64_t>(arguments_.positional.size())) meter_.fail("format: too few arguments");
      return arguments_.positional[*place];
    }
    for (const auto& [known, value] : arguments_.named) {
      if (known == name) return value;
    }
    meter_.fail("format: no argument '" + std::string(name) + "'");
  }
  int64_t next_place() {
    counts_ = true;
    return counted_++;
  }
  static std::optional<int64_t> integer(std::string_view text) {
    int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool whole = error == std::errc() && end == text.data() + text.size() && number >= 0;
    return whole ? std::optional(number) : std::nullopt;
  }

  const CallArguments& arguments_;
  Meter& meter_;
  bool counts_ = false, gives_ = false;  // places, in the fields so far
  int64_t counted_ = 0;
};

}  // namespace

std::string format_braces(const std::string& format, const CallArguments& arguments, Meter& meter) {
  std::string result;
  BraceFields fields(arguments, meter);
  meter.make(format.size());
  for (size_t at = 0; at < format.size();) {
    const char c = format[at];
    if ((c == '{' || c == '}') && at + 1 < format.size() && format[at + 1] == c) {
      result += c;
      at += 2;
    } else if (c == '}') {
      meter.fail("format: a single '}'");
    } else if (c == '{') {
      const size_t end = format.find('}', at);
      if (end == std::string::npos) meter.fail("format: a single '{'");
      const std::string piece = fields.fill(std::string_view(format).substr(at + 1, end - at - 1));
      meter.make(piece.size());
      result += piece;
      at = end + 1;
    } else {
      result += c;
      ++at;
    }
  }
  return result;
}

}  // namespace fathom::jinja
