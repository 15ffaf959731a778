// JSON text to a value and back: nlohmann's lexer under a builder that refuses duplicate keys and deep nesting.
#include <algorithm>
#include <limits>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/file_kind.h"
#include "base/json_reason.h"
#include "base/json_value.h"

namespace fathom {
namespace {

constexpr size_t kDeepest = 100;
constexpr size_t kLongestMessage = 200;
constexpr size_t kLinearSearch = 16;  // keys of an object up to which a scan is cheaper than a set

// Python writes NaN, Infinity and -Infinity, which JSON does not have. They reach the lexer as numbers that nobody
// writes.
struct Constant {
  std::string_view python;
  std::string_view number;
  double value;
};
constexpr Constant kConstants[] = {
    {"NaN", "0.000000000e-314159261", std::numeric_limits<double>::quiet_NaN()},
    {"-Infinity", "0.000000000e-314159262", -std::numeric_limits<double>::infinity()},
    {"Infinity", "0.000000000e-314159263", std::numeric_limits<double>::infinity()},
};

struct Prepared {
  std::string text;
  std::vector<std::pair<size_t, size_t>> growth;  // at an offset of `text`, how many bytes it is ahead of the original
};

bool has_constants(std::string_view text) {
  return text.find("NaN") != std::string_view::npos || text.find("Infinity") != std::string_view::npos;
}

Prepared replace_constants(std::string_view text) {
  Prepared result;
  bool in_string = false;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (in_string) {
      const size_t length = c == '\\' && at + 1 < text.size() ? 2 : 1;
      in_string = c != '"';
      result.text.append(text.substr(at, length));
      at += length;
      continue;
    }
    in_string = c == '"';
    const auto* constant = std::find_if(std::begin(kConstants), std::end(kConstants), [&](const Constant& candidate) {
      return text.substr(at, candidate.python.size()) == candidate.python;
    });
    if (constant != std::end(kConstants)) {
      at += constant->python.size();
      result.text += constant->number;
      result.growth.emplace_back(result.text.size(), result.text.size() - at);
    } else {
      result.text += c;
      ++at;
    }
  }
  return result;
}

// Receives the parser's events and builds the value without recursion. nlohmann's own builder takes the last of
// duplicate keys silently and searches all earlier keys of an object for each new one.
class Builder : public nlohmann::json_sax<Json> {
 public:
  explicit Builder(size_t most_values)
      : values_left_(most_values), allocated_left_(std::max(kMostJsonValues, most_values / 4)) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t& text) override {
    for (const Constant& constant : kConstants) {
      if (text == constant.number) return add(constant.value);
    }
    return add(value);
  }
  bool string(string_t& value) override { return count_allocated() && add(std::move(value)); }
  bool binary(binary_t&) override { return fail("binary values are not JSON"); }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    Frame& frame = frames_.back();
    const auto& object = frame.value->get_ref<const Json::object_t&>();
    bool known = false;
    if (object.size() < kLinearSearch) {
      known = std::any_of(object.begin(), object.end(), [&](const auto& entry) { return entry.first == name; });
    } else {
      if (frame.keys.empty()) {
        for (const auto& entry : object) frame.keys.insert(entry.first);
      }
      known = !frame.keys.insert(name).second;
    }
    if (known) return fail("the key '" + name.substr(0, 64) + "' appears twice in one object");
    frame.key = std::move(name);
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& error) override {
    const std::string message = reason_of(error);
    const size_t start = message.find(": ");
    return fail(start == std::string::npos ? message : message.substr(start + 2));
  }

  const std::string& error() const { return error_; }
  Json take() { return std::move(root_); }

 private:
  struct Frame {
    Json* value;
    std::string key;
    std::unordered_set<std::string> keys;
  };

  bool fail(std::string message) {
    error_ = message.size() > kLongestMessage ? message.substr(0, kLongestMessage) + "…" : std::move(message);
    return false;
  }
  Json* place(Json value) {
    if (frames_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Frame& frame = frames_.back();
    if (frame.value->is_array()) {
      auto& array = frame.value->get_ref<Json::array_t&>();
      return &array.emplace_back(std::move(value));
    }
    auto& object = frame.value->get_ref<Json::object_t&>();
    object.emplace_back(std::move(frame.key), std::move(value));
    return &object.back().second;
  }
  bool add(Json value) {
    if (values_left_-- == 0) return fail_values();
    place(std::move(value));
    return true;
  }
  bool fail_values() { return fail("more values than any file of its kind has"); }
  bool count_allocated() { return allocated_left_-- > 0 || fail_values(); }
  bool open(Json value) {
    if (!count_allocated()) return false;
    if (values_left_-- == 0) return fail_values();
    if (frames_.size() >= kDeepest) return fail("nested deeper than " + std::to_string(kDeepest) + " levels");
    Json* placed = place(std::move(value));
    frames_.push_back({placed, "", {}});
    return true;
  }
  bool close() {
    frames_.pop_back();
    return true;
  }

  Json root_;
  std::vector<Frame> frames_;  // a frame's value stays where it is: its parent grows only after it is closed
  std::string error_;
  size_t values_left_, allocated_left_;  // the latter: texts, lists and objects, which take more than numbers
};

