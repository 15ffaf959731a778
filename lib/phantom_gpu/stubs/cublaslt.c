// cuBLASLt: descriptors exist, one algorithm is always found, every product succeeds without being computed. The
// library's headers are not installed; opaque pointers are void* here.
#include <cuda_runtime_api.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "phantom.h"

enum { kSuccess = 0, kAllocationFailed = 3 };  // cublasStatus_t

static int make_handle(void** handle) {
  *handle = phantom_handle();
  return *handle ? kSuccess : kAllocationFailed;
}
static int destroy_handle(void* handle) {
  free(handle);
  return kSuccess;
}

size_t cublasLtGetVersion(void) { return CUDART_VERSION >= 13000 ? 130100 : 120103; }
int cublasLtCreate(void** handle) { return make_handle(handle); }
int cublasLtDestroy(void* handle) { return destroy_handle(handle); }
int cublasLtMatmulDescCreate(void** descriptor, int compute_type, int scale_type) {
  (void)compute_type, (void)scale_type;
  return make_handle(descriptor);
}
int cublasLtMatmulDescDestroy(void* descriptor) { return destroy_handle(descriptor); }
int cublasLtMatmulPreferenceCreate(void** preference) { return make_handle(preference); }
int cublasLtMatmulPreferenceDestroy(void* preference) { return destroy_handle(preference); }
int cublasLtMatrixLayoutCreate(void** layout, int type, uint64_t rows, uint64_t columns, int64_t leading_dimension) {
  (void)type, (void)rows, (void)columns, (void)leading_dimension;
  return make_handle(layout);
}
int cublasLtMatrixLayoutDestroy(void* layout) { return destroy_handle(layout); }

// cublasLtMatmulHeuristicResult_t
struct heuristic_result {
  uint64_t algorithm[8];
  size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
};

// The algorithm found wants no workspace of its own: LibTorch's fixed one is allocated before the heuristic is asked.
int cublasLtMatmulAlgoGetHeuristic(void* handle, void* product, void* a, void* b, void* c, void* d, void* preference,
                                   int wanted, struct heuristic_result* results, int* found) {
  (void)handle, (void)product, (void)a, (void)b, (void)c, (void)d, (void)preference;
  if (wanted < 1) return 7;  // CUBLAS_STATUS_INVALID_VALUE
  memset(results, 0, sizeof *results);
  results->waves = 1;
  *found = 1;
  return kSuccess;
}
