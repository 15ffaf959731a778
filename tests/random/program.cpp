// Starts the servers and asks them.
#include "tests/random/program.h"

#include <cstdlib>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"

namespace fathom::random {

namespace fs = std::filesystem;

namespace {

constexpr double kSeconds = 600;  // for one command line, which takes below one: it hangs
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

Ended Programs::run(const std::string& device, const std::vector<std::string>& arguments, const fs::path& folder) {
  const fs::path output = folder / "stdout.txt", errors = folder / "stderr.txt";
  const Json request = {{"arguments", arguments},
                        {"folder", folder.string()},
                        {"output", output.string()},
                        {"errors", errors.string()},
                        {"seconds", kSeconds}};
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
