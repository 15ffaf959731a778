// The bounds of a rendering and the errors that tell of them.
#include "jinja/meter.h"

namespace fathom::jinja {
namespace {

constexpr size_t kLongestMessage = 1000;

std::string place_of(const std::string& origin, int line) { return origin + ":" + std::to_string(line) + ": "; }

}  // namespace

std::string shortened(const std::string& text) {
  if (text.size() <= kLongestMessage) return text;
  size_t end = kLongestMessage;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "…";
}

void fail_at(const std::string& origin, int line, const std::string& what) {
  throw Error(place_of(origin, line) + shortened(what));
}

void Meter::fail(const std::string& what) const { fail_at(origin_, line_, what); }

void Meter::fail_bound(const char* does, int64_t limit, const char* of) const {
  throw BoundPassed(place_of(origin_, line_) + "the template " + does + " more than " + std::to_string(limit) + " " +
                    of + " for this conversation");
}

void Meter::visit(size_t bytes) {
  step(1 + static_cast<int64_t>(bytes / 2));
  make(4 * bytes);
}

void Meter::make(size_t bytes) {
  step(1 + static_cast<int64_t>(bytes / 64));
  if ((bytes_ += static_cast<int64_t>(bytes)) > limits_.bytes) fail_bound("makes", limits_.bytes, "bytes");
}

void Meter::enter() {
  if (depth_ >= limits_.depth)
    fail("the template's statements, expressions and calls nest more than " + std::to_string(limits_.depth) +
         " levels");
  ++depth_;
}

}  // namespace fathom::jinja
