// `fathom formats [NUMBER...]`: numbers as every format stores them, what the formats reach, and what weights in them
// take.

#include <charconv>
#include <cmath>
#include <cstdio>
#include <memory>
#include <numbers>

#include "app/words/shared_options.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/json_value.h"
#include "base/output.h"
#include "quant/int4.h"
#include "quant/layout.h"
#include "quant/stored_number.h"
#include "report/table.h"

namespace fathom::app {
namespace {

using quant::FormatRange;
using quant::StoredNumber;
using report::Align;
using report::Table;

constexpr int64_t kWidth = 4096;     // of the square matrix whose scales are counted
constexpr int64_t kInt4Group = 128;  // values that share a scale
constexpr int64_t kBillion = 1'000'000'000;

class Formats final : public Command {
 public:
  Formats() : Command("formats", "Numbers in every format: bits, value, error; ranges and bytes") {}
  std::vector<Option> options() override {
    return {{"NUMBER", number_words_, "",
             "As 3.14, -1e-8, 70000, inf, pi, or after -- -inf; without any pi, 0.1 and 70000"},
            {"--largest", largest_word_, "X",
             "Largest magnitude of the values that share a scale; without it a power of two above each number"},
            json_option(json_)};
  }
  void complete() override;
  int run() const override;

 private:
  // Of the values that share the number's scale.
  float largest_for(double number) const {
    return largest_ ? static_cast<float>(*largest_) : quant::power_of_two_from(number);
  }
  std::string as_json() const;
  std::string as_text() const;

  std::vector<std::string> number_words_;
  std::string largest_word_;
  bool json_ = false;
  std::vector<double> numbers_;  // at least one
  std::optional<double> largest_;
};

double number_of(const std::string& text, const char* where) {
  if (text == "pi") return std::numbers::pi;
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size()) return number;
  const bool range = error == std::errc::result_out_of_range;
  throw UsageError(std::string(where) + (range ? ": outside the range of FP64: '" : ": expected a number, got '") +
                       text.substr(0, 64) + "'",
                   range ? "" : "numbers are written like 3.14, -1e-8, 70000, inf, nan or pi");
}

void Formats::complete() {
  for (const std::string& text : number_words_) numbers_.push_back(number_of(text, "formats"));
  if (numbers_.empty()) numbers_ = {std::numbers::pi, 0.1, 70000};
  if (largest_word_.empty()) return;
  const double largest = number_of(largest_word_, "--largest");
  largest_ = largest;
  bool covers = std::isfinite(static_cast<float>(largest)) && largest > 0;
  for (const double number : numbers_) covers = covers && !(std::abs(number) > largest);
  if (!covers)
    throw UsageError("--largest: expected a number above 0 that no other exceeds, got '" + largest_word_ + "'");
}

// The bytes of a parameter: its code, and its share of the scales.
struct StorageRow {
  std::string format;
  double code_bytes = 0, scale_bytes = 0;
  std::string scales;
};

StorageRow row_of(const char* format, quant::Scheme scheme, const char* scales) {
  const quant::Layout layout = quant::layout_of(scheme, kWidth, kWidth);
  constexpr double kParameters = double{kWidth} * kWidth;
  return {format, static_cast<double>(layout.code_bytes) / kParameters,
          static_cast<double>(layout.scale_bytes) / kParameters, scales};
}

std::vector<StorageRow> storage() {
  using quant::Scheme;
  return {
      {"FP32", 4, 0, "none"},
      {"FP16", 2, 0, "none"},
      {"BF16", 2, 0, "none"},
      row_of("FP8 E4M3", Scheme::kFp8, "FP32, for a row of 4,096"),
      row_of("INT8", Scheme::kInt8, "FP32, for a row of 4,096"),
      {"INT4", 0.5, 4.0 / kInt4Group, "FP32, for a group of 128"},
      row_of("NF4", Scheme::kNf4, "FP32, for a block of 64"),
      row_of("NF4 double", Scheme::kNf4DoubleQuant, "8 bits, and FP32 for 256 of them"),
      row_of("MXFP4", Scheme::kMxfp4, "8 bits, for a block of 32"),
      row_of("FP8 blocks", Scheme::kFp8Block128, "FP32, for 128 values of a row"),
  };
}

std::string digits(double number, int significant) {
  char text[40];
  std::snprintf(text, sizeof text, "%.*g", significant, number);
  return text;
}

// The shortest decimal that is read as the same FP64 number.
std::string shortest(double number) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, number).ptr};
}

std::string bits_of(const StoredNumber& stored) {
  std::string text = stored.bits;
  if (stored.scale) text += " = " + digits(stored.code, 6) + " × " + digits(*stored.scale, 6);
  return text;
}

