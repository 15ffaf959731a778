// Quantities other than bytes as text: one function for each kind, so that a figure looks the same wherever it stands.
#pragma once

#include <cstdint>
#include <string>

namespace fathom {

// "1,229.5", "-0.50": so many digits after the point, separators before it. What is not finite: "not finite".
std::string format_decimal(double value, int decimals);
// A time span in three digits, "820 µs", "12.3 ms", "8.60 s"; from a minute on as format_duration. Negative or not
// finite: "—".
std::string format_seconds(double seconds);
// Whole seconds: "12s", "3m05s", "1h02m", "2d03h".
std::string format_duration(double seconds);
// Three digits and a decimal prefix: "402 TFLOP", "45.2 GB/s".
std::string format_quantity(double value, const std::string& unit);
// "1 step", "1,024 steps": of a word whose plural takes an s.
std::string format_counted(int64_t count, const std::string& what);
// By one of printf's formats for a double: "%.3g", "%.1f s".
std::string format_by(const char* format, double value);
// In 10^9 bytes, without their unit: "1,623.4", "8.03", "0.0042".
std::string format_gigabytes(int64_t bytes);
// How far a share is from nothing: "+54.0 %", "-0.05 %", "+1,433 %". "0" stands for 0 alone: what is not equal never
// looks so.
std::string format_change(double share);
// How far `figure` is from `reference`, above 0; "—" where that is 0 and the figure is not.
std::string format_deviation(int64_t figure, int64_t reference);

}  // namespace fathom
