// Bytes at their places, and hashes of blocks: of those that one process has whole as it writes them, of the others
// as they lie in the file.
#include "weights/shared_safetensors.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <sstream>

#include "base/block_hash.h"
#include "base/bytes.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/file.h"
#include "base/finite.h"
#include "base/lost_others.h"
#include "base/system_error.h"
#include "weights/safetensors_layout.h"

namespace fathom::weights {
namespace {

constexpr int64_t kPiece = 1 << 20;  // stays in the processor's cache between the look, the hash and the write
constexpr const char* kShared =
    "output_dir must lie on a file system that all machines of the run share, and on which each sees what others have "
    "written";

// Signals do not end it. False where it has failed.
bool uninterrupted(const std::function<int()>& call) {
  int status = 0;
  do {
    status = call();
  } while (status != 0 && errno == EINTR);
  return status == 0;
}

class Shared {
 public:
  Shared(const std::filesystem::path& path, const std::vector<TensorSource>& tensors, Numbers numbers, bool begins)
      : path_(path),
        numbers_(numbers),
        begins_(begins),
        slots_(lay_out(path, tensors)),
        start_(file_start(path, slots_)),
        bytes_(checked_add(std::ssize(start_), data_bytes(path, slots_), "size of " + path.string())),
        hasher_(bytes_) {}

  int64_t bytes() const { return bytes_; }
  int64_t written() const { return written_; }  // by this process

  // Asks for all of the room at once, where the file system can.
  void create() const {
    const Descriptor file = open_to_write(path_, O_WRONLY | O_TRUNC);
    if (uninterrupted([&] { return ::fallocate(file.get(), 0, 0, bytes_); })) return;
    if (errno != EOPNOTSUPP && errno != ENOSYS) fail_to_write(path_, "asking for room");
    if (!uninterrupted([&] { return ::ftruncate(file.get(), bytes_); })) fail_to_write(path_, "asking for room");
  }

  void write() {
    std::error_code absent;
    if (static_cast<int64_t>(std::filesystem::file_size(path_, absent)) != bytes_ || absent) {
      throw Error("this process does not see '" + path_.string() + "' as the first has made it", kShared);
    }
    const Descriptor file = open_to_change(path_);
    if (begins_) write_at(file, 0, reinterpret_cast<const std::byte*>(start_.data()), std::ssize(start_));
    for_each_part({}, [&](const Slot& slot, int64_t offset, const std::byte* data, int64_t bytes) {
      for (int64_t done = 0; done < bytes; done += kPiece) {
        const int64_t piece = std::min(bytes - done, kPiece);
        if (numbers_ == Numbers::kFinite && !all_finite(data + done, slot.source->dtype, piece)) {
          throw NotFinite("the weights of " + slot.source->name + " are not finite, and are not kept");
        }
        write_at(file, offset + done, data + done, piece);
      }
    });
    if (!uninterrupted([&] { return ::fsync(file.get()); })) fail_to_write(path_, "syncing");
  }

  // Once all have written. Of blocks that several have written, what was written here must be what all see.
  BlockHashes hashes() {
    BlockHashes hashes = hasher_.hashes();
    const MappedFile file(path_);
    if (static_cast<int64_t>(file.size()) != bytes_) throw Error(path_.string() + " has changed its size", kShared);
    const auto is_others_too = [&](int64_t block) {
      const auto found = hasher_.hashes().find(block);
      return found == hasher_.hashes().end() || found->second.empty();
    };
    const auto wants = [&](int64_t offset, int64_t bytes) {
      for (int64_t block = offset / kHashedBlock; block <= (offset + bytes - 1) / kHashedBlock; ++block) {
        if (is_others_too(block)) return true;
      }
      return false;
    };
    for_each_part(wants, [&](const Slot& slot, int64_t offset, const std::byte* data, int64_t bytes) {
      while (bytes > 0) {
        const int64_t count = std::min(bytes, kHashedBlock - offset % kHashedBlock);
        if (is_others_too(offset / kHashedBlock) &&
            std::memcmp(file.data() + offset, data, static_cast<size_t>(count)) != 0) {
          throw Error(path_.string() + ": of " + slot.source->name + " this process does not find what it has written",
                      kShared);
        }
        offset += count;
        data += count;
        bytes -= count;
      }
    });
    for (auto& [block, hash] : hashes) {
      if (hash.empty()) hash = hash_blocks(file.data(), bytes_, block, 1).at(block);
    }
    return hashes;
  }

