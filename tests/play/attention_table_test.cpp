#include "play/attention_table.h"

#include <gmock/gmock.h>

namespace fathom::play {
namespace {

using ::testing::HasSubstr;

TEST(FormatAttention, SetsBothKernelsSideBySide) {
  AttentionPoint point;
  point.length = 2048;
  point.math = {.dry_run = 64 << 20, .measured = 64 << 20, .seconds = 0.08};
  point.flash = {.dry_run = 4 << 20, .measured = (4 << 20) + 8, .seconds = 0.02};
  const std::string text = format_attention({point});
  EXPECT_THAT(text, HasSubstr("64.00 MiB"));
  EXPECT_THAT(text, HasSubstr("16.0×")) << "64 to 4 MiB";
  EXPECT_THAT(text, HasSubstr("0, +8"));
  EXPECT_THAT(text, HasSubstr("4.0×")) << "80 to 20 ms";
}

TEST(FormatAttention, MarksWhatWasNotMeasured) {
  AttentionPoint point;
  point.length = 131072;
  point.math.dry_run = int64_t{1} << 40;
  point.flash.dry_run = 1 << 28;
  EXPECT_THAT(format_attention({point}), HasSubstr("—, —"));
}

}  // namespace
}  // namespace fathom::play
