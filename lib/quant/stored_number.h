// A number as every format stores it, to be shown: its bits, what they stand for and what is read back; and each
// format's range.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace fathom::quant {

struct StoredNumber {
  std::string format;          // "FP16", "INT8"
  std::string bits;            // the code; of a float sign, exponent and fraction with blanks between
  double code = 0;             // what the bits stand for before a scale
  std::optional<float> scale;  // unset: without one
  double value = 0;            // what is read back
  bool beyond = false;         // past the format's largest number: infinity, NaN, or the largest integer
};

// The number in FP32, FP16, BF16, FP8 (both) and INT8, rounded directly (past INT8's range to the end of it); then with
// a scale in FP8 E4M3, INT8, INT4 and NF4, as one of values up to `largest`, which is at least the number's magnitude.
std::vector<StoredNumber> stored_in_every_format(double number, float largest);

// A largest magnitude for one number: the power of two from it on, FP32's largest number at most; of 0, 1.
float power_of_two_from(double number);

struct FormatRange {
  std::string format;
  int sign_bits = 0, exponent_bits = 0, fraction_bits = 0;
  std::optional<double> smallest_subnormal;
  double smallest = 0;  // above 0; of floats the smallest normal
  double least = 0;     // the lowest number
  double largest = 0;
  double exact_integers_to = 0;  // this integer and all from 0 to it are stored exactly
  double bytes = 0;              // without a scale
  bool scaled = false;           // numbers are those before the scale
};

// FP32, FP16, BF16, FP8 (both), INT8, INT4, NF4.
std::vector<FormatRange> ranges_of_formats();

}  // namespace fathom::quant
