// Signal handlers that only set flags.
#include "train/interrupt.h"

#include <unistd.h>

#include <array>
#include <csignal>
#include <cstddef>

namespace fathom::train {
namespace {

constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP, SIGPIPE};

volatile std::sig_atomic_t received = 0, asked_to_end = 0;
std::array<struct sigaction, kSignals.size()> previous;

extern "C" void on_signal(int signal) {
  if (signal == SIGINT || signal == SIGTERM) {
    if (asked_to_end != 0) _exit(128 + signal);
    asked_to_end = 1;
  }
  if (received == 0) received = signal;
}

}  // namespace

Interrupt::Interrupt() {
  received = 0;
  asked_to_end = 0;
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;  // a save in progress must not fail half-way
  for (size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &previous[i]);
    const bool may_be_ignored = kSignals[i] == SIGHUP || kSignals[i] == SIGPIPE;
    if (!may_be_ignored || previous[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &action, nullptr);
  }
}

Interrupt::~Interrupt() {
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &previous[i], nullptr);
}

int Interrupt::signal() const { return received; }

}  // namespace fathom::train
