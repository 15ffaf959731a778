// Layout: a header of 128 bytes, the words, the places, the notes as text; native byte order.
#include "data/token_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "base/bytes.h"
#include "base/descriptor.h"
#include "base/file.h"
#include "base/hash.h"

namespace fathom::data {
namespace {

namespace fs = std::filesystem;

constexpr std::array<char, 16> kMagic{'f', 'a', 't', 'h', 'o', 'm', ' ', 't', 'o', 'k', 'e', 'n', 's', ' ', '1', '\n'};

constexpr char kEnding[] = ".tokens", kStaging[] = ".tmp-";
constexpr size_t kVerifiedAtOnce = size_t{1} << 20;  // words: all that verifying keeps in memory

}  // namespace

struct TokenFileHeader {
  std::array<char, 16> magic = kMagic;
  std::array<char, 32> words_digest{};
  std::array<char, 32> places_digest{};  // and of the notes
  uint64_t words = 0;
  uint64_t places = 0;
  int64_t duplicates = 0;
  uint64_t notes = 0;  // bytes
  std::array<char, 16> unused{};
};

namespace {

static_assert(sizeof(TokenFileHeader) == 128 && sizeof(Place) == 16);

std::string digest_of(const std::vector<Place>& places, const std::string& notes) {
  Hasher hasher;
  hasher.update(places.data(), places.size() * sizeof(Place));
  hasher.update(notes.data(), notes.size());
  return hasher.digest();
}

[[noreturn]] void throw_system_error(const std::string& action, const fs::path& path, int code) {
  throw TokenFileError("cannot " + action + " '" + path.string() + "': " + std::strerror(code),
                       code == ENOSPC ? "free some space there, or set XDG_CACHE_HOME to a folder on a larger disk"
                                      : "set XDG_CACHE_HOME to a folder that can be written");
}

void read_all(const Descriptor& file, void* to, size_t bytes, uint64_t offset, const fs::path& path) {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = ::pread(file.get(), at, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_system_error("read", path, errno);
    if (got == 0) throw TokenFileError("'" + path.string() + "' has become shorter", "remove it; it is made anew");
    at += got;
    bytes -= static_cast<size_t>(got);
    offset += static_cast<uint64_t>(got);
  }
}

void write_all(const Descriptor& file, const void* from, size_t bytes, const fs::path& path) {
  if (!write_whole(file, from, bytes)) throw_system_error("write", path, errno);
}

class TokensInFile : public Tokens {
 public:
  TokensInFile(const fs::path& path, int64_t vocabulary_size)
      : path_(path), file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)), vocabulary_size_(vocabulary_size) {
    if (file_.get() < 0) throw_system_error("open", path, errno);
  }

  // The places, or nothing if the file is not whole.
  std::optional<std::vector<Place>> open() {
    if (::fstat(file_.get(), &status_) != 0) return std::nullopt;
    if (static_cast<size_t>(status_.st_size) < sizeof(TokenFileHeader)) return std::nullopt;
    read_all(file_, &header_, sizeof header_, 0, path_);
    const auto rest = static_cast<uint64_t>(status_.st_size) - sizeof(TokenFileHeader);
    const bool sizes = header_.words <= rest / sizeof(int32_t) && header_.places <= rest / sizeof(Place) &&
                       header_.notes <= rest &&
                       header_.words * sizeof(int32_t) + header_.places * sizeof(Place) + header_.notes == rest;
    if (header_.magic != kMagic || !sizes) return std::nullopt;
    std::vector<Place> places(header_.places);
    const uint64_t behind_words = sizeof(TokenFileHeader) + header_.words * sizeof(int32_t);
    read_all(file_, places.data(), places.size() * sizeof(Place), behind_words, path_);
    std::string notes(header_.notes, '\0');
    read_all(file_, notes.data(), notes.size(), behind_words + places.size() * sizeof(Place), path_);
    const std::string digest = digest_of(places, notes);
    if (digest != std::string_view(header_.places_digest.data(), header_.places_digest.size())) return std::nullopt;
    const bool fit = std::all_of(places.begin(), places.end(), [&](const Place& place) { return fits(place); });
    if (!fit || words_digest() != this->digest()) return std::nullopt;
    try {
      notes_ = Notes::from_text(notes);
    } catch (const Error&) {  // of a file that was forged
      return std::nullopt;
    }
    return places;
  }

  void read(uint64_t first, std::span<int32_t> words) const override {
    refuse_changed();
    read_all(file_, words.data(), words.size_bytes(), sizeof(TokenFileHeader) + first * sizeof(int32_t), path_);
    for (const int32_t word : words) {
      if (vocabulary_size_ > 0 && (word & ~kWithoutLoss) >= vocabulary_size_) {
        throw TokenFileError("'" + path_.string() + "' is damaged", "remove it; it is made anew");
      }
    }
  }
  uint64_t size() const override { return header_.words; }
  std::string digest() const override { return {header_.words_digest.data(), header_.words_digest.size()}; }
  int64_t duplicates() const { return header_.duplicates; }
  const Notes& notes() const { return notes_; }

 private:
  // The file was whole when it was opened. What another process has written into it since is no longer what the run's
  // checkpoints call its data; a file that has taken its name does not matter.
  void refuse_changed() const {
    struct stat now = {};
    if (::fstat(file_.get(), &now) != 0) throw_system_error("inspect", path_, errno);
    const bool same = now.st_size == status_.st_size && now.st_mtim.tv_sec == status_.st_mtim.tv_sec &&
                      now.st_mtim.tv_nsec == status_.st_mtim.tv_nsec;
    if (!same) {
      throw TokenFileError("'" + path_.string() + "' was changed by another process while the run read its tokens",
                           "resume the run: the tokens are made anew");
    }
  }

