// fork and exec before any thread exists. On one machine the store's port is bound here, so that nobody can take it in
// between; over several rank 0 listens where the others have been told.
#include "launch/start.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/log.h"
#include "base/system_error.h"
#include "launch/child.h"

namespace fathom::launch {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kToTell{5};  // that the others have when one has failed

volatile std::sig_atomic_t signal_to_ranks = 0;
void ask_to_stop(int signal) { signal_to_ranks = signal; }

struct Socket {
  Descriptor descriptor;
  int port = 0;
};

Error no_port(const char* what) {
  return Error(std::string("the processes of the run cannot find each other: ") + what + ": " + std::strerror(errno),
               remedy_for(errno));
}

// On the loopback address, at a port that the system chooses; children inherit it.
Socket listen_on_loopback() {
  Socket listening{Descriptor(::socket(AF_INET, SOCK_STREAM, 0))};
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* any = reinterpret_cast<sockaddr*>(&address);
  if (!listening.descriptor.is_open()) throw no_port("socket");
  if (::bind(listening.descriptor.get(), any, size) != 0) throw no_port("bind");
  if (::listen(listening.descriptor.get(), SOMAXCONN) != 0) throw no_port("listen");
  if (::getsockname(listening.descriptor.get(), any, &size) != 0) throw no_port("getsockname");
  listening.port = ntohs(address.sin_port);
  return listening;
}

// In the child.
[[noreturn]] void join(int64_t local_rank, const Node& node, const std::optional<Socket>& socket,
                       const std::vector<std::string>& arguments) {
  const auto tell = [](const char* variable, const std::string& value) { ::setenv(variable, value.c_str(), 1); };
  tell("RANK", std::to_string(node.first_rank + local_rank));
  tell("LOCAL_RANK", std::to_string(local_rank));
  tell("WORLD_SIZE", std::to_string(node.size));
  tell("LOCAL_WORLD_SIZE", std::to_string(node.processes));
  tell("MASTER_ADDR", node.address);
  tell("MASTER_PORT", std::to_string(socket ? socket->port : node.port));
  if (socket && local_rank == 0) {
    tell("FATHOM_STORE_SOCKET", std::to_string(socket->descriptor.get()));
  } else if (socket) {
    ::close(socket->descriptor.get());
  }
  become("/proc/self/exe", arguments);
  ::_exit(127);
}

class Children {
 public:
  Children(const Node& node, const std::vector<std::string>& arguments) : first_rank_(node.first_rank) {
    std::optional<Socket> socket;
    if (node.port == 0) socket = listen_on_loopback();
    for (int64_t local_rank = 0; local_rank < node.processes; ++local_rank) {
      const pid_t child = ::fork();
      if (child == 0) join(local_rank, node, socket, arguments);
      if (child < 0) {
        const int why = errno;
        signal_all(SIGKILL);
        throw Error("process " + std::to_string(local_rank) + " of " + std::to_string(node.processes) +
                        " cannot be started: " + std::strerror(why),
                    remedy_for(why));
      }
      running_.push_back(child);
    }
  }

  int wait() {
    for (size_t left = running_.size(); left > 0;) {
      if (signal_to_ranks != 0) {
        signal_all(signal_to_ranks);
        signal_to_ranks = 0;
      }
      if (ends_at_ && Clock::now() > *ends_at_) {
        signal_all(SIGKILL);
        ends_at_.reset();
      }
      int status = 0;
      const pid_t ended = ::waitpid(-1, &status, WNOHANG);
      if (ended > 0) {
        note(ended, status);
        --left;
      } else {
        constexpr timespec kPause{0, 20'000'000};
        ::nanosleep(&kPause, nullptr);
      }
    }
    return result_;
  }

 private:
  void note(pid_t ended, int status) {
    size_t local_rank = 0;
    while (running_[local_rank] != ended) ++local_rank;
    running_[local_rank] = 0;
    const bool killed = WIFSIGNALED(status);
    const int code = exit_code(status);
    // What fails by itself says why; what stops in order after a signal does so, too.
    if (code == 0 || result_ != 0) return;
    result_ = code;
    const int64_t rank = first_rank_ + static_cast<int64_t>(local_rank);
    if (killed) log_error("rank " + std::to_string(rank) + " was killed by signal " + std::to_string(WTERMSIG(status)));
    ends_at_ = Clock::now() + kToTell;
  }

  void signal_all(int signal) const {
    for (const pid_t child : running_) {
      if (child > 0) ::kill(child, signal);
    }
  }

  int64_t first_rank_;
  std::vector<pid_t> running_;  // by local ranks; 0: has ended
  int result_ = 0;
  std::optional<Clock::time_point> ends_at_;
};

}  // namespace

int start_processes(const Node& node, const std::vector<std::string>& arguments) {
  struct sigaction forward {};
  forward.sa_handler = ask_to_stop;
  for (const int signal : kStopSignals) ::sigaction(signal, &forward, nullptr);
  return Children(node, arguments).wait();
}

}  // namespace fathom::launch
