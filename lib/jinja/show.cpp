// Python's text of values: floats by their shortest digits, containers by the repr of their items.
#include "jinja/show.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "jinja/text.h"

namespace fathom::jinja {
namespace {

// Writes into one buffer and charges it as it grows, so that a value that refers to another many times stays bounded.
class Writer {
 public:
  explicit Writer(Meter& meter) : meter_(meter) {}

  void write(std::string_view text) {
    meter_.make(text.size());
    text_ += text;
  }
  void repr(const Value& value) {
    meter_.step();
    if (const std::string* text = value.text()) {
      meter_.visit(text->size());
      write((value.is<Markup>() ? "Markup(" : "") + text_repr(*text) + (value.is<Markup>() ? ")" : ""));
      return;
    }
    const Meter::Level level(meter_);  // a namespace can hold itself
    if (const Sequence* sequence = value.sequence()) {
      sequence_repr(value, *sequence);
    } else if (const Dict* dict = value.dict()) {
      dict_repr(*dict);
    } else if (const auto* space = value.get_if<Namespace*>()) {
      write("<Namespace ");
      dict_repr((*space)->attributes);
      write(">");
    } else {
      scalar_repr(value);
    }
  }
  std::string take() { return std::move(text_); }

 private:
  void scalar_repr(const Value& value) {
    if (value.is<None>()) return write("None");
    if (value.is<Undefined>()) return write("Undefined");
    if (const auto* flag = value.get_if<bool>()) return write(*flag ? "True" : "False");
    if (const auto* integer = value.get_if<int64_t>()) return write(std::to_string(*integer));
    if (const auto* number = value.get_if<double>()) return write(float_repr(*number));
    if (const auto* range = value.get_if<std::shared_ptr<const Range>>()) {
      const Range& r = **range;
      write("range(" + std::to_string(r.start) + ", " + std::to_string(r.stop));
      return write(r.step == 1 ? ")" : ", " + std::to_string(r.step) + ")");
    }
    meter_.fail("the text of a value of type " + type_name(value) + " would be its address");
  }
  void items_repr(const std::vector<Value>& items) {
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) write(", ");
      repr(items[i]);
    }
  }
  void sequence_repr(const Value& value, const Sequence& sequence) {
    const bool is_tuple = sequence.flavor == Sequence::Flavor::kTuple;
    const bool is_view = !is_tuple && sequence.flavor != Sequence::Flavor::kList;
    if (is_view) write(type_name(value) + "(");
    write(is_tuple ? "(" : "[");
    items_repr(sequence.items);
    if (is_tuple && sequence.items.size() == 1) write(",");
    write(is_tuple ? ")" : "]");
    if (is_view) write(")");
  }
  void dict_repr(const Dict& dict) {
    write("{");
    bool first = true;
    for (const auto& [key, value] : dict.entries()) {
      if (!first) write(", ");
      first = false;
      repr(key);
      write(": ");
      repr(value);
    }
    write("}");
  }

  Meter& meter_;
  std::string text_;
};

class JsonWriter {
 public:
  JsonWriter(const JsonStyle& style, Meter& meter) : style_(style), meter_(meter) {}

  void value(const Value& value) {
    meter_.step();
    if (const std::string* text = value.text()) return string(*text);
    if (value.is<None>()) return write("null");
    if (const auto* flag = value.get_if<bool>()) return write(*flag ? "true" : "false");
    if (const auto* integer = value.get_if<int64_t>()) return write(std::to_string(*integer));
    if (const auto* number = value.get_if<double>()) return write(json_float(*number));
    const Sequence* sequence = value.sequence();
    const bool is_array = sequence != nullptr &&
                          (sequence->flavor == Sequence::Flavor::kList || sequence->flavor == Sequence::Flavor::kTuple);
    if (is_array) return array(sequence->items);
    if (const Dict* dict = value.dict()) return object(*dict);
    meter_.fail("tojson: a value of type " + type_name(value) + " cannot be written as JSON");
  }
  std::string take() { return std::move(text_); }

