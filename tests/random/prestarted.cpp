// `fathom` with LibTorch already loaded, for tests that run many command lines: a server, each of whose forks is one
// process of the program, from a clean start and with an end of its own.
//
// usage: prestarted_fathom cpu|GPU SOCKET      GPU: a name in configs/gpus.yaml, which all of the forks pretend
//
// A line of stdin is a request, {"arguments", "folder", "output", "errors", "seconds"}: the command line, where it
// runs, the files of its stdout and stderr, its time limit. A line of stdout is how it ended, {"status", "signal",
// "late", "seconds", "resident_bytes"}. A run that starts children of this program (app/run/phantom_children.h) gets
// forks of the server too: they hand their command line and files over through SOCKET.
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
#include <optional>

#include "app/exit_status.h"
#include "app/installation.h"
#include "app/loader.h"
#include "app/words/command_line.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/json_value.h"
#include "phantom_gpu/gpu.h"

namespace fathom::random {
namespace {

using Clock = std::chrono::steady_clock;
using Strings = std::vector<std::string>;

constexpr const char* kSocket = "FATHOM_PRESTARTED_SOCKET";

int checked(int result, const char* what) {
  if (result < 0) throw Error(std::string(what) + ": " + std::strerror(errno));
  return result;
}

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) throw Error("the socket's path is too long: " + path);
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

// For which load_engine loads everything that the forks need; it is never run.
class Everything final : public app::Invocation {
 public:
  explicit Everything(const std::string& on) : Invocation("") {
    if (on == "cpu") return;
    device = config::Device::kCuda;
    phantom_gpu = config::find_gpu(config::load_gpus(app::gpus_file()), on);
    phantom_gpu->memory_bytes = phantom_gpu::kUnlimitedBytes;  // each fork pretends what it is asked for
  }
  std::vector<app::Option> options() override { return {}; }
};

// As main.cpp runs a command, but for the loading.
int run(app::EngineMain* engine, const Strings& arguments) {
  try {
    std::vector<const char*> words = {"fathom"};
    for (const std::string& argument : arguments) words.push_back(argument.c_str());
    const app::Parsed parsed = app::parse_command_line(static_cast<int>(words.size()), words.data());
    auto* invocation = dynamic_cast<app::Invocation*>(parsed.command.get());
    if (invocation == nullptr) throw UsageError("only commands of the engine can run here");
    // Attention over lengths, which a run without a trace measures at its end for its page, takes longer than the run.
    if (invocation->device == config::Device::kCpu) invocation->trace = "none";
    const auto& gpu = invocation->phantom_gpu;
    if (gpu) phantom_gpu::pretend(gpu->memory_bytes, 0, invocation->placement);
    return engine(*invocation);
  } catch (const std::exception& error) {
    return app::report_failure(error);
  }
}

[[noreturn]] void run_and_exit(app::EngineMain* engine, const Strings& arguments) {
  const int status = run(engine, arguments);
  std::cout.flush();
  std::fflush(nullptr);
  ::_exit(status);
}

void put(const std::string& file, int descriptor) {
  const Descriptor opened(checked(::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644), file.c_str()));
  checked(::dup2(opened.get(), descriptor), "dup2");
}

struct Fork {
  pid_t pid = -1;
  Descriptor handle;  // becomes readable when the process has ended
};

// body must not return.
Fork fork_into(const std::function<void()>& body) {
  const pid_t pid = checked(::fork(), "fork");
  if (pid == 0) {
    try {
      ::setpgid(0, 0);
      body();
    } catch (const std::exception& error) {
      std::cerr << error.what() << std::endl;
    }
    ::_exit(1);
  }
  ::setpgid(pid, pid);
  return {pid, Descriptor(checked(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)), "pidfd_open"))};
}

constexpr size_t kLargestRequest = 1 << 16;

using Files = std::array<int, 3>;  // stdin, stdout and stderr

// A text with files beside it, for sendmsg and recvmsg; the text must outlive it.
struct Message {
  explicit Message(std::string& text) : part{text.data(), text.size()} {
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
  }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

  iovec part;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(Files))> control{};
  msghdr header{};
};

// A child's command line and folder, and its files, over a connection.
Json receive_child(int connection, Files& files) {
  std::string text(kLargestRequest, '\0');
  Message message(text);
  text.resize(static_cast<size_t>(checked(static_cast<int>(::recvmsg(connection, &message.header, 0)), "recvmsg")));
  const cmsghdr* header = CMSG_FIRSTHDR(&message.header);
  if (header == nullptr) throw Error("a child came without files");
  std::memcpy(files.data(), CMSG_DATA(header), sizeof files);
  return parse_json(text, "a child's request");
}

// The other side of it, in a process that loads nothing; waits for the end of the fork that runs the command line.
int hand_over(const char* path, const Strings& arguments) {
  const Descriptor connection(checked(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), "socket"));
  const sockaddr_un address = address_of(path);
  checked(::connect(connection.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), path);
  std::string text = Json{{"arguments", arguments}, {"folder", std::filesystem::current_path().string()}}.dump();
  const Files files = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO};
  Message message(text);
  cmsghdr* header = CMSG_FIRSTHDR(&message.header);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof files);
  std::memcpy(CMSG_DATA(header), files.data(), sizeof files);
  checked(static_cast<int>(::sendmsg(connection.get(), &message.header, 0)), "sendmsg");
  for (const int file : files) ::close(file);  // whose end is the fork's to tell
  char status = 1;
  return ::recv(connection.get(), &status, 1, 0) == 1 ? status : 1;
}