Table table_of(double number, const std::vector<StoredNumber>& all) {
  Table table({{"format", Align::kLeft}, {"bits", Align::kLeft}, {"value"}, {"error"}, {"relative"}});
  bool scaled = false;
  for (const StoredNumber& stored : all) {
    if (stored.scale && !scaled) table.add_rule();
    scaled = stored.scale.has_value();
    const double error = stored.value - number;
    std::string absolute = stored.beyond ? "overflow" : std::string(report::kMissing), relative(report::kMissing);
    if (std::isfinite(error) && !stored.beyond) {
      absolute = digits(error, 2);
      if (number != 0) relative = digits(std::abs(error / number), 2);
    }
    table.add_row({stored.format, bits_of(stored), digits(stored.value, 9), absolute, relative});
  }
  return table;
}

Table table_of(const std::vector<FormatRange>& ranges) {
  Table table({{"format", Align::kLeft}, {"bits"}, {"subnormal from"}, {"from"}, {"to"}, {"integers to"}, {"bytes"}});
  for (const FormatRange& range : ranges) {
    std::string bits = std::to_string(range.sign_bits) + "+" + std::to_string(range.exponent_bits) + "+" +
                       std::to_string(range.fraction_bits);
    if (range.exponent_bits == 0) bits = std::to_string(range.sign_bits + range.fraction_bits);
    table.add_row({range.format + (range.scaled ? " × scale" : ""), bits,
                   range.smallest_subnormal ? digits(*range.smallest_subnormal, 3) : std::string(report::kMissing),
                   digits(range.smallest, 3), digits(range.largest, 6),
                   format_count(static_cast<int64_t>(range.exact_integers_to)), digits(range.bytes, 2)});
  }
  return table;
}

Table table_of(const std::vector<StorageRow>& rows) {
  Table table({{"weights in", Align::kLeft}, {"code"}, {"+ scale"}, {"= GB a billion"}, {"scales", Align::kLeft}});
  for (const StorageRow& row : rows) {
    table.add_row({row.format, digits(row.code_bytes, 2), digits(row.scale_bytes, 4),
                   digits(row.code_bytes + row.scale_bytes, 5), row.scales});
  }
  return table;
}

// JSON has no infinity and no NaN: null stands for them.
Json json_of(double number) { return std::isfinite(number) ? Json(number) : Json(nullptr); }

Json json_of(double number, const StoredNumber& stored) {
  const double error = stored.value - number;
  Json json = {{"format", stored.format},
               {"bits", stored.bits},
               {"code", json_of(stored.code)},
               {"scale", stored.scale ? json_of(*stored.scale) : Json(nullptr)},
               {"value", json_of(stored.value)},
               {"text", shortest(stored.value)},
               {"error", json_of(error)},
               {"relative_error", number == 0 ? Json(nullptr) : json_of(std::abs(error / number))},
               {"overflow", stored.beyond}};
  return json;
}

Json json_of(const FormatRange& range) {
  return {{"format", range.format},
          {"sign_bits", range.sign_bits},
          {"exponent_bits", range.exponent_bits},
          {"fraction_bits", range.fraction_bits},
          {"smallest_subnormal", range.smallest_subnormal ? Json(*range.smallest_subnormal) : Json(nullptr)},
          {"smallest", range.smallest},
          {"least", range.least},
          {"largest", range.largest},
          {"exact_integers_to", range.exact_integers_to},
          {"bytes", range.bytes},
          {"scaled", range.scaled}};
}

std::string Formats::as_json() const {
  Json json = {{"numbers", Json::array()}, {"formats", Json::array()}, {"storage", Json::array()}};
  for (const double number : numbers_) {
    const float largest = largest_for(number);
    Json each = {{"number", json_of(number)}, {"text", shortest(number)}, {"largest", json_of(largest)}};
    for (const StoredNumber& stored : quant::stored_in_every_format(number, largest)) {
      each["stored"].push_back(json_of(number, stored));
    }
    json["numbers"].push_back(std::move(each));
  }
  for (const FormatRange& range : quant::ranges_of_formats()) json["formats"].push_back(json_of(range));
  for (const StorageRow& row : storage()) {
    json["storage"].push_back({{"format", row.format},
                               {"code_bytes", row.code_bytes},
                               {"scale_bytes", row.scale_bytes},
                               {"bytes_per_billion", (row.code_bytes + row.scale_bytes) * kBillion}});
  }
  return format_json(json);
}

std::string Formats::as_text() const {
  std::string text;
  for (const double number : numbers_) {
    const float largest = largest_for(number);
    text += shortest(number) + "; below the line with a scale, as one of values up to ±" + digits(largest, 6) + "\n" +
            table_of(number, quant::stored_in_every_format(number, largest)).format() + "\n";
  }
  return text + "Bits of a float: sign, exponent, fraction. Error: value less number.\n\n" +
         table_of(quant::ranges_of_formats()).format() +
         "\nBelow \"from\" floats lose digits, down to \"subnormal from\"; then they are 0.\n"
         "Whole numbers are exact up to \"integers to\".\n\n" +
         table_of(storage()).format() +
         "\nBytes of a parameter, so GB of a billion of them: of a quantized model, those of\n"
         "the matrices that are quantized.\n";
}

int Formats::run() const {
  print(json_ ? as_json() : as_text());
  return 0;
}

}  // namespace

std::unique_ptr<Command> make_formats() { return std::make_unique<Formats>(); }

}  // namespace fathom::app
