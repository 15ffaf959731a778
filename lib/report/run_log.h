// A file that a run appends to and its checkpoints know the length of: metrics.jsonl, TensorBoard's events.
#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/descriptor.h"

namespace fathom::report {

// Castagnoli's cyclic redundancy check, of bytes behind those whose check is `before`.
uint32_t crc32c(std::string_view bytes, uint32_t before = 0);

// What a checkpoint keeps of a log: its first bytes.
struct LogMark {
  int64_t bytes = 0;
  std::optional<uint32_t> check;  // their crc32c; unset: of an earlier version, which kept none
};

// Appends whole entries with one write each: a killed run leaves whole entries, or a tail that a resume cuts off. Once
// it is open, what cannot be written costs the log alone: it is told once, and `failure` keeps it.
class RunLog {
 public:
  // Cuts the file back to what the checkpoint knew of, because the steps after it are taken again. Where these bytes
  // are not there, the log begins anew, which a warning tells, and what else was there gets another name. Throws Error
  // where the file cannot be made or written.
  RunLog(std::filesystem::path path, const LogMark& kept);

  void append(std::string_view entry);
  // What stands first in an empty log, before the first step: throws Error where it cannot be written.
  void begin_with(std::string_view entry);
  LogMark mark() const { return mark_; }
  // Puts everything on the disk: called before a checkpoint with the mark is whole, by the thread that writes it.
  void sync();
  // What of it could not be written; empty: nothing.
  std::string failure() const;

 private:
  bool holds(const LogMark& kept);
  void begin_anew(const LogMark& kept);
  std::string try_append(std::string_view entry);  // why the entry is not there; empty: it is
  void lose(const std::string& why);
  bool is_there() const;

  std::filesystem::path path_;
  Descriptor file_;
  LogMark mark_;
  bool torn_ = false;           // an entry was written in part
  mutable std::mutex failing_;  // below
  int64_t losses_ = 0;
  std::string first_loss_;
};

}  // namespace fathom::report