  // Whether the place lies among the words: digests are no proof against a file that was forged.
  bool fits(const Place& place) const {
    if (place.length < 0 || place.targets < 0 || place.targets > place.length) return false;
    const uint64_t words = uint64_t{place.paired ? 2U : 1U} * static_cast<uint64_t>(place.length);
    return words <= header_.words && place.first <= header_.words - words;
  }

  std::string words_digest() const {
    Hasher hasher;
    std::vector<int32_t> words(std::min<uint64_t>(kVerifiedAtOnce, header_.words));
    for (uint64_t first = 0; first < header_.words; first += words.size()) {
      words.resize(std::min<uint64_t>(words.size(), header_.words - first));
      read_all(file_, words.data(), words.size() * sizeof(int32_t), sizeof(TokenFileHeader) + first * sizeof(int32_t),
               path_);
      hasher.update(words.data(), words.size() * sizeof(int32_t));
    }
    return hasher.digest();
  }

  const fs::path path_;
  const Descriptor file_;
  const int64_t vocabulary_size_;
  struct stat status_ = {};  // when it was opened
  TokenFileHeader header_;
  Notes notes_;
};

fs::path path_of(const fs::path& folder, const std::string& key) { return folder / (key + kEnding); }

fs::path create_folders(const fs::path& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) throw_system_error("create the folder", folder, failed.value());
  return folder;
}

bool lock(const Descriptor& file) { return ::flock(file.get(), LOCK_EX | LOCK_NB) == 0; }

// A file that no other process writes, under a name of its own; locked for as long as it is open.
Descriptor create_staging(const fs::path& path, fs::path& staging) {
  for (int number = 0;; ++number) {
    staging = path.string() + kStaging + std::to_string(::getpid()) + "-" + std::to_string(number);
    Descriptor file(::open(staging.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (file.is_open()) {
      lock(file);  // where the file system has no locks, what a killed run leaves stays
      return file;
    }
    if (errno != EEXIST) throw_system_error("create", staging, errno);
  }
}

// What killed processes left: nobody holds its lock. One that was just created may not have been locked yet.
void remove_leftovers(const fs::path& folder) {
  constexpr auto kTimeToLock = std::chrono::minutes(1);
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder, failed)) {
    if (entry.path().filename().string().find(std::string(kEnding) + kStaging) == std::string::npos) continue;
    const Descriptor file(::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
    const bool old = fs::file_time_type::clock::now() - entry.last_write_time(failed) > kTimeToLock;
    if (file.is_open() && old && lock(file)) fs::remove(entry.path(), failed);
  }
}

}  // namespace

std::optional<KeptTokens> open_tokens(const fs::path& folder, const std::string& key, int64_t vocabulary_size) {
  const fs::path path = path_of(folder, key);
  std::error_code absent;
  if (!fs::exists(path, absent)) return std::nullopt;
  const auto tokens = std::make_shared<TokensInFile>(path, vocabulary_size);
  std::optional<std::vector<Place>> places = tokens->open();
  if (!places) return std::nullopt;
  return KeptTokens{tokens, std::move(*places), tokens->duplicates(), {}, tokens->notes()};
}

struct TokenFileWriter::State {
  fs::path path, staging;
  Descriptor file;
  TokenFileHeader header;
  Hasher hasher;

  State(const fs::path& folder, const std::string& key) : path(path_of(create_folders(folder), key)) {
    remove_leftovers(folder);
    file = create_staging(path, staging);
  }
  ~State() { ::unlink(staging.c_str()); }  // of what was not finished
};

TokenFileWriter::TokenFileWriter(const fs::path& folder, const std::string& key)
    : state_(std::make_unique<State>(folder, key)) {
  write_all(state_->file, &state_->header, sizeof(TokenFileHeader), state_->staging);
}

TokenFileWriter::~TokenFileWriter() = default;

void TokenFileWriter::write(const std::vector<int32_t>& words) {
  write_all(state_->file, words.data(), words.size() * sizeof(int32_t), state_->staging);
  state_->hasher.update(words.data(), words.size() * sizeof(int32_t));
  state_->header.words += words.size();
}

void TokenFileWriter::finish(const std::vector<Place>& places, int64_t duplicates, const Notes& notes) {
  State& state = *state_;
  const std::string text = notes.to_text();
  write_all(state.file, places.data(), places.size() * sizeof(Place), state.staging);
  write_all(state.file, text.data(), text.size(), state.staging);
  const auto put = [](std::array<char, 32>& digits, const std::string& digest) {
    std::copy_n(digest.begin(), std::min(digest.size(), digits.size()), digits.begin());
  };
  put(state.header.words_digest, state.hasher.digest());
  put(state.header.places_digest, digest_of(places, text));
  state.header.places = places.size();
  state.header.notes = text.size();
  state.header.duplicates = duplicates;
  if (::pwrite(state.file.get(), &state.header, sizeof(TokenFileHeader), 0) != sizeof(TokenFileHeader) ||
      ::fsync(state.file.get()) != 0 || ::rename(state.staging.c_str(), state.path.c_str()) != 0) {
    throw_system_error("finish", state.path, errno);
  }
}

fs::path default_cache_folder() {
  const auto variable = [](const char* name) -> fs::path {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
  };
  if (const fs::path folder = variable("XDG_CACHE_HOME"); !folder.empty()) return folder / "fathom";
  if (const fs::path home = variable("HOME"); !home.empty()) return home / ".cache" / "fathom";
  throw TokenFileError("there is no folder to keep tokens in: HOME is not set", "set XDG_CACHE_HOME to a folder");
}

}  // namespace fathom::data
