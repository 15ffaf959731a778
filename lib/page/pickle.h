// Writes Python's pickle format, protocol 2, as far as plain values need it: dicts, lists, texts, integers, None.
// The opcodes are those of Lib/pickletools.py; only ones that torch's MemoryViz.js knows too are used.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace fathom::page {

// Values are appended in order; within a dict a key and its value take turns. A text that was written before is
// recalled instead of repeated. Long lists and dicts are ended in batches, as Python does: readers unfold one at a
// time.
class PickleWriter {
 public:
  PickleWriter();
  void begin_dict();
  void end_dict();
  void begin_list();
  void end_list();
  void text(std::string_view value);  // UTF-8
  void integer(int64_t value);
  void none();

  void entry(std::string_view key, std::string_view value);
  void entry(std::string_view key, int64_t value);

  // Remembers the value that was just completed; `recall` writes the same object again, at its own place.
  uint32_t remember();
  void recall(uint32_t number);

  // The whole pickle; nothing may be open.
  std::string finish();

 private:
  std::string bytes_;
  std::unordered_map<std::string, uint32_t> texts_;
  uint32_t remembered_ = 0;
  struct Open {
    char end;         // the opcode that ends a batch
    int batched = 0;  // values since the last
  };
  void begin(char opcode, char end);
  void end(char end);
  void begin_value();
  std::vector<Open> open_;
};

}  // namespace fathom::page
