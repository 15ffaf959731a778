// Whether a disk has room for what a run will write to it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "checkpoint/model_files.h"
#include "checkpoint/named_tensors.h"

namespace fathom::checkpoint {

// Bytes that a checkpoint, or a model (without optimizer), of these tensors takes at most: its files, and an allowance
// for those that are not known before.
int64_t checkpoint_bytes(const NamedTensors& parameters, const NamedTensors& optimizer, const ModelFiles& files);

// Bytes that this user may still write to the disk of an existing folder; INT64_MAX where the file system does not say.
int64_t free_bytes(const std::filesystem::path& folder);

// Throws Error that gives both figures if the folder's disk has fewer free bytes. what: "checkpoint-500".
void require_room(const std::filesystem::path& folder, const std::string& what, int64_t bytes);

}  // namespace fathom::checkpoint
