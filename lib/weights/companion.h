// What lies in a model folder and goes along with what is made of it, read by nobody here: files beside the weights,
// and tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "weights/folder.h"

namespace fathom::weights {

// A tokenizer.json is by far the largest of them, and has 35 MB at most.
inline constexpr size_t kLargestCompanion = size_t{64} << 20;

// The content of `folder`/`name`, to be written into another folder as it is, and its bytes. Throws Error where it
// leads out of the folder: a link to a private file would carry that into a folder that people upload. What a link
// finds in the hub's cache (models--<org>--<name>/blobs) is taken; so the cache, and downloads that lead into it, are
// laid out.
std::string read_companion(const std::filesystem::path& folder, const std::string& name);
int64_t companion_bytes(const std::filesystem::path& folder, const std::string& name);

// A tensor to be written elsewhere as it is. Its bytes leave the process's memory when they were given.
TensorSource copy_of(const ModelFolder::Entry& entry);

}  // namespace fathom::weights
