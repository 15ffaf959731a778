// fork and exec before any thread exists.
#include "launch/command.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/system_error.h"
#include "launch/child.h"

namespace fathom::launch {
namespace {

volatile std::sig_atomic_t child = 0, asked_to_stop = 0;
void pass_on(int signal) {
  asked_to_stop = signal;
  if (child > 0) ::kill(static_cast<pid_t>(child), signal);
}

// While alive, signals that ask to stop wait: until there is a child to have them.
class HeldSignals {
 public:
  HeldSignals() {
    sigset_t held;
    ::sigemptyset(&held);
    for (const int signal : kStopSignals) ::sigaddset(&held, signal);
    ::sigprocmask(SIG_BLOCK, &held, &before_);
  }
  ~HeldSignals() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

 private:
  sigset_t before_{};
};

Error not_started(const std::string& program, int why) {
  return Error("'" + program + "' cannot be started: " + std::strerror(why),
               why == ENOENT ? "give the command as in a shell: python train.py" : remedy_for(why));
}

}  // namespace

int run_command(const std::vector<std::string>& words, const std::map<std::string, std::string>& variables) {
  int ends[2];  // through which the child says why it could not become the program; closed when it has
  if (::pipe2(ends, O_CLOEXEC) != 0) throw not_started(words.front(), errno);
  Descriptor hears(ends[0]), says(ends[1]);
  pid_t started = 0;
  {
    std::optional<HeldSignals> held(std::in_place);
    struct sigaction forward {};
    forward.sa_handler = pass_on;
    forward.sa_flags = SA_RESTART;
    for (const int signal : kStopSignals) ::sigaction(signal, &forward, nullptr);
    if (asked_to_stop != 0) {
      throw Error("'" + words.front() + "' is not started: a signal has asked to stop (" + ::strsignal(asked_to_stop) +
                  ")");
    }
    started = ::fork();
    if (started < 0) throw not_started(words.front(), errno);
    if (started == 0) {
      for (const int signal : kStopSignals) ::signal(signal, SIG_DFL);
      held.reset();
      ::dup2(STDERR_FILENO, STDOUT_FILENO);
      for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), /*overwrite=*/1);
      become(words.front(), words);
      const int why = errno;
      const ssize_t said = ::write(says.get(), &why, sizeof why);
      ::_exit(said == sizeof why ? 127 : 126);
    }
    child = started;
  }
  says.close();
  int why = 0;
  const bool failed = ::read(hears.get(), &why, sizeof why) == sizeof why;
  int status = 0;
  while (::waitpid(started, &status, 0) < 0 && errno == EINTR) {
  }
  child = 0;
  if (failed) throw not_started(words.front(), why);
  return exit_code(status);
}

}  // namespace fathom::launch
