// Starts the servers and asks them.
#include "tests/random/program.h"

#include <sys/wait.h>

#include <cstdlib>

#include "base/error.h"
#include "base/file.h"
#include "base/json_value.h"

namespace fathom::random {

namespace fs = std::filesystem;

namespace {

constexpr std::chrono::minutes kPatience{15};

std::string read_if_there(const fs::path& path) { return fs::exists(path) ? read_file(path) : ""; }

}  // namespace

Programs::Server::~Server() {
  child.reset();
  std::error_code ignored;
  fs::remove_all(socket_folder, ignored);
}

phantom_gpu::Child& Programs::server_for(const std::string& device) {
  std::unique_ptr<Server>& server = device == "cpu" ? cpu_ : gpu_;
  if (server && server->device == device && server->child->is_alive()) return *server->child;
  server.reset();
  std::string pattern = (fs::temp_directory_path() / "fathom_prestarted_XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw Error("no temporary folder " + pattern);
  server = std::make_unique<Server>();
  server->device = device;
  server->socket_folder = pattern;
  const std::vector<std::string> arguments = {device, (server->socket_folder / "socket").string()};
  server->child = std::make_unique<phantom_gpu::Child>(program_, arguments);
  return *server->child;
}

Ended Programs::run_itself(const std::vector<std::string>& arguments, const fs::path& folder) const {
  const auto quoted = [](const std::string& word) { return "'" + word + "'"; };  // none has one
  std::string command = "cd " + quoted(folder.string()) + " && exec timeout -k 5 " + std::to_string(kMostSeconds) +
                        " " + quoted((program_.parent_path() / "fathom").string());
  for (const std::string& word : arguments) command += " " + quoted(word);
  command += " > stdout.txt 2> stderr.txt < /dev/null";
  const auto start = std::chrono::steady_clock::now();
  const int result = std::system(command.c_str());
  Ended ended;
  ended.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  ended.status = WIFEXITED(result) ? WEXITSTATUS(result) : -1;
  ended.signal = WIFSIGNALED(result) ? WTERMSIG(result) : ended.status > 128 ? ended.status - 128 : 0;
  constexpr int kTimedOut = 124;
  ended.late = ended.status == kTimedOut;
  ended.output = read_if_there(folder / "stdout.txt");
  ended.errors = read_if_there(folder / "stderr.txt");
  return ended;
}

Ended Programs::run(const std::string& device, const std::vector<std::string>& arguments, const fs::path& folder) {
  if (device == kOfSeveral) return run_itself(arguments, folder);
  const fs::path output = folder / "stdout.txt", errors = folder / "stderr.txt";
  const Json request = {{"arguments", arguments},
                        {"folder", folder.string()},
                        {"output", output.string()},
                        {"errors", errors.string()},
                        {"seconds", kMostSeconds}};
  const Json answer = server_for(device).ask(request, kPatience);
  Ended ended;
  ended.status = answer.at("status");
  ended.signal = answer.at("signal");
  ended.late = answer.at("late");
  ended.seconds = answer.at("seconds");
  ended.resident_bytes = answer.at("resident_bytes");
  ended.output = read_if_there(output);
  ended.errors = read_if_there(errors);
  return ended;
}

}  // namespace fathom::random
