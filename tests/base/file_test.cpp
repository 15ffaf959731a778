// Files: whole or not at all, mapped, and failures that name the path and the reason.
#include "base/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "base/descriptor.h"
#include "base/error.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class FileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "fathom_file_XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  void TearDown() override { fs::remove_all(folder_); }
  size_t entries() const { return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), {})); }
  fs::path folder_;
};

TEST_F(FileTest, ReadsBackWhatWasWritten) {
  const std::string content("a\0b\n", 4);
  write_file_atomically(folder_ / "x", content);
  EXPECT_EQ(read_file(folder_ / "x"), content);
  write_file_atomically(folder_ / "x", "");
  EXPECT_EQ(read_file(folder_ / "x"), "");
  EXPECT_EQ(entries(), 1U);
}

TEST_F(FileTest, ReadsFilesThatDoNotKnowTheirSize) { EXPECT_THAT(read_file("/proc/self/status"), HasSubstr("VmRSS")); }

TEST_F(FileTest, AFailedWriteLeavesTheOldFileAndNothingElse) {
  fs::create_directory(folder_ / "x");
  write_file_atomically(folder_ / "x" / "inner", "kept");
  EXPECT_THROW(write_file_atomically(folder_ / "x", "new"), Error);
  EXPECT_EQ(read_file(folder_ / "x" / "inner"), "kept");
  EXPECT_EQ(entries(), 1U);
}

TEST_F(FileTest, AFolderThatIsNotThereIsNamedAndNoTemporaryFileIs) {
  const fs::path path = folder_ / "none" / "x.html";
  for (const std::function<void()>& write : {std::function<void()>([&] { write_file_atomically(path, "new"); }),
                                             std::function<void()>([&] { open_to_write(path, O_WRONLY); })}) {
    try {
      write();
      ADD_FAILURE() << "it was written";
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), "cannot write '" + path.string() + "': there is no folder '" +
                                  (folder_ / "none").string() + "'; create it, or name a file in another");
    }
  }
}

