// NCCL: what is exchanged is nothing, and comes at once.
#include "phantom.h"

struct ncclUniqueId {
  char internal[128];
};

static char communicator;

int ncclGetUniqueId(struct ncclUniqueId* id) {
  id->internal[0] = 1;
  return 0;
}
int ncclCommInitRank(void** made, int ranks, struct ncclUniqueId id, int rank) {
  (void)ranks, (void)id, (void)rank;
  *made = &communicator;
  return 0;
}
int ncclCommGetAsyncError(void* of, int* error) {
  (void)of;
  *error = 0;
  return 0;
}
int ncclCommAbort(void* ended) { return (void)ended, 0; }
int ncclCommDestroy(void* ended) { return (void)ended, 0; }
int ncclGroupStart(void) { return 0; }
int ncclGroupEnd(void) { return 0; }
int ncclAllGather(void) { return phantom_launched(), 0; }
int ncclBroadcast(void) { return phantom_launched(), 0; }
int ncclSend(void) { return phantom_launched(), 0; }
int ncclRecv(void) { return phantom_launched(), 0; }
