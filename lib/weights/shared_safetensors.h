// A safetensors file that several processes write, each the bytes that it has: in the end the file of one process.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "weights/manifest.h"
#include "weights/safetensors.h"

namespace fathom::weights {

// The processes, as one of them sees them. What they call waits for the others, and throws where one is gone.
class Writers {
 public:
  virtual ~Writers() = default;
  virtual bool is_first() const = 0;
  virtual bool has_parts() const = 0;  // the first has; every byte is had once among those that have
  virtual void meet() = 0;
  // A text of each, by ranks, where this is the first; elsewhere nothing.
  virtual std::vector<std::string> gather_to_first(const std::string& text) = 0;
  virtual std::string of_first(const std::string& text) = 0;  // the first's text
};

// Every process calls it with the same path and tensors, of which it gives its parts. The first makes the file, with
// room for all of it; it is synced when it is whole. Returns its record, whose hash the first alone knows. Throws
// NotFinite as write_safetensors; Error where a process does not see what another has written.
FileRecord write_together(const std::filesystem::path& path, const std::vector<TensorSource>& tensors, Numbers numbers,
                          Writers& writers);

}  // namespace fathom::weights