class Server {
 public:
  Server(app::EngineMain* engine, std::string socket) : engine_(engine), socket_(std::move(socket)) {
    const sockaddr_un address = address_of(socket_);
    listener_ = Descriptor(checked(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), "socket"));
    checked(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), socket_.c_str());
    checked(::listen(listener_.get(), 16), "listen");
    ::setenv(kSocket, socket_.c_str(), /*overwrite=*/1);
  }

  Json answer(const Json& request) {
    const auto start = Clock::now();
    const auto deadline =
        start + std::chrono::milliseconds(static_cast<int64_t>(1000 * request.at("seconds").get<double>()));
    const Fork fork = fork_into([&] {
      close_ours();
      std::filesystem::current_path(request.at("folder").get<std::string>());
      checked(::dup2(Descriptor(::open("/dev/null", O_RDONLY)).get(), STDIN_FILENO), "dup2");
      put(request.at("output"), STDOUT_FILENO);
      put(request.at("errors"), STDERR_FILENO);
      run_and_exit(engine_, request.at("arguments").get<Strings>());
    });
    bool late = false;
    while (!serve_until_end_of(fork, late ? std::nullopt : std::optional(deadline))) {
      late = true;
      ::kill(-fork.pid, SIGKILL);
    }
    int status = 0;
    rusage usage{};
    ::wait4(fork.pid, &status, 0, &usage);
    ::kill(-fork.pid, SIGKILL);  // children that it left behind
    return {{"status", WIFEXITED(status) ? WEXITSTATUS(status) : -1},
            {"signal", WIFSIGNALED(status) ? WTERMSIG(status) : 0},
            {"late", late},
            {"seconds", std::chrono::duration<double>(Clock::now() - start).count()},
            {"resident_bytes", int64_t{usage.ru_maxrss} * 1024}};
  }

 private:
  struct Child {
    Fork fork;
    Descriptor connection;  // to the process in whose place it runs
  };

  void close_ours() {
    children_.clear();
    listener_.close();
  }

  // Looks after the children meanwhile. False: the deadline came first.
  bool serve_until_end_of(const Fork& fork, std::optional<Clock::time_point> deadline) {
    while (true) {
      std::vector<pollfd> waiting = {{fork.handle.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
      for (const Child& child : children_) {
        waiting.push_back({child.fork.handle.get(), POLLIN, 0});
        waiting.push_back({child.connection.get(), POLLIN | POLLHUP, 0});
      }
      int patience = -1;
      if (deadline) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - Clock::now()).count();
        if (left <= 0) return false;
        patience = static_cast<int>(left);
      }
      ::poll(waiting.data(), waiting.size(), patience);
      for (size_t i = children_.size(); i-- > 0;) {
        if (waiting[2 * i + 2].revents != 0) {
          end(i);
        } else if (waiting[2 * i + 3].revents != 0) {  // nobody waits for it any more
          ::kill(children_[i].fork.pid, SIGKILL);
        }
      }
      if (waiting[0].revents != 0) return true;
      if (waiting[1].revents != 0) accept();
    }
  }

  void accept() {
    Descriptor connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!connection.is_open()) return;
    Files files{};
    const Json request = receive_child(connection.get(), files);
    Fork fork = fork_into([&] {
      connection.close();
      close_ours();
      for (int i = 0; i < 3; ++i) checked(::dup2(files[static_cast<size_t>(i)], i), "dup2");
      for (const int file : files) ::close(file);
      std::filesystem::current_path(request.at("folder").get<std::string>());
      run_and_exit(engine_, request.at("arguments").get<Strings>());
    });
    for (const int file : files) ::close(file);
    children_.push_back({std::move(fork), std::move(connection)});
  }

  void end(size_t index) {
    Child child = std::move(children_[index]);
    children_.erase(children_.begin() + static_cast<std::ptrdiff_t>(index));
    int status = 0;
    ::waitpid(child.fork.pid, &status, 0);
    const char exited = WIFEXITED(status) ? static_cast<char>(WEXITSTATUS(status)) : char{1};
    ::send(child.connection.get(), &exited, 1, MSG_NOSIGNAL);
  }

  app::EngineMain* engine_;
  std::string socket_;
  Descriptor listener_;
  std::vector<Child> children_;
};

int serve(const std::string& device, const std::string& socket) {
  ::setenv("GOMP_SPINCOUNT", "0", /*overwrite=*/0);  // threads that spin take the cores from whoever else tests here
  Server server(app::load_engine(Everything(device)), socket);
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << server.answer(parse_json(line, "stdin")).dump() << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace fathom::random

int main(int count, char** arguments) try {
  const char* socket = std::getenv("FATHOM_PRESTARTED_SOCKET");
  if (socket != nullptr) return fathom::random::hand_over(socket, {arguments + 1, arguments + count});
  if (count != 3) throw fathom::UsageError("usage: prestarted_fathom cpu|GPU SOCKET");
  return fathom::random::serve(arguments[1], arguments[2]);
} catch (const std::exception& error) {
  std::cerr << error.what() << std::endl;
  return 1;
}
