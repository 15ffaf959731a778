// fork and exec before any thread exists.
#include "launch/command.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
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

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kToEnd{5};  // that a process has after it was asked to

struct Running {
  pid_t number = 0, parent = 0;
  std::string name;
};

// By the line of /proc/N/stat: "N (name) state parent …". nullopt: it has ended.
std::optional<Running> running(pid_t number) try {
  const std::string line = read_file("/proc/" + std::to_string(number) + "/stat");
  const size_t begin = line.find('('), end = line.rfind(')');
  char state = 0;
  int parent = 0;
  if (end == std::string::npos || std::sscanf(line.c_str() + end + 1, " %c %d", &state, &parent) != 2) return {};
  if (state == 'Z' || state == 'X') return {};
  return Running{number, parent, line.substr(begin + 1, end - begin - 1)};
} catch (const Error&) {
  return {};
}

std::vector<Running> children() {
  std::vector<Running> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const int number = std::atoi(entry.path().filename().c_str());
    const std::optional<Running> process = number > 0 ? running(number) : std::nullopt;
    if (process && process->parent == ::getpid()) found.push_back(*process);
  }
  return found;
}

// Those that have ended are taken leave of. False: there is none left.
bool has_children() {
  pid_t ended = 0;
  while ((ended = ::waitpid(-1, nullptr, WNOHANG)) > 0) {
  }
  return ended == 0;
}

void rest() {
  constexpr timespec kPause{0, 20'000'000};
  ::nanosleep(&kPause, nullptr);
}

// The command's children are this process's since it has ended, and theirs become so as they are ended.
std::vector<std::string> end_children() {
  std::vector<std::string> ended;
  const Clock::time_point begin = Clock::now();
  for (std::set<pid_t> asked; has_children(); rest()) {
    const bool kills = Clock::now() - begin > kToEnd;
    for (const auto& [number, parent, name] : children()) {
      if (asked.insert(number).second) {
        ended.push_back("process " + std::to_string(number) + " (" + name + ")");
        ::kill(number, SIGTERM);
        ::kill(number, SIGCONT);
      }
      if (kills) ::kill(number, SIGKILL);
    }
  }
  return ended;
}

std::vector<std::string> wait_for_children(const std::function<bool()>& awaits, std::chrono::seconds patience) {
  Clock::time_point ends_at = Clock::now() + patience;
  bool has_told = false;
  const auto is_awaited = [&] {
    try {
      return awaits();
    } catch (...) {
      end_children();
      throw;
    }
  };
  while (asked_to_stop == 0 && has_children()) {
    if (is_awaited()) {
      ends_at = Clock::now() + patience;
      if (!has_told) log_info("the command has ended; waiting for a process that it has left behind");
      has_told = true;
    } else if (Clock::now() > ends_at) {
      break;
    }
    rest();
  }
  return end_children();
}

}  // namespace

bool is_running(int64_t process) { return running(static_cast<pid_t>(process)).has_value(); }

Ended run_command(const std::vector<std::string>& words, const std::map<std::string, std::string>& variables,
                  const std::function<bool()>& awaits, std::chrono::seconds patience) {
  int ends[2];  // through which the child says why it could not become the program; closed when it has
  if (::pipe2(ends, O_CLOEXEC) != 0) throw not_started(words.front(), errno);
  Descriptor hears(ends[0]), says(ends[1]);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
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
  return {exit_code(status), wait_for_children(awaits, patience)};
}

}  // namespace fathom::launch