// Tells how far the lexer has read, which the parser says of its own errors only.
struct CountingIterator {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  reference operator*() const { return *at; }
  CountingIterator& operator++() {
    ++at;
    ++*read;
    return *this;
  }
  CountingIterator operator++(int) {
    const CountingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountingIterator& other) const { return at == other.at; }

  const char* at;
  size_t* read;
};

size_t original_offset(const Prepared& prepared, size_t offset) {
  size_t shift = 0;
  for (const auto& [at, growth] : prepared.growth) {
    if (at > offset) break;
    shift = growth;
  }
  return offset - shift;
}

std::string position_in(std::string_view text, size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t line_start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  return std::to_string(line) + ":" + std::to_string(before.size() - line_start + 1);
}

}  // namespace

Json parse_json(std::string_view text, std::string_view origin, size_t most_values) {
  Prepared prepared;
  std::string_view prepared_text = text;
  if (has_constants(text)) {
    prepared = replace_constants(text);
    prepared_text = prepared.text;
  }
  Builder builder(most_values);
  size_t read = 0;
  const CountingIterator begin{prepared_text.data(), &read};
  const CountingIterator end{prepared_text.data() + prepared_text.size(), &read};
  if (Json::sax_parse(begin, end, &builder)) return builder.take();
  const size_t offset = original_offset(prepared, read == 0 ? 0 : read - 1);
  throw Error(std::string(origin) + ":" + position_in(text, offset) + ": not valid JSON: " + builder.error());
}

Json read_json(const std::filesystem::path& path) {
  const std::string text = read_file(path);
  refuse_other_kind(path, text, "JSON");
  return parse_json(text, path.string());
}

std::string reason_of(const nlohmann::json::exception& error) {
  const std::string message = error.what();
  const size_t end = message.find("] ");
  return message.starts_with("[json.exception.") && end != std::string::npos ? message.substr(end + 2) : message;
}

uint64_t unsigned_at(const Json& object, const std::string& key, uint64_t most) {
  const Json& value = object.is_object() && object.contains(key) ? object.at(key) : Json();
  const bool negative = value.is_number_integer() && !value.is_number_unsigned() && value.get<int64_t>() < 0;
  if (value.is_number_integer() && !negative && value.get<uint64_t>() <= most) return value.get<uint64_t>();
  throw Error(key + ": expected an integer from 0 to " + std::to_string(most) + ", got " + value.dump().substr(0, 80));
}

int64_t count_at(const Json& object, const std::string& key) {
  return static_cast<int64_t>(unsigned_at(object, key, uint64_t{1} << 62));
}

std::string format_json(const Json& value) {
  return value.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) + "\n";
}

}  // namespace fathom
