// The stubs of the phantom GPU stay out of a process that has CUDA's own runtime.
#include <gmock/gmock.h>

#include "base/error.h"
#include "phantom_gpu/gpu.h"

namespace fathom::phantom {
namespace {

// This test program is linked to LibTorch, and so to CUDA's own runtime.
TEST(LoadStubs, RefusesAProcessThatHasTheRealRuntime) {
  try {
    phantom_gpu::load_stubs(FATHOM_BINARY_DIR "/lib/fathom-phantom", {});
    FAIL() << "the stubs were loaded beside the real runtime";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("libcudart.so.13 is already loaded"));
  }
}

}  // namespace
}  // namespace fathom::phantom
