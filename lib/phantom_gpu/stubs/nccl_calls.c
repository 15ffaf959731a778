// NCCL's collectives and messages, as PyTorch calls them.
#include "nccl_parts.h"

int ncclAllGather(const void* from, void* to, size_t count, int type, struct communicator* of, struct stream* stream) {
  return nccl_exchange(of, kAllGather, from, to, count, 1, type, kSum, 0, stream);
}
int ncclAllReduce(const void* from, void* to, size_t count, int type, int operation, struct communicator* of,
                  struct stream* stream) {
  return nccl_exchange(of, kAllReduce, from, to, count, 1, type, operation, 0, stream);
}
int ncclReduce(const void* from, void* to, size_t count, int type, int operation, int root, struct communicator* of,
               struct stream* stream) {
  return nccl_exchange(of, kReduce, from, to, count, 1, type, operation, root, stream);
}
int ncclReduceScatter(const void* from, void* to, size_t count, int type, int operation, struct communicator* of,
                      struct stream* stream) {
  return nccl_exchange(of, kReduceScatter, from, to, count, (size_t)of->size, type, operation, 0, stream);
}
int ncclBroadcast(const void* from, void* to, size_t count, int type, int root, struct communicator* of,
                  struct stream* stream) {
  return nccl_exchange(of, kBroadcast, from, to, count, 1, type, kSum, root, stream);
}
int ncclBcast(void* numbers, size_t count, int type, int root, struct communicator* of, struct stream* stream) {
  return nccl_exchange(of, kBroadcast, numbers, numbers, count, 1, type, kSum, root, stream);
}
int ncclAlltoAll(const void* from, void* to, size_t count, int type, struct communicator* of, struct stream* stream) {
  return nccl_exchange(of, kAllToAll, from, to, count, (size_t)of->size, type, kSum, 0, stream);
}
int ncclSend(const void* from, size_t count, int type, int peer, struct communicator* of, struct stream* stream) {
  return nccl_exchange(of, kSend, from, NULL, count, 1, type, kSum, peer, stream);
}
int ncclRecv(void* to, size_t count, int type, int peer, struct communicator* of, struct stream* stream) {
  return nccl_exchange(of, kReceive, NULL, to, count, 1, type, kSum, peer, stream);
}
