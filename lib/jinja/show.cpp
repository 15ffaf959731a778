// Python's text of values and their JSON: floats by their shortest digits, containers by the repr of their items.
#include "jinja/show.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

#include "jinja/operators.h"
#include "jinja/text.h"

namespace fathom::jinja {
namespace {

std::string float_repr(double value) {
  std::array<char, 32> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::scientific);
  std::string text(buffer.data(), end.ptr);  // -d.ddde+XX, the shortest that reads back
  const size_t mark = text.find('e');
  const int exponent = std::atoi(text.c_str() + mark + 1);
  if (exponent < -4 || exponent >= 16) return text;
  std::string sign = text[0] == '-' ? "-" : "";
  std::string digits;
  std::copy_if(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(mark), std::back_inserter(digits),
               [](char c) { return c >= '0' && c <= '9'; });
  if (exponent < 0) return sign + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) return sign + digits + std::string(whole - digits.size(), '0') + ".0";
  return sign + digits.substr(0, whole) + "." + digits.substr(whole);
}

void append_escape(std::string& text, char32_t unit) {
  std::array<char, 8> code{};
  std::snprintf(code.data(), code.size(), "\\u%04x", static_cast<unsigned>(unit & 0xFFFF));
  text += code.data();
}

std::string json_string(const std::string& text, bool ensure_ascii) {
  constexpr std::pair<char32_t, std::string_view> kShort[] = {
      {'"', "\\\""}, {'\\', "\\\\"}, {'\n', "\\n"}, {'\r', "\\r"}, {'\t', "\\t"}, {'\f', "\\f"}, {'\b', "\\b"}};
  std::string result = "\"";
  for (char32_t c : to_characters(text)) {
    const auto* found =
        std::find_if(std::begin(kShort), std::end(kShort), [&](const auto& row) { return row.first == c; });
    if (found != std::end(kShort)) {
      result += found->second;
    } else if (c >= 0x10000 && ensure_ascii) {
      append_escape(result, 0xD800 + ((c - 0x10000) >> 10));
      append_escape(result, 0xDC00 + ((c - 0x10000) & 0x3FF));
    } else if (c < 0x20 || (c > 0x7E && ensure_ascii)) {
      append_escape(result, c);
    } else {
      append_character(result, c);
    }
  }
  return result + '"';
}

// Writes into one buffer and charges it as it grows, so that a value that refers to another many times stays bounded.
class Writer {
 public:
  Writer(const JsonStyle* json, Meter& meter) : json_(json), meter_(meter) {}  // json: null for Python's repr

  void value(const Value& value) {
    meter_.step();
    if (const std::string* text = value.text()) return string(*text, value.is<Markup>());
    if (const Sequence* sequence = value.sequence()) return list(value, *sequence);
    if (const Dict* dict = value.dict()) return object(*dict);
    write(scalar(value));
  }
  std::string take() { return std::move(text_); }

 private:
  void write(std::string_view text) {
    meter_.make(text.size());
    text_ += text;
  }
  void string(const std::string& text, bool is_markup) {
    meter_.visit(text.size());
    if (json_ != nullptr) return write(json_string(text, json_->ensure_ascii));
    write(is_markup ? "Markup(" + text_repr(text) + ")" : text_repr(text));
  }
  std::string scalar(const Value& value) {
    if (value.is<None>()) return json_ ? "null" : "None";
    if (value.is<Undefined>() && !json_) return "Undefined";
    if (const auto* flag = value.get_if<bool>()) return json_ ? (*flag ? "true" : "false") : *flag ? "True" : "False";
    if (const auto* integer = value.get_if<int64_t>()) return std::to_string(*integer);
    if (const auto* number = value.get_if<double>()) {
      if (std::isnan(*number)) return json_ ? "NaN" : "nan";
      if (std::isinf(*number)) return std::string(*number < 0 ? "-" : "") + (json_ ? "Infinity" : "inf");
      return float_repr(*number);
    }
    if (json_) meter_.fail("tojson: a value of type " + type_name(value) + " cannot be written as JSON");
    meter_.fail("the text of a value of type " + type_name(value) + " is not supported");
  }
  void list(const Value& value, const Sequence& sequence) {
    const bool is_tuple = sequence.flavor == Sequence::Flavor::kTuple;
    if (!is_tuple && sequence.flavor != Sequence::Flavor::kList) return write(scalar(value));  // which fails
    const auto item = [&](const Value& each) { this->value(each); };
    if (!is_tuple || json_ != nullptr) return container("[", sequence.items, item, "]");
    container("(", sequence.items, item, sequence.items.size() == 1 ? ",)" : ")");
  }
  void object(const Dict& dict) {
    const auto entry = [&](const std::pair<Value, Value>& each) {
      const bool is_quoted = json_ != nullptr && each.first.text() == nullptr;
      is_quoted ? write('"' + scalar(each.first) + '"') : value(each.first);
      write(json_ != nullptr ? json_->key_separator : ": ");
      value(each.second);
    };
    if (json_ == nullptr || !json_->sort_keys) return container("{", dict.entries(), entry, "}");
    meter_.make(dict.entries().size() * sizeof(dict.entries()[0]));
    std::vector<std::pair<Value, Value>> sorted = dict.entries();
    std::stable_sort(sorted.begin(), sorted.end(),
                     [&](const auto& a, const auto& b) { return less(a.first, b.first, meter_); });
    container("{", sorted, entry, "}");
  }
  template <typename Item, typename WriteItem>
  void container(std::string_view open, const std::vector<Item>& items, const WriteItem& write_item,
                 std::string_view close) {
    write(open);
    ++level_;
    for (const Item& item : items) {
      if (&item != items.data()) write(json_ != nullptr ? json_->item_separator : ", ");
      new_line();
      write_item(item);
    }
    --level_;
    if (!items.empty()) new_line();
    write(close);
  }
  void new_line() {
    if (json_ == nullptr || !json_->indent) return;
    write("\n");
    for (int i = 0; i < level_; ++i) write(*json_->indent);
  }

  const JsonStyle* json_;
  Meter& meter_;
  std::string text_;
  int level_ = 0;
};

}  // namespace

std::string to_text(const Value& value, Meter& meter) {
  if (const std::string* text = value.text()) {
    meter.read(text->size());
    return *text;
  }
  return value.is<Undefined>() ? "" : to_repr(value, meter);
}

std::string to_escaped_text(const Value& value, Meter& meter) {
  std::string text = to_text(value, meter);
  if (value.is<Markup>()) return text;
  meter.visit(text.size());
  text = escaped(text);
  meter.make(text.size());
  return text;
}

std::string to_part_of(const Value& whole, const Value& value, Meter& meter) {
  return whole.is<Markup>() ? to_escaped_text(value, meter) : to_text(value, meter);
}

std::string to_repr(const Value& value, Meter& meter) {
  Writer writer(nullptr, meter);
  writer.value(value);
  return writer.take();
}

std::string to_json_text(const Value& value, const JsonStyle& style, Meter& meter) {
  Writer writer(&style, meter);
  writer.value(value);
  return writer.take();
}

}  // namespace fathom::jinja
