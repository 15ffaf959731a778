// manifest.json: {"format", "version", "step", "files": [{"name", "bytes", "hash"}]}. Hashes are of blocks
// (base/block_hash.h); in version 1, which is still read, each is XXH3-128 of the file.
#include "weights/manifest.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "base/block_hash.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json_value.h"
#include "base/system_error.h"

namespace fathom::weights {
namespace {

namespace fs = std::filesystem;

constexpr char kManifestName[] = "manifest.json";
constexpr char kFormat[] = "fathom checkpoint";
constexpr int64_t kVersion = 2, kSequential = 1;
constexpr size_t kVerifiedAtOnce = size_t{8} << 20;  // bytes: all that verifying keeps in memory

[[noreturn]] void damaged(const fs::path& path, const std::string& what) { throw Error(path.string() + ": " + what); }

const Json& member(const Json& object, const char* key, const fs::path& path) {
  if (!object.is_object() || !object.contains(key)) damaged(path, std::string("'") + key + "' is missing");
  return object[key];
}

int64_t size_member(const Json& object, const char* key, const fs::path& path) {
  const Json& value = member(object, key, path);
  if (!value.is_number_unsigned() || value.get<uint64_t>() > uint64_t{INT64_MAX}) {
    damaged(path, std::string("'") + key + "' is not a size");
  }
  return value.get<int64_t>();
}

std::string text_member(const Json& object, const char* key, const fs::path& path) {
  const Json& value = member(object, key, path);
  if (!value.is_string()) damaged(path, std::string("'") + key + "' is not text");
  return value.get<std::string>();
}

// Whether the name leads to a file in the folder, or in one within it, and nowhere else.
bool lies_within(const std::string& name) {
  const fs::path path(name);
  return !name.empty() && name.find('\0') == std::string::npos && path.is_relative() &&
         std::none_of(path.begin(), path.end(),
                      [](const fs::path& part) { return part == "" || part == "." || part == ".."; });
}

// Of files of version 1.
std::string sequential_hash(const MappedFile& file) {
  Hasher hasher;
  for (size_t start = 0; start < file.size(); start += kVerifiedAtOnce) {
    const size_t size = std::min(kVerifiedAtOnce, file.size() - start);
    hasher.update(file.data() + start, size);
    file.release(start, size);
  }
  return hasher.digest();
}

BlockHashes block_hashes(const MappedFile& file, Share share) {
  const auto bytes = static_cast<int64_t>(file.size());
  BlockHashes hashes;
  for (int64_t block = share.first; block < count_blocks(bytes); block += share.step) {
    hashes.merge(hash_blocks(file.data(), bytes, block, 1));
    const int64_t begin = block * kHashedBlock;
    file.release(static_cast<size_t>(begin), static_cast<size_t>(std::min(kHashedBlock, bytes - begin)));
  }
  return hashes;
}

MappedFile open_listed(const fs::path& folder, const FileRecord& record) {
  const fs::path path = folder / record.name;
  if (!fs::is_regular_file(path)) damaged(path, "is missing");
  MappedFile file(path);
  if (static_cast<int64_t>(file.size()) != record.bytes) {
    damaged(path, "has " + std::to_string(file.size()) + " bytes, the manifest says " + std::to_string(record.bytes));
  }
  return file;
}

[[noreturn]] void differs(const fs::path& path) { damaged(path, "differs from what was written (hash)"); }

void verify_sequential(const fs::path& folder, const FileRecord& record) {
  if (sequential_hash(open_listed(folder, record)) != record.hash) differs(folder / record.name);
}

// Each reader takes its share of the blocks.
void verify(const fs::path& folder, const FileRecord& record, Readers* readers) {
  const std::vector<std::string> parts = read_together(readers, [&] {
    const MappedFile file = open_listed(folder, record);
    return to_text(block_hashes(file, share_of(readers)));
  });
  BlockHashes all;
  for (const std::string& part : parts) add_from_text(part, all);
  if (hash_of_blocks(all, record.bytes) != record.hash) differs(folder / record.name);
}

struct Versioned {
  Manifest manifest;
  int64_t version = 0;
};

std::string text_of_manifest(const fs::path& folder) {
  const fs::path path = folder / kManifestName;
  if (!fs::is_regular_file(path)) {
    damaged(folder, "has no manifest.json: it is no checkpoint, or was not written to its end");
  }
  std::string text = read_file(path);
  if (!text.ends_with('\n')) damaged(path, "was not written to its end");
  return text;
}

Versioned parse_manifest(const std::string& text, const fs::path& path) {
  Versioned read;
  Manifest& manifest = read.manifest;
  const Json json = parse_json(text, path.string());
  if (text_member(json, "format", path) != kFormat) damaged(path, "is not the manifest of a checkpoint");
  const int64_t version = read.version = size_member(json, "version", path);
  if (version != kVersion && version != kSequential) {
    throw Error(path.string() + ": version " + std::to_string(version) + ", this program reads versions 1 and 2",
                "use the version of fathom that wrote it");
  }
  manifest.step = size_member(json, "step", path);
  const Json& files = member(json, "files", path);
  if (!files.is_array()) damaged(path, "'files' is not a list");
  for (const Json& entry : files) {
    FileRecord record{text_member(entry, "name", path), size_member(entry, "bytes", path),
                      text_member(entry, "hash", path)};
    if (!lies_within(record.name)) damaged(path, "names '" + record.name + "', which is not the name of a file in it");
    if (manifest.lists(record.name)) damaged(path, "lists '" + record.name + "' twice");
    manifest.files.push_back(std::move(record));
  }
  return read;
}

}  // namespace

FileRecord write_new(const fs::path& folder, const std::string& name, std::string_view content) {
  const fs::path path = folder / name;
  fs::create_directories(path.parent_path());
  const Descriptor file = open_to_write(path, O_WRONLY | O_TRUNC);
  if (!write_whole(file, content.data(), content.size())) {
    throw system_error("cannot write '" + path.string() + "'", errno);
  }
  const auto bytes = static_cast<int64_t>(content.size());
  const auto* data = reinterpret_cast<const std::byte*>(content.data());
  return {name, bytes, hash_of_blocks(hash_blocks(data, bytes, 0, count_blocks(bytes)), bytes)};
}

void sync_files(const fs::path& folder, const std::vector<FileRecord>& files) {
  std::set<fs::path> folders = {folder};
  for (const FileRecord& file : files) {
    const fs::path path = folder / file.name;
    sync_path(path);
    folders.insert(path.parent_path());
  }
  for (const fs::path& each : folders) sync_path(each);
}

void write_manifest(const fs::path& folder, int64_t step, const std::vector<FileRecord>& files) {
  sync_files(folder, files);
  Json manifest = {{"format", kFormat}, {"version", kVersion}, {"step", step}, {"files", Json::array()}};
  for (const FileRecord& file : files) {
    manifest["files"].push_back({{"name", file.name}, {"bytes", file.bytes}, {"hash", file.hash}});
  }
  sync_files(folder, {write_new(folder, kManifestName, format_json(manifest))});
}

bool Manifest::lists(const std::string& name) const {
  return std::any_of(files.begin(), files.end(), [&](const FileRecord& file) { return file.name == name; });
}

Share share_of(const Readers* readers) {
  return readers == nullptr ? Share() : Share{readers->rank(), readers->size()};
}

std::vector<std::string> read_together(Readers* readers, const std::function<std::string()>& part) {
  if (readers == nullptr) return {part()};
  constexpr char kFine = '+', kWrong = '-';
  std::string found;
  try {
    found = kFine + part();
  } catch (const std::exception& error) {
    found = kWrong + message_of(error);
  }
  std::vector<std::string> of_ranks = readers->gather(found);
  for (size_t rank = 0; rank < of_ranks.size(); ++rank) {
    std::string& text = of_ranks[rank];
    if (text.front() == kWrong) throw Error("rank " + std::to_string(rank) + ": " + text.substr(1));
    text.erase(0, 1);
  }
  return of_ranks;
}

Manifest read_and_verify_manifest(const fs::path& folder, Readers* readers) {
  Versioned read;
  const std::vector<std::string> texts = read_together(readers, [&] {
    std::string text = text_of_manifest(folder);
    read = parse_manifest(text, folder / kManifestName);
    return text;
  });
  for (size_t rank = 1; rank < texts.size(); ++rank) {
    if (texts[rank] == texts.front()) continue;
    damaged(folder / kManifestName, "is another one where rank " + std::to_string(rank) + " runs");
  }
  const std::vector<FileRecord>& files = read.manifest.files;
  if (read.version == kVersion) {
    for (const FileRecord& record : files) verify(folder, record, readers);
  } else {
    read_together(readers, [&] {
      for (const FileRecord& record : files) verify_sequential(folder, record);
      return std::string();
    });
  }
  return std::move(read.manifest);
}

}  // namespace fathom::weights
