// The signals that end a run in order, as a question the loop asks once a step.
#pragma once

namespace fathom::train {

// SIGINT and SIGTERM; SIGHUP, which says that the terminal is gone, and SIGPIPE, that nobody reads what is printed any
// more, unless they were ignored before (nohup). A second SIGINT or SIGTERM ends the process at once; the others may
// come with them, and again. Installs the handlers for the lifetime of the object and restores the previous ones
// afterwards. One at a time.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  // 0, or the first signal that asked the run to stop.
  int signal() const;
};

}  // namespace fathom::train
