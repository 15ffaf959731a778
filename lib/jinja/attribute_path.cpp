// Paths of attributes, and keys to compare by.
#include "jinja/attribute_path.h"

#include <algorithm>
#include <charconv>

#include "jinja/operators.h"
#include "jinja/text.h"

namespace fathom::jinja {

AttributePath::AttributePath(const Value& path, Meter& meter) {
  if (path.is<None>()) return;
  const std::string* text = path.text();
  if (text == nullptr) {
    parts_.push_back(path);
    return;
  }
  meter.make(text->size() * 4);
  for (size_t begin = 0; begin <= text->size();) {
    const size_t end = std::min(text->find('.', begin), text->size());
    const std::string part = text->substr(begin, end - begin);
    int64_t place = 0;
    const auto [stop, error] = std::from_chars(part.data(), part.data() + part.size(), place);
    const bool is_place = !part.empty() && part[0] != '-' && error == std::errc() && stop == part.data() + part.size();
    parts_.push_back(is_place ? Value(Value::Data(place)) : make_text(part, meter));
    begin = end + 1;
  }
}

Value AttributePath::look_up(const Value& item, const Value& fallback, Meter& meter) const {
  Value value = item;
  for (const Value& part : parts_) {
    value = get_item(value, part, meter);
    if (value.is<Undefined>() && !fallback.is<None>()) value = fallback;
  }
  return value;
}

Value without_case(const Value& value, Meter& meter) {
  return value.text() != nullptr ? make_text(lower(*value.text()), meter) : value;
}

}  // namespace fathom::jinja