TEST_F(FileTest, WhatKilledWritersLeftGoesAndAllElseStays) {
  const std::string running = std::to_string(::getppid()), own = std::to_string(::getpid());
  constexpr char kNone[] = "2147483647";  // more processes than Linux can count
  const auto put = [&](const std::string& name) { std::ofstream(folder_ / name) << "half"; };
  for (const std::string& name : {"config.yaml.tmp-" + own, std::string("memory.json.tmp-") + kNone}) put(name);
  const std::vector<std::string> kept = {"config.yaml",
                                         "report.html.tmp-" + running,
                                         std::string("locked.tmp-") + kNone,
                                         std::string("notes-tmp-") + kNone,
                                         std::string(".tmp-") + kNone,
                                         std::string("x.tmp-") + kNone + "x",
                                         "x.tmp-",
                                         "x.tmp--1",
                                         "x.tmp-0"};
  for (const std::string& name : kept) put(name);
  fs::create_directory(folder_ / (std::string("folder.tmp-") + kNone));
  fs::create_symlink(folder_ / "config.yaml", folder_ / (std::string("link.tmp-") + kNone));
  const Descriptor elsewhere(::open((folder_ / kept[2]).c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::flock(elsewhere.get(), LOCK_EX), 0);  // as a machine with other processes would hold it
  remove_unfinished_writes(folder_);
  EXPECT_FALSE(fs::exists(folder_ / ("config.yaml.tmp-" + own)));
  EXPECT_FALSE(fs::exists(folder_ / (std::string("memory.json.tmp-") + kNone)));
  for (const std::string& name : kept) EXPECT_TRUE(fs::exists(folder_ / name)) << name;
  EXPECT_EQ(entries(), kept.size() + 2);
  remove_unfinished_writes(folder_ / "none");
}

TEST_F(FileTest, NewFilesHaveOrdinaryPermissions) {
  write_file_atomically(folder_ / "x", "a");
  const mode_t mask = umask(0);
  umask(mask);
  EXPECT_EQ(static_cast<mode_t>(fs::status(folder_ / "x").permissions()), 0666 & ~mask);
}

TEST_F(FileTest, FailuresNamePathAndReason) {
  EXPECT_THAT([&] { read_file(folder_ / "none"); }, ThrowsMessage<Error>(HasSubstr("/none': No such file")));
  EXPECT_THAT([&] { read_file(folder_); }, ThrowsMessage<Error>(HasSubstr("is a folder")));
  EXPECT_THAT([&] { MappedFile file(folder_); }, ThrowsMessage<Error>(HasSubstr("is a folder")));
  EXPECT_THAT([&] { MappedFile file("/dev/zero"); }, ThrowsMessage<Error>(HasSubstr("is a device")));
  EXPECT_THAT([&] { write_file_atomically(folder_ / "none" / "x", ""); },
              ThrowsMessage<Error>(HasSubstr("there is no folder")));
  EXPECT_THAT([&] { sync_path(folder_ / "none"); }, ThrowsMessage<Error>(HasSubstr("No such file")));
}

// What stands in the place of a file and is none, by what errors call it.
std::vector<std::pair<fs::path, std::string>> irregular(const fs::path& folder) {
  EXPECT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  fs::create_symlink("pipe", folder / "link to a pipe");
  fs::create_symlink("/dev/zero", folder / "link to a device");
  fs::create_directory(folder / "folder");
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  (folder / "socket").string().copy(address.sun_path, sizeof address.sun_path - 1);
  const Descriptor socket(::socket(AF_UNIX, SOCK_STREAM, 0));
  EXPECT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return {{folder / "pipe", "pipe"}, {folder / "link to a pipe", "pipe"}, {folder / "link to a device", "device"},
          {"/dev/zero", "device"},   {folder / "folder", "folder"},       {folder / "socket", "socket"}};
}

TEST_F(FileTest, OnlyRegularFilesAreRead) {
  for (const auto& [path, kind] : irregular(folder_)) {
    const auto refused = ThrowsMessage<Error>(HasSubstr("is a " + kind + ", not a file"));
    EXPECT_THAT(([&, where = path] { read_file(where); }), refused) << path;
    EXPECT_THAT(([&, where = path] { MappedFile file(where); }), refused) << path;
    EXPECT_THAT(([&, where = path] { open_to_read(where); }), refused) << path;
  }
  fs::create_symlink("/proc/self/status", folder_ / "link");
  EXPECT_THAT(read_file(folder_ / "link"), HasSubstr("VmRSS"));
}

TEST_F(FileTest, OnlyRegularFilesAreReplaced) {
  auto paths = irregular(folder_);
  std::erase_if(
      paths, [](const auto& entry) { return entry.second == "device" || entry.first.filename() == "link to a pipe"; });
  write_file_atomically(folder_ / "kept", "kept");
  for (const char* target : {"/dev/null", "kept", "nothing"}) {
    const fs::path link = folder_ / (std::string("link to ") + fs::path(target).filename().string());
    fs::create_symlink(target, link);
    paths.emplace_back(link, "link");
  }
  for (const auto& [path, kind] : paths) {
    const auto before = fs::symlink_status(path).type();
    const auto refused = ThrowsMessage<Error>(HasSubstr("is a " + kind + ", not a file"));
    EXPECT_THAT(([&, where = path] { write_file_atomically(where, "new"); }), refused) << path;
    EXPECT_THAT(([&, where = path] { open_to_write(where, O_WRONLY | O_TRUNC); }), refused) << path;
    EXPECT_EQ(fs::symlink_status(path).type(), before) << path;
  }
  EXPECT_EQ(read_file(folder_ / "kept"), "kept");
  EXPECT_FALSE(fs::exists(folder_ / "nothing"));
  EXPECT_THAT([&] { write_file_atomically("/dev/null", "new"); }, ThrowsMessage<Error>(HasSubstr("is a device")));
}

TEST_F(FileTest, AFileTruncatedWhileItIsReadEndsTheProcessWithAnError) {
  const auto read_truncated = [&] {
    write_file_atomically(folder_ / "x\x1b[2J", std::string(1 << 20, 'x'));
    const MappedFile file(folder_ / "x\x1b[2J");
    fs::resize_file(folder_ / "x\x1b[2J", 4096);
    volatile std::byte last = file.data()[file.size() - 1];
    (void)last;
  };
  EXPECT_EXIT(read_truncated(), ::testing::ExitedWithCode(1), "error: '.*x.x1b.2J' was truncated by another process");
}

TEST_F(FileTest, OtherBusErrorsStayWhatTheyWere) {
  const auto raise_elsewhere = [&] {
    write_file_atomically(folder_ / "x", "x");
    const MappedFile file(folder_ / "x");
    ::raise(SIGBUS);
    ::raise(SIGBUS);  // the first gave the signal back to the system
  };
  EXPECT_EXIT(raise_elsewhere(), ::testing::KilledBySignal(SIGBUS), "");
}

TEST_F(FileTest, TheLimitIsKept) {
  write_file_atomically(folder_ / "x", "12345");
  EXPECT_EQ(read_file(folder_ / "x", 5), "12345");
  EXPECT_THAT([&] { read_file(folder_ / "x", 4); }, ThrowsMessage<Error>(HasSubstr("larger than 4 B")));
  EXPECT_THAT([] { read_file("/proc/self/status", 100); }, ThrowsMessage<Error>(HasSubstr("larger than 100 B")));
}

TEST_F(FileTest, MapsMoveTheirContent) {
  write_file_atomically(folder_ / "x", "abc");
  write_file_atomically(folder_ / "empty", "");
  MappedFile first(folder_ / "x");
  MappedFile second(std::move(first));
  ASSERT_EQ(second.size(), 3U);
  EXPECT_EQ(static_cast<char>(second.data()[2]), 'c');
  MappedFile empty(folder_ / "empty");
  EXPECT_EQ(empty.size(), 0U);
  empty = std::move(second);
  EXPECT_EQ(empty.size(), 3U);
  EXPECT_EQ(empty.path(), folder_ / "x");
}

// Pages of this process that are in memory and belong to files.
int64_t resident_file_pages() {
  int64_t total = 0, resident = 0, of_files = 0;
  std::ifstream("/proc/self/statm") >> total >> resident >> of_files;
  return of_files;
}

TEST_F(FileTest, ReleasedBytesLeaveMemoryAndStayReadable) {
  constexpr size_t kSize = 16 << 20;
  const int64_t pages = static_cast<int64_t>(kSize) / sysconf(_SC_PAGESIZE);
  write_file_atomically(folder_ / "x", std::string(kSize, 'x'));
  const MappedFile file(folder_ / "x");
  const int64_t before = resident_file_pages();
  auto count = [&] { return std::count(file.data(), file.data() + kSize, std::byte{'x'}); };
  EXPECT_EQ(count(), static_cast<std::ptrdiff_t>(kSize));
  EXPECT_GE(resident_file_pages() - before, pages * 9 / 10);
  file.release(1, kSize - 2);  // all but the first and the last page, which are not wholly inside
  EXPECT_LE(resident_file_pages() - before, pages / 10);
  EXPECT_EQ(count(), static_cast<std::ptrdiff_t>(kSize));
  file.release(0, 10);  // no whole page: nothing to do
}

TEST_F(FileTest, MakesFoldersAndSaysWhyItCannot) {
  create_folders(folder_ / "a" / "b", "");
  create_folders(folder_ / "a" / "b", "");  // it is there
  EXPECT_TRUE(fs::is_directory(folder_ / "a" / "b"));
  write_file_atomically(folder_ / "x", "");
  EXPECT_THAT([&] { create_folders(folder_ / "x" / "y", "name another folder"); },
              ThrowsMessage<Error>("cannot create " + (folder_ / "x" / "y").string() +
                                   ": Not a directory; name another folder"));
}

}  // namespace
}  // namespace fathom
