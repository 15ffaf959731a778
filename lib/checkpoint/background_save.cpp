// One write at a time, as a future.
#include "checkpoint/background_save.h"

#include <c10/util/Exception.h>
#include <pthread.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <utility>

#include "base/log.h"
#include "base/seconds_since.h"
#include "base/system_error.h"

namespace fathom::checkpoint {
namespace {

// Signals are for the thread that trains: none should interrupt a write.
void block_signals() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

}  // namespace

BackgroundSave::~BackgroundSave() {
  wait_until_written();
  try {
    take_finished();
  } catch (const std::exception& error) {
    log_error(message_of(error));
  }
}

void BackgroundSave::start(Write write) {
  TORCH_INTERNAL_ASSERT(!written_.valid(), "one save at a time");
  // A write that throws breaks the promise, which lets go of the state as well.
  auto read = std::make_unique<std::promise<void>>();
  state_was_read_ = read->get_future();
  written_ = std::async(std::launch::async, [write = std::move(write), read = std::move(read)]() mutable {
    block_signals();
    const auto begin = std::chrono::steady_clock::now();
    const auto own_write = std::exchange(write, nullptr);  // what it holds is freed here, before it is asked for
    const auto promise = std::move(read);
    Finished finished;
    finished.folder = own_write([&] { promise->set_value(); });
    finished.seconds = seconds_since(begin);
    return finished;
  });
}

bool BackgroundSave::ends_within(std::chrono::milliseconds time) const {
  return !written_.valid() || written_.wait_for(time) == std::future_status::ready;
}

void BackgroundSave::wait_until_read() const {
  if (state_was_read_.valid()) state_was_read_.wait();
}

void BackgroundSave::wait_until_written() const {
  if (written_.valid()) written_.wait();
}

std::optional<BackgroundSave::Finished> BackgroundSave::take_finished() {
  if (!written_.valid() || !ends_within(std::chrono::milliseconds(0))) return std::nullopt;
  return written_.get();
}

}  // namespace fathom::checkpoint
