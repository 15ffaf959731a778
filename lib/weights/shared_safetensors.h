// A safetensors file that several processes write, each the bytes that it has: in the end the file of one process.
#pragma once

#include <filesystem>
#include <functional>
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
  // A text of each, by ranks: waits for as long as writing files takes.
  virtual std::vector<std::string> gather(const std::string& text) = 0;
  // The same where this is the first; elsewhere nothing.
  virtual std::vector<std::string> gather_to_first(const std::string& text) = 0;
};

// Calls `part` and waits until all have. Where it has thrown for some, it throws for all, so that they go on from one
// place: what the first of them has thrown, NotFinite or Error, with its rank. writers null: there is one.
void write_in_step(Writers* writers, const std::function<void()>& part);

// Every process calls it with the same path and tensors, of which it gives its parts. The first makes the file, with
// room for all of it; it is synced when it is whole. Returns its record, whose hash the first alone knows. Throws for
// all what one throws: NotFinite as write_safetensors, Error where a process does not see what another has written.
FileRecord write_together(const std::filesystem::path& path, const std::vector<TensorSource>& tensors, Numbers numbers,
                          Writers& writers);

}  // namespace fathom::weights
