// What the processes of a command tell of themselves, line by line (lib/phantom_gpu/follow): who started whom, who
// waited for whose end, and what each has of a GPU.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace fathom::launch {

// Of a GPU, what processes have that may run at once.
struct Share {
  int64_t bytes = 0, processes = 0;
  bool operator==(const Share&) const = default;
};

struct Facts {
  // At most, by the GPU's place in the machine. Two processes do not run at once where one began after somebody had
  // waited for the other's end; all others may, however quickly they played. What a process has counts while another
  // one runs that it has started and not waited for.
  std::map<int64_t, Share> devices;
  std::vector<std::string>
      unfollowed;                   // commands of programs with torch, or with Python, of which the agent knows nothing
  std::vector<std::string> lacks;   // functions that a phantom GPU has not and that were called
  std::vector<int64_t> with_torch;  // processes that have begun to import it

  // origin: of the text, for messages. Throws Error for another form.
  static Facts from_text(const std::string& text, const std::string& origin);
};

}  // namespace fathom::launch
