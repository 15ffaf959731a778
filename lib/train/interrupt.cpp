// Signal handlers that only set a flag.
#include "train/interrupt.h"

#include <unistd.h>

#include <csignal>

namespace fathom::train {
namespace {

volatile std::sig_atomic_t received = 0;
struct sigaction previous_int, previous_term;

extern "C" void on_signal(int signal) {
  if (received != 0) _exit(128 + signal);
  received = signal;
}

}  // namespace

Interrupt::Interrupt() {
  received = 0;
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;  // a save in progress must not fail half-way
  sigaction(SIGINT, &action, &previous_int);
  sigaction(SIGTERM, &action, &previous_term);
}

Interrupt::~Interrupt() {
  sigaction(SIGINT, &previous_int, nullptr);
  sigaction(SIGTERM, &previous_term, nullptr);
}

int Interrupt::signal() const { return received; }

}  // namespace fathom::train
