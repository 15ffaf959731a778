// Against what cuDNN 9.19 asked for on an H100.
#include "footprint/cudnn_workspace.h"

#include <gtest/gtest.h>

namespace fathom::footprint {
namespace {

struct Measured {
  int64_t rows, heads, key_heads, length, head_size, bytes;
};

TEST(CudnnWorkspace, IsWhatAnH100Asked) {
  for (const auto& [rows, heads, key_heads, length, head_size, bytes] : std::initializer_list<Measured>{
           {4, 9, 3, 512, 64, 9'511'168},
           {4, 32, 8, 2048, 64, 135'266'560},
           {2, 32, 8, 2048, 128, 134'742'272},
           {2, 32, 8, 4096, 128, 269'484'288},
           {1, 32, 8, 8192, 128, 269'484'288},
           {1, 32, 8, 2048, 128, 67'371'264},
           {2, 28, 4, 2048, 128, 117'899'520},
           {2, 32, 32, 2048, 128, 67'633'408},
           {8, 12, 12, 512, 64, 12'779'776},
           {2, 16, 8, 1024, 256, 67'240'192},
           {2, 32, 8, 1000, 128, 65'792'256},
           {3, 32, 8, 77, 128, 7'599'232},
       }) {
    const CudnnWorkspace work{rows * length, heads, head_size, 2, heads != key_heads};
    EXPECT_EQ(kCudnnWorkspace + work.backward_bytes(), bytes) << rows << " x " << length << " of " << heads;
  }
}

}  // namespace
}  // namespace fathom::footprint
