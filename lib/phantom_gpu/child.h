// Runs another process of a program and exchanges JSON with it, one value a line. A child that dies, hangs or answers
// nonsense is an Error that says so.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"

namespace fathom::phantom_gpu {

// The file of the running program (/proc/self/exe).
std::filesystem::path this_program();

// A child that answers one question after the other: a line of JSON on its stdin, a line of JSON on its stdout. Not for
// two threads at once.
class Child {
 public:
  // Starts `program` with `arguments`; throws Error when that is not possible. The child's stderr is not shown: its end
  // becomes part of what errors say.
  Child(const std::filesystem::path& program, const std::vector<std::string>& arguments);
  // Ends the child, which has nothing to lose.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // The answer to `request`. Throws Error when the child has ended or ends before it answers (with its exit status or
  // signal), when it takes longer than `timeout`, and when its answer is not one line of JSON. After an Error the child
  // has ended, and every later question throws.
  Json ask(const Json& request, std::chrono::milliseconds timeout);
  // False once it is known to have ended.
  bool is_alive();

 private:
  friend Json run_child(const std::filesystem::path&, const std::vector<std::string>&, const Json&,
                        std::chrono::milliseconds);
  struct State;
  std::unique_ptr<State> state_;
};

// One question to a child that lives for it alone: it reads stdin to its end, and its whole output is the answer.
// Blocks until the child has ended; after `timeout` it is killed. Throws Error as Child::ask does, and when the child
// ends with another status than 0.
Json run_child(const std::filesystem::path& program, const std::vector<std::string>& arguments, const Json& request,
               std::chrono::milliseconds timeout);

}  // namespace fathom::phantom_gpu
