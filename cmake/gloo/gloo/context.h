// What ProcessGroupGloo.hpp names of gloo: LibTorch's wheel carries gloo's code and none of its headers.
#pragma once
#include <chrono>
namespace gloo {
class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
  void closeConnections();
};
}  // namespace gloo
