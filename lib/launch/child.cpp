// exec, and what is told of its end.
#include "launch/child.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace fathom::launch {

void become(const std::string& program, const std::vector<std::string>& words) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  ::execvp(program.c_str(), arguments.data());
}

int exit_code(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

}  // namespace fathom::launch
