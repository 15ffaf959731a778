// cuDNN, as far as LibTorch asks it without computing: its version. Its operators answer CUDNN_STATUS_NOT_SUPPORTED;
// attention is played above it (lib/ledger/cuda/cudnn_attention.h).
#include <cuda_runtime_api.h>
#include <library_types.h>
#include <stddef.h>

#include "phantom.h"

// As new as any that a LibTorch for that CUDA was built with: an older one it refuses.
enum { kVersion = CUDART_VERSION >= 13000 ? 91900 : 91002 };

// Of which LibTorch makes the words of its error.
const char* cudnnGetErrorString(int status) {
  if (status == 0) return "CUDNN_STATUS_SUCCESS";
  return "a phantom GPU does not know what cuDNN's kernels take (convolutions, batch norms, recurrent layers); with "
         "torch.backends.cudnn.enabled = False the script takes PyTorch's own, here as on a GPU.";
}

size_t cudnnGetVersion(void) { return kVersion; }
int cudnnGetProperty(libraryPropertyType property, int* value) {
  *value = property == MAJOR_VERSION   ? kVersion / 10000
           : property == MINOR_VERSION ? kVersion / 100 % 100
                                       : kVersion % 100;
  return 0;
}
size_t cudnnGetCudartVersion(void) { return CUDART_VERSION; }
int cudnnCreate(void** handle) {
  *handle = phantom_handle();
  return *handle ? 0 : 4000;  // CUDNN_STATUS_INTERNAL_ERROR
}
