// XXH3-128 of bytes and files, as 32 hexadecimal digits: integrity of checkpoints, not secrecy.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace fathom {

std::string hash_bytes(const void* data, size_t size);
std::string hash_file(const std::filesystem::path& path);

}  // namespace fathom
