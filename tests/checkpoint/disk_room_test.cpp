// What a checkpoint takes of the disk, and the refusal when there is less.
#include "checkpoint/disk_room.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace fathom::checkpoint {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(DiskRoom, CountsTensorsAndWhatGoesBesideThem) {
  const ModelFiles files{"/nonexistent", std::nullopt};
  const NamedTensors parameters = {{"w", at::zeros({1000, 1000})}};
  const NamedTensors states = {{"m", at::zeros({1000, 1000})}, {"v", at::zeros({1000, 1000}, at::kBFloat16)}};
  const int64_t bytes = checkpoint_bytes(parameters, states, files);
  EXPECT_GT(bytes, 10'000'000);
  EXPECT_LT(bytes, 10'500'000);
}

TEST(DiskRoom, RefusesWithBothFigures) {
  const auto folder = std::filesystem::temp_directory_path();
  require_room(folder, "checkpoint-5", 4096);
  const int64_t free = free_bytes(folder);
  EXPECT_GT(free, 4096);
  try {
    require_room(folder, "checkpoint-5", int64_t{1} << 60);
    FAIL() << "an exbibyte was free";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("no room for checkpoint-5"), HasSubstr("1,152,921,504,606,846,976 bytes"),
                                    HasSubstr(folder.string()), HasSubstr("free some space")));
  }
  EXPECT_THROW(require_room(folder / "absent" / "folder", "checkpoint-5", 1), Error);
}

}  // namespace
}  // namespace fathom::checkpoint
