// A checkpoint written by a thread of its own while the training goes on: one at a time, in order.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <optional>

namespace fathom::checkpoint {

// Forward and backward passes only read the state; the optimizer's update changes it. So the thread reads the tensors
// where they lie, nothing is copied aside, and training waits only if it comes to the update before the last byte of
// the state has been handed to the file system. Called by one thread, that of the training.
class BackgroundSave {
 public:
  struct Finished {
    std::filesystem::path folder;
    double seconds = 0;  // from the start of the write to its end
  };
  // Writes a checkpoint and returns its path; calls what it is given once the state may change again.
  using Write = std::function<std::filesystem::path(const std::function<void()>& state_was_read)>;

  BackgroundSave() = default;
  BackgroundSave(const BackgroundSave&) = delete;
  BackgroundSave& operator=(const BackgroundSave&) = delete;
  // Waits for the write; a failure that nobody has heard of is logged.
  ~BackgroundSave();

  // Starts a write; the one before must have been taken.
  void start(Write write);
  // Whether no write goes on any more, after so long at most.
  bool ends_within(std::chrono::milliseconds time) const;
  // Return once the state may change, and once the write has ended.
  void wait_until_read() const;
  void wait_until_written() const;
  // The checkpoint that has become whole since the last call. Throws what its write threw.
  std::optional<Finished> take_finished();

 private:
  std::future<void> state_was_read_;
  std::future<Finished> written_;
};

}  // namespace fathom::checkpoint
