// Child processes: spawned with sockets, fed, listened to, and waited for until a deadline.
#include "phantom_gpu/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/json_value.h"

namespace fathom::phantom_gpu {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kLargestAnswerBytes = size_t{256} << 20;
constexpr size_t kStderrBytes = 2000;  // of its end that an error shows

std::string system_reason() { return std::strerror(errno); }

// Two connected ends: ours, and the child's. Sockets and not pipes: writing to a child that has died must be an error
// code (MSG_NOSIGNAL), not SIGPIPE.
std::array<Descriptor, 2> connect_pair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw Error("no socket pair for a child process: " + system_reason());
  }
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

int milliseconds_until(Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 1 << 30));
}

void receive_some(Descriptor& from, std::string& into) {
  std::array<char, 65536> buffer;
  const ssize_t received = recv(from.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (received > 0) into.append(buffer.data(), static_cast<size_t>(received));
  if (received == 0 || (received < 0 && errno != EAGAIN && errno != EINTR)) from.close();
}

}  // namespace

struct Child::State {
  State(const std::filesystem::path& program, const std::vector<std::string>& arguments) : name(program.filename()) {
    auto [our_in, child_in] = connect_pair();
    auto [our_out, child_out] = connect_pair();
    auto [our_log, child_log] = connect_pair();
    const std::string path = program.string();
    std::vector<char*> argv = {const_cast<char*>(path.c_str())};
    for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);

    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, child_in.get(), STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, child_out.get(), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, child_log.get(), STDERR_FILENO);
    const int error = posix_spawn(&pid, path.c_str(), &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) throw Error("the child process " + path + " cannot be started: " + std::strerror(error));
    in = std::move(our_in);
    out = std::move(our_out);
    log = std::move(our_log);
  }

  ~State() { end(); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  // What the child should have said by when.
  enum class Until { kLine, kEnd };

  // Sends the request and reads until the child has said a line, or closed its outputs. False: the deadline came first.
  bool talk(std::string_view request, Until until, Clock::time_point deadline) {
    size_t sent = 0;
    while (out.is_open() || log.is_open()) {
      if (until == Until::kLine && answer.find('\n') != std::string::npos) return true;
      const bool sending = sent < request.size() && in.is_open();
      if (!sending && until == Until::kEnd) in.close();
      std::array<pollfd, 3> waiting = {pollfd{sending ? in.get() : -1, POLLOUT, 0}, pollfd{out.get(), POLLIN, 0},
                                       pollfd{log.get(), POLLIN, 0}};
      const int ready = poll(waiting.data(), waiting.size(), milliseconds_until(deadline));
      if (ready < 0 && errno != EINTR) throw Error("waiting for a child process failed: " + system_reason());
      if (ready == 0) return false;
      if (ready < 0) continue;
      if (waiting[0].revents != 0) sent += send_some(request.substr(sent));
      if (waiting[1].revents != 0) receive_some(out, answer);
      if (waiting[2].revents != 0) receive_some(log, errors);
      if (answer.size() > kLargestAnswerBytes) {
        throw Error("the child process " + name + " answered more than 256 MiB" + last_words());
      }
      if (errors.size() > 2 * kStderrBytes) errors.erase(0, errors.size() - kStderrBytes);
    }
    return true;
  }

  // A child that does not read its request may still answer; one that has died shows in its exit status.
  size_t send_some(std::string_view rest) {
    const ssize_t sent = send(in.get(), rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) in.close();
    return sent > 0 ? static_cast<size_t>(sent) : 0;
  }

  // Waits for the end. False: the deadline came first.
  bool wait(Clock::time_point deadline) {
    while (!ended) {
      const pid_t result = waitpid(pid, &status, WNOHANG);
      if (result < 0 && errno != EINTR) throw Error("waiting for a child process failed: " + system_reason());
      ended = result == pid;
      if (!ended && Clock::now() >= deadline) return false;
      if (!ended) usleep(1000);
    }
    return true;
  }

  void end() {
    if (ended) return;
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    ended = true;
  }

  // How it ended, for a child that should not have; empty for one that ended well.
  std::string failure() const {
    if (WIFSIGNALED(status)) {
      return "was killed by signal " + std::to_string(WTERMSIG(status)) + " (" + strsignal(WTERMSIG(status)) + ")";
    }
    return WEXITSTATUS(status) == 0 ? "" : "failed with exit status " + std::to_string(WEXITSTATUS(status));
  }

  Error error(const std::string& what) const { return Error("the child process " + name + " " + what + last_words()); }
  Error late(std::chrono::milliseconds timeout) const {
    return error("did not answer within " + std::to_string(timeout.count()) + " ms and was stopped");
  }
  std::string last_words() const {
    const size_t start = errors.size() > kStderrBytes ? errors.size() - kStderrBytes : 0;
    return errors.empty() ? "" : "; it said:\n" + errors.substr(start);
  }
  Json parsed(std::string_view text) const {
    try {
      return parse_json(text, "the answer of the child process " + name, SIZE_MAX);  // of this program
    } catch (const Error& wrong) {
      throw Error(wrong.what() + last_words());
    }
  }

  // The line that answers `request`.
  Json ask(const Json& request, std::chrono::milliseconds timeout) {
    if (ended) throw error("has ended");
    errors.clear();
    if (out.is_open()) receive_some(out, answer);
    if (!answer.empty()) throw error("said something that nobody had asked for");
    const Clock::time_point deadline = Clock::now() + timeout;
    if (!talk(request.dump() + "\n", Until::kLine, deadline)) throw late(timeout);
    const size_t line = answer.find('\n');
    if (line == std::string::npos) {
      if (!wait(deadline)) throw late(timeout);
      throw error(failure().empty() ? "ended without an answer" : failure());
    }
    if (line + 1 != answer.size()) throw error("said more than one line");
    return parsed(std::exchange(answer, {}));
  }

  std::string name;
  pid_t pid = -1;
  int status = 0;
  bool ended = false;
  Descriptor in, out, log;
  std::string answer, errors;
};

std::filesystem::path this_program() { return std::filesystem::read_symlink("/proc/self/exe"); }

Child::Child(const std::filesystem::path& program, const std::vector<std::string>& arguments)
    : state_(std::make_unique<State>(program, arguments)) {}
Child::~Child() = default;

Json Child::ask(const Json& request, std::chrono::milliseconds timeout) {
  try {
    return state_->ask(request, timeout);
  } catch (...) {
    state_->end();  // what it would still say belongs to no question
    throw;
  }
}

bool Child::is_alive() { return !state_->wait(Clock::now()); }

Json run_child(const std::filesystem::path& program, const std::vector<std::string>& arguments, const Json& request,
               std::chrono::milliseconds timeout) {
  const Clock::time_point deadline = Clock::now() + timeout;
  Child::State child(program, arguments);
  if (!child.talk(request.dump() + "\n", Child::State::Until::kEnd, deadline) || !child.wait(deadline)) {
    throw child.late(timeout);
  }
  if (!child.failure().empty()) throw child.error(child.failure());
  return child.parsed(child.answer);
}

}  // namespace fathom::phantom_gpu
