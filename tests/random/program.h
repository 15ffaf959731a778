// The program with LibTorch already loaded (prestarted.cpp), seen from a test.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "phantom_gpu/child.h"

namespace fathom::random {

inline constexpr int kMostSeconds = 600;  // of one command line, which takes below one: a later one is killed

// How a command line ended, and what it said.
struct Ended {
  int status = 0;  // of the exit; -1: it was killed
  int signal = 0;  // by which; 0: none
  bool late = false;
  double seconds = 0;
  int64_t resident_bytes = 0;  // at its largest
  std::string output, errors;
};

// Servers of the program, one for each device, started when it is first asked for; one at a time is kept for GPUs.
class Programs {
 public:
  explicit Programs(std::filesystem::path prestarted) : program_(std::move(prestarted)) {}
  static constexpr const char* kOfSeveral = "processes";
  // device: "cpu", a GPU that the command line plays on a phantom, or kOfSeveral: the program itself, which starts
  // several of its own.
  Ended run(const std::string& device, const std::vector<std::string>& arguments, const std::filesystem::path& folder);

 private:
  struct Server {
    std::string device;
    std::filesystem::path socket_folder;
    std::unique_ptr<phantom_gpu::Child> child;
    ~Server();
  };
  Ended run_itself(const std::vector<std::string>& arguments, const std::filesystem::path& folder) const;
  phantom_gpu::Child& server_for(const std::string& device);

  std::filesystem::path program_;
  std::unique_ptr<Server> cpu_, gpu_;
};

}  // namespace fathom::random
