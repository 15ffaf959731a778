// Of nccl.h, which comes with NCCL alone, what is needed here: its interface has been this one since NCCL 2.14.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

extern "C" {
struct ncclComm;
struct ncclUniqueId {
  char internal[128];
};
constexpr int ncclSuccess = 0, ncclInProgress = 7;
constexpr int ncclUint8 = 1;

int ncclGetUniqueId(ncclUniqueId* id);
int ncclCommInitRank(ncclComm** communicator, int ranks, ncclUniqueId id, int rank);
int ncclCommAbort(ncclComm* communicator);
int ncclCommDestroy(ncclComm* communicator);
int ncclCommGetAsyncError(ncclComm* communicator, int* error);
const char* ncclGetErrorString(int result);
const char* ncclGetLastError(ncclComm* communicator);
int ncclGroupStart();
int ncclGroupEnd();
int ncclAllGather(const void* sent, void* received, size_t count, int type, ncclComm* communicator,
                  cudaStream_t stream);
int ncclBroadcast(const void* sent, void* received, size_t count, int type, int root, ncclComm* communicator,
                  cudaStream_t stream);
int ncclSend(const void* sent, size_t count, int type, int peer, ncclComm* communicator, cudaStream_t stream);
int ncclRecv(void* received, size_t count, int type, int peer, ncclComm* communicator, cudaStream_t stream);
}
