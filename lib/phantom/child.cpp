// One child process: spawned with pipes, fed, listened to, and waited for until a deadline.
#include "phantom/child.h"

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

#include "base/error.h"

namespace fathom::phantom {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kLargestAnswerBytes = size_t{64} << 20;
constexpr size_t kStderrBytes = 2000;  // of its end that an error shows

std::string system_reason() { return std::strerror(errno); }

// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int value = -1) : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~Descriptor() { close(); }
  int get() const { return value_; }
  bool is_open() const { return value_ >= 0; }
  void close() {
    if (value_ >= 0) ::close(std::exchange(value_, -1));
  }

 private:
  int value_;
};

// Two connected ends: ours, and the child's. Sockets and not pipes: writing to a child that has died must be an error
// code (MSG_NOSIGNAL), not SIGPIPE.
std::array<Descriptor, 2> connect_pair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw Error("no socket pair for a child process: " + system_reason());
  }
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

class Child {
 public:
  Child(const std::filesystem::path& program, const std::vector<std::string>& arguments) : name_(program.filename()) {
    auto [in, child_in] = connect_pair();
    auto [out, child_out] = connect_pair();
    auto [log, child_log] = connect_pair();
    const std::string path = program.string();
    std::vector<char*> argv = {const_cast<char*>(path.c_str())};
    for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);

    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, child_in.get(), STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, child_out.get(), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, child_log.get(), STDERR_FILENO);
    const int error = posix_spawn(&pid_, path.c_str(), &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) throw Error("the child process " + path + " cannot be started: " + std::strerror(error));
    in_ = std::move(in);
    out_ = std::move(out);
    log_ = std::move(log);
  }

  ~Child() {
    if (ended_) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, &status_, 0);
  }

  // Sends the request and reads until the child has closed its outputs. False: the deadline came first.
  bool talk(std::string_view request, Clock::time_point deadline) {
    while (out_.is_open() || log_.is_open()) {
      std::array<pollfd, 3> waiting = {pollfd{in_.get(), POLLOUT, 0}, pollfd{out_.get(), POLLIN, 0},
                                       pollfd{log_.get(), POLLIN, 0}};
      const int ready = poll(waiting.data(), waiting.size(), milliseconds_until(deadline));
      if (ready < 0 && errno != EINTR) throw Error("waiting for a child process failed: " + system_reason());
      if (ready == 0) return false;
      if (ready < 0) continue;
      if (waiting[0].revents != 0) send_some(request);
      if (waiting[1].revents != 0) receive_some(out_, answer_);
      if (waiting[2].revents != 0) receive_some(log_, errors_);
      if (answer_.size() > kLargestAnswerBytes) {
        throw Error("the child process " + name_ + " answered more than 64 MiB" + last_words());
      }
      if (errors_.size() > 2 * kStderrBytes) errors_.erase(0, errors_.size() - kStderrBytes);
    }
    return true;
  }

  // Waits for the end. False: the deadline came first.
  bool wait(Clock::time_point deadline) {
    while (true) {
      const pid_t result = waitpid(pid_, &status_, WNOHANG);
      if (result == pid_) return ended_ = true;
      if (result < 0 && errno != EINTR) throw Error("waiting for a child process failed: " + system_reason());
      if (Clock::now() >= deadline) return false;
      usleep(1000);
    }
  }

  void expect_success() const {
    if (WIFSIGNALED(status_)) {
      throw Error("the child process " + name_ + " was killed by signal " + std::to_string(WTERMSIG(status_)) + " (" +
                  strsignal(WTERMSIG(status_)) + ")" + last_words());
    }
    if (WEXITSTATUS(status_) != 0) {
      throw Error("the child process " + name_ + " failed with exit status " + std::to_string(WEXITSTATUS(status_)) +
                  last_words());
    }
  }

  const std::string& name() const { return name_; }
  const std::string& answer() const { return answer_; }
  std::string last_words() const {
    const size_t start = errors_.size() > kStderrBytes ? errors_.size() - kStderrBytes : 0;
    return errors_.empty() ? "" : "; it said:\n" + errors_.substr(start);
  }

 private:
  static int milliseconds_until(Clock::time_point deadline) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    return static_cast<int>(std::clamp<int64_t>(left, 0, 1 << 30));
  }

  void send_some(std::string_view request) {
    const ssize_t sent = send(in_.get(), request.data() + sent_, request.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) sent_ += static_cast<size_t>(sent);
    // A child that does not read its request may still answer; one that has died shows in its exit status.
    const bool gone = sent < 0 && errno != EAGAIN && errno != EINTR;
    if (gone || sent_ == request.size()) in_.close();
  }

  static void receive_some(Descriptor& from, std::string& into) {
    std::array<char, 16384> buffer;
    const ssize_t received = recv(from.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (received > 0) into.append(buffer.data(), static_cast<size_t>(received));
    if (received == 0 || (received < 0 && errno != EAGAIN && errno != EINTR)) from.close();
  }

  std::string name_;
  pid_t pid_ = -1;
  int status_ = 0;
  bool ended_ = false;
  Descriptor in_, out_, log_;
  size_t sent_ = 0;
  std::string answer_, errors_;
};

}  // namespace

std::filesystem::path this_program() { return std::filesystem::read_symlink("/proc/self/exe"); }

Json run_child(const std::filesystem::path& program, const std::vector<std::string>& arguments, const Json& request,
               std::chrono::milliseconds timeout) {
  const Clock::time_point deadline = Clock::now() + timeout;
  Child child(program, arguments);
  if (!child.talk(request.dump() + "\n", deadline) || !child.wait(deadline)) {
    throw Error("the child process " + child.name() + " did not answer within " + std::to_string(timeout.count()) +
                " ms and was stopped" + child.last_words());
  }
  child.expect_success();
  try {
    return parse_json(child.answer(), "the answer of the child process " + child.name());
  } catch (const Error& error) {
    throw Error(error.what() + child.last_words());
  }
}

}  // namespace fathom::phantom
