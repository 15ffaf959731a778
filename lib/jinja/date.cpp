// The C library's clock and strftime, without its time zone.
#include "jinja/date.h"

#include <array>
#include <ctime>

namespace fathom::jinja {
namespace {

constexpr size_t kLongestDate = 1000;

std::tm broken_down(std::chrono::local_seconds now) {
  // Taken as if it were universal time, so that no time zone comes in.
  const std::time_t seconds = now.time_since_epoch().count();
  std::tm fields{};
  ::gmtime_r(&seconds, &fields);
  fields.tm_isdst = -1;  // %z and %Z write nothing, as for Python's naive datetimes
  fields.tm_zone = "";
  return fields;
}

}  // namespace

std::chrono::local_seconds local_now() {
  const std::time_t now = std::time(nullptr);
  std::tm fields{};
  ::localtime_r(&now, &fields);
  return std::chrono::local_seconds(std::chrono::seconds(::timegm(&fields)));
}

std::string format_date(std::chrono::local_seconds now, const std::string& format, Meter& meter) {
  meter.make(format.size() + kLongestDate);
  const std::tm fields = broken_down(now);
  std::array<char, kLongestDate> text{};
  const size_t size = std::strftime(text.data(), text.size(), format.c_str(), &fields);
  if (size == 0 && !format.empty()) {
    meter.fail("strftime_now: the date is longer than " + std::to_string(kLongestDate) + " bytes");
  }
  return {text.data(), size};
}

}  // namespace fathom::jinja
