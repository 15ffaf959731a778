// What one rendering of an untrusted template may spend, and where in the template it stands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.h"

namespace fathom::jinja {

// Bounds of one rendering, far above what conversations need. Every visited value and every piece of text that is read
// or written is charged, so that they bound time and memory whatever the template does.
struct Limits {
  int64_t steps = 10'000'000;
  int64_t bytes = int64_t{256} << 20;  // made by the template, text and values together, kept or not
  int64_t depth = 600;                 // statements, expressions and macros inside each other
};

constexpr int64_t kLargestTemplate = int64_t{1} << 20;  // bytes
constexpr int kDeepestSyntax = 100;                     // nested statements, nested expressions
constexpr int kDeepestValue = 100;                      // lists within lists
constexpr int64_t kLargestRange = 100'000;              // the sandbox's MAX_RANGE

// A bound is passed: other conversations may well pass it too, each at the same cost.
class BoundPassed : public Error {
 public:
  using Error::Error;
};

class Meter {
 public:
  explicit Meter(std::string origin, Limits limits = {}) : origin_(std::move(origin)), limits_(limits) {}

  // Throws BoundPassed, as read, visit and make do.
  void step(int64_t count = 1) {
    if ((steps_ += count) > limits_.steps) fail_bound("takes", limits_.steps, "steps");
  }
  void read(size_t bytes) { step(1 + static_cast<int64_t>(bytes / 16)); }  // of text that is searched or compared
  // Of text whose characters are looked up or rewritten one by one, which takes some 20 ns each and, as code points,
  // four times its memory.
  void visit(size_t bytes);
  void make(size_t bytes);
  // One level of statements, expressions and macros while it lives.
  class Level {
   public:
    explicit Level(Meter& meter) : meter_(meter) { meter.enter(); }
    ~Level() { --meter_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Meter& meter_;
  };

  int64_t steps() const { return steps_; }  // taken so far
  void stand_at(int line) { line_ = line; }
  int line() const { return line_; }
  const std::string& origin() const { return origin_; }
  [[noreturn]] void fail(const std::string& what) const;

 private:
  void enter();
  [[noreturn]] void fail_bound(const char* does, int64_t limit, const char* of) const;

  std::string origin_;
  Limits limits_;
  int64_t steps_ = 0, bytes_ = 0, depth_ = 0;
  int line_ = 1;
};

// A text that an untrusted template wrote, as part of a message: its start, not cut inside a character.
std::string shortened(const std::string& text);
// An error of a template: "origin:line: what".
[[noreturn]] void fail_at(const std::string& origin, int line, const std::string& what);

}  // namespace fathom::jinja
