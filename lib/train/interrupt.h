// SIGINT and SIGTERM as a question the loop asks once a step; a second signal ends the process at once.
#pragma once

namespace fathom::train {

// Installs the handlers for the lifetime of the object and restores the previous ones afterwards. One at a time.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  // 0, or the signal that asked the run to stop.
  int signal() const;
};

}  // namespace fathom::train
