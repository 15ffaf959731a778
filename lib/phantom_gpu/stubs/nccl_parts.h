// What the parts of NCCL's stub share: numbers by their types, and the memory in which the ranks of a communicator
// meet.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

enum ncclResult {
  kSuccess = 0,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
};
enum ncclType {
  kInt8,
  kUint8,
  kInt32,
  kUint32,
  kInt64,
  kUint64,
  kHalf,
  kFloat,
  kDouble,
  kBfloat16,
  kE4m3,
  kE5m2,
  kTypes
};
enum ncclOperation { kSum, kProduct, kMaximum, kMinimum, kAverage, kOperations };

// ---- nccl_reduce.c ----

size_t nccl_width(int type);  // bytes of a number; 0: there is no such type
// A reduction of `count` numbers: what each rank does to its own first, the addition of another rank's, and what is
// done to the result. An average scales the ranks' own numbers where they are floating-point, as NCCL does, else the
// result.
struct nccl_reduction {
  int type, operation, ranks;
  const void* factor;  // one number of the type, by which a rank's own are multiplied; null: none is
};
void nccl_scale(const struct nccl_reduction* how, void* numbers, size_t count);
void nccl_add(const struct nccl_reduction* how, void* to, const void* from, size_t count);
void nccl_end(const struct nccl_reduction* how, void* to, size_t count);

// ---- nccl_share.c ----

enum { NCCL_ID_BYTES = 128, NCCL_AHEAD = 4 };  // messages that a rank may send before the first is taken

// What a rank says of its part in a collective, or of a message, before any byte of it.
struct nccl_call {
  int kind, type, operation, root;
  size_t count;
  bool carries;  // its bytes are there
  bool knows;    // and are what a GPU would have
};

enum nccl_presence { kAbsent, kPresent, kLeft, kEnded };

struct nccl_rank {
  _Atomic int presence;      // enum nccl_presence
  _Atomic int process;       // its number
  _Atomic int place;         // of its device in the machine
  _Atomic long given, done;  // rounds of collectives: those whose call stands here, and those whose others it has read
  struct nccl_call call;
};
struct nccl_pair {
  _Atomic long sent, taken;
  struct nccl_call calls[NCCL_AHEAD];
};

// The ranks of a communicator, as one process knows them.
struct nccl_clique {
  struct nccl_clique* next;  // of this process
  int uses;                  // communicators of this process
  int size;
  int file;
  size_t bytes;
  char id[NCCL_ID_BYTES];
  struct nccl_rank* ranks;
  struct nccl_pair* pairs;  // from × size + to
  char* memory;
};

// Makes what a clique will meet in, and its name; false (nccl_say tells) if there is no memory.
bool nccl_make_id(char id[NCCL_ID_BYTES]);
void nccl_forget_id(const char id[NCCL_ID_BYTES]);  // that nobody will join
// The clique of that name, and this process's rank in it; null (nccl_say tells) if it cannot be had.
struct nccl_clique* nccl_join(const char id[NCCL_ID_BYTES], int size, int rank, int place);
void nccl_leave(struct nccl_clique* clique);  // gives a use of it back
// Where a rank's bytes of a round lie, and those of a message.
char* nccl_bytes_of(const struct nccl_clique* clique, int rank);
char* nccl_message(const struct nccl_clique* clique, int from, int to, long number);
// Whether the process of a rank that has joined has ended.
bool nccl_is_dead(const struct nccl_clique* clique, int rank);
// Whether a rank of any clique of this process has ended its script early, or its process has ended.
bool nccl_someone_ended(void);
// Says for ncclGetLastError why a call of this thread fails, on stderr too.
void nccl_say(const char* format, ...) __attribute__((format(printf, 1, 2)));
const char* nccl_said(void);

// ---- nccl_wait.c ----

// Between two looks for another rank, of which there were so many.
void nccl_rest(long looks);
// Why a rank will not do what is awaited of it; null: it may yet.
const char* nccl_end_of(const struct nccl_clique* clique, int rank, long looks);
// How many signals have come that ask this process to end and that it has handlers for, since it first waited.
// Python's run on the main thread alone, and not while that waits.
int nccl_signals(void);

// ---- nccl.c ----

struct ncclUniqueId {
  char internal[NCCL_ID_BYTES];
};

enum { NCCL_FACTORS = 16 };  // that a communicator has at a time
struct communicator {
  struct nccl_clique* clique;  // null: nothing is exchanged
  int rank, size;
  _Atomic int uses;  // its owner's, and those of calls that run
  _Atomic bool aborted;
  struct nccl_factor {
    bool is_used, is_known;
    char number[8];  // of the type of the numbers that it scales
  } factors[NCCL_FACTORS];
};

enum kind { kJoin, kAllGather, kAllReduce, kReduce, kReduceScatter, kBroadcast, kAllToAll, kSend, kReceive };

// Gives a rank's call to its group, or makes it. What is sent, or received of a peer, are so many parts (one for each
// rank in a reduce-scatter and an all-to-all, else one) of `count` numbers. root: a peer too.
struct stream;
int nccl_exchange(struct communicator* of, enum kind kind, const void* from, void* to, size_t count, size_t parts,
                  int type, int operation, int root, struct stream* stream);
int nccl_meet(struct communicator* of);  // waits for all, at the end of a group
// As ncclAllGather of bytes of the host, at once.
int nccl_tell_all(struct communicator* of, const void* from, void* to, size_t bytes);
void nccl_release(struct communicator* of);