 private:
  template <typename Take>
  void for_each_part(const std::function<bool(int64_t, int64_t)>& wants, const Take& take) const {
    int64_t begin = std::ssize(start_);
    for (const Slot& slot : slots_) {
      TensorSource::Sink sink;
      if (wants) sink.wants = [&](int64_t first, int64_t bytes) { return wants(begin + first, bytes); };
      sink.take = [&](int64_t first, const std::byte* data, int64_t bytes) { take(slot, begin + first, data, bytes); };
      slot.source->parts(sink);
      begin += slot.bytes;
    }
  }

  void write_at(const Descriptor& file, int64_t offset, const std::byte* data, int64_t bytes) {
    hasher_.add(offset, data, bytes);
    written_ += bytes;
    if (!write_whole_at(file, offset, data, static_cast<size_t>(bytes))) fail_to_write(path_, "writing");
  }

  std::filesystem::path path_;
  Numbers numbers_;
  bool begins_;
  std::vector<Slot> slots_;
  std::string start_;
  int64_t bytes_, written_ = 0;
  BlockHasher hasher_;
};

// texts: what each process tells of its part.
std::string hash_of_all(const std::vector<std::string>& texts, int64_t bytes, const std::filesystem::path& path) {
  BlockHashes all;
  int64_t written = 0;
  for (const std::string& text : texts) {
    int64_t here = 0;
    std::istringstream(text) >> here;
    written += here;
    add_from_text(text.substr(text.find('\n') + 1), all);
  }
  if (written != bytes) {
    throw Error(path.string() + ": the processes have written " + std::to_string(written) + " of its " +
                std::to_string(bytes) + " bytes");
  }
  return hash_of_blocks(all, bytes);
}

}  // namespace

void write_in_step(Writers* writers, const std::function<void()>& part) {
  if (writers == nullptr) return part();
  constexpr char kNotFinite = '!', kWrong = '-';
  std::string failure;
  try {
    part();
  } catch (const LostOthers&) {
    throw;
  } catch (const std::exception& error) {
    failure = (dynamic_cast<const NotFinite*>(&error) != nullptr ? kNotFinite : kWrong) + message_of(error);
  }
  const std::vector<std::string> of_ranks = writers->gather(failure);
  for (size_t rank = 0; rank < of_ranks.size(); ++rank) {
    const std::string& text = of_ranks[rank];
    if (text.empty()) continue;
    const std::string told = "rank " + std::to_string(rank) + ": " + text.substr(1);
    if (text.front() == kNotFinite) throw NotFinite(told);
    throw Error(told);
  }
}

FileRecord write_together(const std::filesystem::path& path, const std::vector<TensorSource>& tensors, Numbers numbers,
                          Writers& writers) {
  Shared shared(path, tensors, numbers, writers.is_first());
  write_in_step(&writers, [&] {
    if (writers.is_first()) shared.create();
  });
  write_in_step(&writers, [&] {
    if (writers.has_parts()) shared.write();
  });
  std::string found;  // "<bytes>", and behind them the hashes
  write_in_step(&writers, [&] {
    found = std::to_string(shared.written()) + "\n" + (writers.has_parts() ? to_text(shared.hashes()) : std::string());
  });
  const std::vector<std::string> texts = writers.gather_to_first(found);
  FileRecord record{path.filename().string(), shared.bytes(), ""};
  write_in_step(&writers, [&] {
    if (writers.is_first()) record.hash = hash_of_all(texts, shared.bytes(), path);
  });
  return record;
}

}  // namespace fathom::weights