 private:
  void write(std::string_view text) {
    meter_.make(text.size());
    text_ += text;
  }
  static std::string json_float(double number) {
    if (std::isnan(number)) return "NaN";
    if (std::isinf(number)) return number > 0 ? "Infinity" : "-Infinity";
    return float_repr(number);
  }
  void string(const std::string& text) {
    meter_.visit(text.size());
    std::string out = "\"";
    for (char32_t c : to_characters(text)) append(out, c);
    write(out + "\"");
  }
  void append(std::string& out, char32_t c) const {
    constexpr std::pair<char32_t, std::string_view> kShort[] = {
        {'"', "\\\""}, {'\\', "\\\\"}, {'\n', "\\n"}, {'\r', "\\r"}, {'\t', "\\t"}, {'\f', "\\f"}, {'\b', "\\b"}};
    const auto* found =
        std::find_if(std::begin(kShort), std::end(kShort), [&](const auto& row) { return row.first == c; });
    if (found != std::end(kShort)) {
      out += found->second;
    } else if (c >= 0x10000 && style_.ensure_ascii) {
      escape(out, 0xD800 + ((c - 0x10000) >> 10));
      escape(out, 0xDC00 + ((c - 0x10000) & 0x3FF));
    } else if (c < 0x20 || (c > 0x7E && style_.ensure_ascii)) {
      escape(out, c);
    } else {
      append_character(out, c);
    }
  }
  static void escape(std::string& out, char32_t unit) {
    std::array<char, 8> text{};
    std::snprintf(text.data(), text.size(), "\\u%04x", static_cast<unsigned>(unit & 0xFFFF));
    out += text.data();
  }
  void new_line() {
    if (!style_.indent) return;
    write("\n");
    for (int i = 0; i < level_; ++i) write(*style_.indent);
  }
  // The separator that json.dumps writes before a line break has lost its blank by default, not here.
  void separate(bool first) {
    if (!first) write(style_.item_separator);
    new_line();
  }
  void array(const std::vector<Value>& items) {
    if (items.empty()) return write("[]");
    write("[");
    ++level_;
    for (size_t i = 0; i < items.size(); ++i) {
      separate(i == 0);
      value(items[i]);
    }
    --level_;
    new_line();
    write("]");
  }
  void object(const Dict& dict) {
    if (dict.entries().empty()) return write("{}");
    std::vector<std::pair<Value, Value>> entries = dict.entries();
    meter_.make(entries.size() * 2 * sizeof(Value));
    if (style_.sort_keys) sort(entries);
    write("{");
    ++level_;
    bool first = true;
    for (const auto& [key, item] : entries) {
      separate(first);
      first = false;
      string(key_text(key));
      write(style_.key_separator);
      value(item);
    }
    --level_;
    new_line();
    write("}");
  }
  void sort(std::vector<std::pair<Value, Value>>& entries) {
    const bool all_text =
        std::all_of(entries.begin(), entries.end(), [](const auto& e) { return e.first.text() != nullptr; });
    if (!all_text) meter_.fail("tojson: sort_keys needs keys that are strings");
    std::sort(entries.begin(), entries.end(), [&](const auto& a, const auto& b) {
      meter_.read(a.first.text()->size());
      return *a.first.text() < *b.first.text();
    });
  }
  std::string key_text(const Value& key) {
    if (const std::string* text = key.text()) return *text;
    if (key.is<None>()) return "null";
    if (const auto* flag = key.get_if<bool>()) return *flag ? "true" : "false";
    if (const auto* integer = key.get_if<int64_t>()) return std::to_string(*integer);
    if (const auto* number = key.get_if<double>()) return json_float(*number);
    meter_.fail("tojson: a key of type " + type_name(key) + " cannot be written as JSON");
  }

  const JsonStyle& style_;
  Meter& meter_;
  std::string text_;
  int level_ = 0;
};

}  // namespace

std::string float_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
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

std::string to_text(const Value& value, Meter& meter) {
  if (const std::string* text = value.text()) {
    meter.read(text->size());
    return *text;
  }
  if (value.is<Undefined>()) return "";
  return to_repr(value, meter);
}

std::string to_repr(const Value& value, Meter& meter) {
  Writer writer(meter);
  writer.repr(value);
  return writer.take();
}

std::string to_json_text(const Value& value, const JsonStyle& style, Meter& meter) {
  JsonWriter writer(style, meter);
  writer.value(value);
  return writer.take();
}

}  // namespace fathom::jinja
