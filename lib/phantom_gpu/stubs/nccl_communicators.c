// NCCL's communicators: how they begin, are split and end.
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

#include "nccl_parts.h"
#include "phantom.h"

// What comes with PyTorch 2.11 for CUDA 13, and with 2.4 for CUDA 12.
int ncclGetVersion(int* version) {
  *version = CUDART_VERSION >= 13000 ? 22809 : 22005;
  return kSuccess;
}

int ncclGetUniqueId(struct ncclUniqueId* id) {
  memset(id, 0, sizeof *id);
  id->internal[0] = 1;
  return !phantom_gpu()->kept_bytes || nccl_make_id(id->internal) ? kSuccess : kSystemError;
}

// All ranks of a process may begin in one group.
static int begin(struct communicator** made, int size, const char id[NCCL_ID_BYTES], int rank, int device) {
  *made = NULL;
  if (size < 1 || rank < 0 || rank >= size) {
    nccl_say("there is no rank %d of %d", rank, size);
    return kInvalidArgument;
  }
  struct communicator* of = calloc(1, sizeof *of);
  if (!of) return kSystemError;
  of->rank = rank;
  of->size = size;
  of->uses = 1;
  if (phantom_gpu()->kept_bytes) {
    of->clique = nccl_join(id, size, rank, phantom_gpu()->places[device]);
    if (!of->clique) return free(of), kSystemError;
  }
  *made = of;
  return nccl_meet(of);
}
int ncclCommInitRank(struct communicator** made, int size, struct ncclUniqueId id, int rank) {
  return begin(made, size, id.internal, rank, phantom_device());
}
int ncclCommInitRankConfig(struct communicator** made, int size, struct ncclUniqueId id, int rank, void* config) {
  (void)config;
  return begin(made, size, id.internal, rank, phantom_device());
}
int ncclCommInitRankScalable(struct communicator** made, int size, int rank, int ids, struct ncclUniqueId* id,
                             void* config) {
  (void)ids, (void)config;
  return begin(made, size, id->internal, rank, phantom_device());
}
int ncclGroupStart(void);
int ncclGroupEnd(void);
int ncclCommInitAll(struct communicator** made, int size, const int* devices) {
  struct ncclUniqueId id;
  int result = ncclGetUniqueId(&id);
  ncclGroupStart();
  for (int rank = 0; rank < size && !result; rank++) {
    result = begin(&made[rank], size, id.internal, rank, devices ? devices[rank] : rank);
  }
  const int end = ncclGroupEnd();
  return result ? result : end;
}

// What each rank says of itself; the first of those that stay together names their communicator.
struct part {
  int color, key;
  char id[NCCL_ID_BYTES];
};
int ncclCommSplit(struct communicator* of, int color, int key, struct communicator** made, void* config) {
  (void)config;
  *made = NULL;
  struct part mine = {.color = color, .key = key};
  if (!of->clique) return color < 0 ? kSuccess : begin(made, of->size, mine.id, of->rank, phantom_device());
  struct part* parts = calloc((size_t)of->size, sizeof *parts);
  if (!parts || !nccl_make_id(mine.id)) return free(parts), kSystemError;
  int result = nccl_tell_all(of, &mine, parts, sizeof mine);
  int size = 0, rank = 0, first = of->rank;
  for (int i = 0; i < of->size; i++) {
    if (parts[i].color != color) continue;
    size++;
    if (parts[i].key < key || (parts[i].key == key && i < of->rank)) rank++;
    if (parts[i].key < parts[first].key || (parts[i].key == parts[first].key && i < first)) first = i;
  }
  if (result || color < 0 || first != of->rank) nccl_forget_id(mine.id);
  if (!result && color >= 0) result = begin(made, size, parts[first].id, rank, phantom_device());
  free(parts);
  return result;
}

static int end(struct communicator* of, bool aborts) {
  if (!of) return kInvalidArgument;
  of->aborted = aborts;
  if (of->clique && of->clique->ranks[of->rank].presence == kPresent) of->clique->ranks[of->rank].presence = kLeft;
  nccl_release(of);
  return kSuccess;
}
int ncclCommDestroy(struct communicator* of) { return end(of, false); }
int ncclCommAbort(struct communicator* of) { return end(of, true); }
int ncclCommFinalize(struct communicator* of) { return (void)of, kSuccess; }
int ncclCommGetAsyncError(struct communicator* of, int* error) {
  (void)of;
  *error = kSuccess;
  return kSuccess;
}
int ncclCommCount(const struct communicator* of, int* size) {
  *size = of->size;
  return kSuccess;
}
int ncclCommUserRank(const struct communicator* of, int* rank) {
  *rank = of->rank;
  return kSuccess;
}

// Products with a factor before the sum.
int ncclRedOpCreatePreMulSum(int* operation, void* factor, int type, int lies_here, struct communicator* of) {
  for (int i = 0; i < NCCL_FACTORS; i++) {
    struct nccl_factor* each = &of->factors[i];
    if (each->is_used) continue;
    each->is_used = true;
    each->is_known = lies_here != 0;
    memcpy(each->number, factor, nccl_width(type));
    *operation = kOperations + i;
    return kSuccess;
  }
  nccl_say("a communicator has no more than %d factors of sums at a time", NCCL_FACTORS);
  return kInvalidUsage;
}
int ncclRedOpDestroy(int operation, struct communicator* of) {
  if (operation < kOperations || operation >= kOperations + NCCL_FACTORS) return kInvalidArgument;
  of->factors[operation - kOperations].is_used = false;
  return kSuccess;
}

int ncclMemAlloc(void** pointer, size_t bytes) { return cudaMalloc(pointer, bytes) ? kSystemError : kSuccess; }
int ncclMemFree(void* pointer) { return cudaFree(pointer) ? kInvalidArgument : kSuccess; }
// Of memory that is known beforehand, copies are spared.
int ncclCommRegister(struct communicator* of, void* memory, size_t bytes, void** handle) {
  (void)of, (void)memory, (void)bytes;
  *handle = NULL;
  return kSuccess;
}
int ncclCommDeregister(struct communicator* of, void* handle) { return (void)of, (void)handle, kSuccess; }

const char* ncclGetErrorString(int result) {
  switch (result) {
    case kSuccess:
      return "no error";
    case kSystemError:
      return "unhandled system error";
    case kInvalidArgument:
      return "invalid argument";
    case kInvalidUsage:
      return "invalid usage";
    case kRemoteError:
      return "remote process exited or there was a network error";
    default:
      return "internal error, or what the phantom GPU cannot do";
  }
}
const char* ncclGetLastError(const struct communicator* of) { return (void)of, nccl_said(); }
