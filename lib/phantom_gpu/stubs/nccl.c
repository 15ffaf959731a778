// NCCL's exchanges between the processes of one machine. In scripts' processes messages whose numbers are known, and
// small ones, arrive; of all others the ranks only meet. In fathom's own nothing is exchanged, and every call returns
// at once.
#include <stdlib.h>
#include <string.h>

#include "nccl_parts.h"
#include "phantom.h"

static const char* const kinds[] = {"ncclCommInitRank", "ncclAllGather",     "ncclAllReduce",
                                    "ncclReduce",       "ncclReduceScatter", "ncclBroadcast",
                                    "ncclAlltoAll",     "ncclSend",          "ncclRecv"};

// What a call wants, and how far it is.
struct work {
  struct communicator* of;
  struct nccl_call call;
  const char* from;
  char* to;
  size_t bytes, offset;  // that this rank gives, or receives by itself; of them, those that are through
  int peer;
  char factor[8];  // of a sum that has one: who calls may give it back before the end of the group
  bool is_given, is_done, knows;
  int awaited;  // the rank without which it cannot go on
};
enum step { kWaits, kGoesOn, kFails };

static __thread struct work* works;
static __thread size_t work_count, work_room;
static __thread int depth;
static __thread int failure;  // of the group

static phantom_receiver* receiver;
void phantom_on_receive(phantom_receiver* of_script) { receiver = of_script; }

static enum step fail(int result) {
  failure = result;
  return kFails;
}

static size_t piece_of(const struct work* work) {
  const size_t rest = work->bytes - work->offset, most = phantom_gpu()->kept_bytes;
  return rest < most ? rest : most;
}

static void finish(struct work* work, bool receives, size_t bytes) {
  work->is_done = true;
  if (receives && receiver) receiver(work->to, bytes, work->knows);
}

// ---- collectives ----

static bool gives(const struct work* work, int rank) {
  return work->call.kind != kBroadcast || rank == work->call.root;
}

// The rounds of a rank whose process has ended its script early are over.
static bool has_ended(const struct nccl_rank* rank, long round) {
  return rank->presence == kEnded && rank->given < round;
}

static bool reduces(const struct work* work) {
  const int kind = work->call.kind;
  return kind == kAllReduce || kind == kReduce || kind == kReduceScatter;
}

static struct nccl_reduction reduction_of(const struct work* work) {
  const bool has_factor = work->call.operation >= kOperations;
  return (struct nccl_reduction){.type = work->call.type,
                                 .operation = has_factor ? kSum : work->call.operation,
                                 .ranks = work->of->size,
                                 .factor = has_factor ? work->factor : NULL};
}

static void reduce(struct work* work, char* to, size_t begin, size_t bytes) {
  const struct nccl_clique* clique = work->of->clique;
  const struct nccl_reduction how = reduction_of(work);
  const size_t count = bytes / nccl_width(how.type);
  memcpy(to, nccl_bytes_of(clique, 0) + begin, bytes);
  for (int i = 1; i < work->of->size; i++) nccl_add(&how, to, nccl_bytes_of(clique, i) + begin, count);
  nccl_end(&how, to, count);
}

// Takes what this rank gets of the ranks' bytes from `offset` on.
static void collect(struct work* work, size_t bytes) {
  const struct nccl_clique* clique = work->of->clique;
  const int size = work->of->size, rank = work->of->rank;
  const size_t offset = work->offset, part = work->bytes / (size_t)size, mine = part * (size_t)rank;
  // Of them, those of this rank's part.
  const size_t begin = offset > mine ? offset : mine;
  const size_t end = offset + bytes < mine + part ? offset + bytes : mine + part;
  switch (work->call.kind) {
    case kAllGather:
      for (int i = 0; i < size; i++) {
        memcpy(work->to + (size_t)i * work->bytes + offset, nccl_bytes_of(clique, i), bytes);
      }
      break;
    case kBroadcast:
      memcpy(work->to + offset, nccl_bytes_of(clique, work->call.root), bytes);
      break;
    case kReduce:
      if (rank != work->call.root) break;
      __attribute__((fallthrough));
    case kAllReduce:
      reduce(work, work->to + offset, 0, bytes);
      break;
    case kReduceScatter:
      if (begin < end) reduce(work, work->to + begin - mine, begin - offset, end - begin);
      break;
    case kAllToAll:
      for (int i = 0; i < size && begin < end; i++) {
        memcpy(work->to + (size_t)i * part + begin - mine, nccl_bytes_of(clique, i) + begin - offset, end - begin);
      }
  }
}

static size_t received_bytes(const struct work* work) {
  const size_t size = (size_t)work->of->size;
  return work->call.kind == kAllGather       ? work->bytes * size
         : work->call.kind == kReduceScatter ? work->bytes / size
                                             : work->bytes;
}

static bool is_same(const struct nccl_call* a, const struct nccl_call* b) {
  return a->kind == b->kind && a->type == b->type && a->count == b->count && a->root == b->root;
}

static enum step give(struct work* work) {
  struct nccl_rank *ranks = work->of->clique->ranks, *mine = &ranks[work->of->rank];
  for (int i = 0; i < work->of->size; i++) {
    work->awaited = i;  // who has not read the round before
    if (ranks[i].presence == kPresent && ranks[i].done < mine->given) return kWaits;
  }
  mine->call = work->call;
  if (work->call.carries && gives(work, work->of->rank)) {
    char* given = nccl_bytes_of(work->of->clique, work->of->rank);
    const struct nccl_reduction how = reduction_of(work);
    memcpy(given, work->from + work->offset, piece_of(work));
    if (reduces(work)) nccl_scale(&how, given, piece_of(work) / nccl_width(how.type));
  }
  mine->given++;
  work->is_given = true;
  return kGoesOn;
}

static enum step advance_collective(struct work* work) {
  struct communicator* of = work->of;
  struct nccl_rank *ranks = of->clique->ranks, *mine = &ranks[of->rank];
  if (mine->presence == kEnded) return finish(work, true, received_bytes(work)), kGoesOn;
  if (!work->is_given) return give(work);
  const long round = mine->given;
  for (int i = 0; i < of->size; i++) {
    work->awaited = i;
    if (ranks[i].given < round && ranks[i].presence != kEnded) return kWaits;
  }
  bool is_whole = true, knows = true;
  for (int i = 0; i < of->size; i++) {
    const bool ended = has_ended(&ranks[i], round);
    if (!ended && !is_same(&ranks[i].call, &mine->call)) {
      nccl_say("rank %d calls %s of %zu numbers of type %d where rank %d calls %s of %zu of type %d", of->rank,
               kinds[mine->call.kind], mine->call.count, mine->call.type, i, kinds[ranks[i].call.kind],
               ranks[i].call.count, ranks[i].call.type);
      return fail(kInvalidUsage);
    }
    if (!gives(work, i)) continue;
    is_whole = is_whole && !ended && ranks[i].call.carries;
    knows = knows && !ended && ranks[i].call.knows;
  }
  const size_t piece = piece_of(work);
  if (is_whole) collect(work, piece);
  work->offset += piece;
  work->knows = is_whole && knows;
  work->is_given = false;
  mine->done = round;
  if (is_whole && work->offset < work->bytes) return kGoesOn;
  finish(work, work->call.kind != kReduce || work->call.root == of->rank, received_bytes(work));
  return kGoesOn;
}

// ---- messages, and the beginning ----

static enum step advance_message(struct work* work) {
  struct communicator* of = work->of;
  const struct nccl_clique* clique = of->clique;
  const bool sends = work->call.kind == kSend;
  const int from = sends ? of->rank : work->peer, to = sends ? work->peer : of->rank;
  struct nccl_pair* pair = &clique->pairs[(size_t)from * (size_t)clique->size + (size_t)to];
  const bool stops = clique->ranks[of->rank].presence == kEnded;
  work->awaited = work->peer;
  if (stops || (sends && clique->ranks[work->peer].presence == kEnded))
    return finish(work, !sends, work->bytes), kGoesOn;
  const long number = sends ? pair->sent : pair->taken;
  const size_t piece = piece_of(work);
  struct nccl_call* call = &pair->calls[number % NCCL_AHEAD];
  char* message = nccl_message(clique, from, to, number);
  if (sends) {
    if (number - pair->taken == NCCL_AHEAD) return kWaits;
    *call = work->call;
    if (call->carries) memcpy(message, work->from + work->offset, piece);
    pair->sent++;
  } else {
    const bool ended = clique->ranks[work->peer].presence == kEnded;  // and has sent all that it will
    if (number == pair->sent) {
      if (!ended) return kWaits;
      return finish(work, true, work->bytes), kGoesOn;
    }
    if (call->type != work->call.type || call->count != work->call.count) {
      nccl_say("rank %d receives %zu numbers of type %d of rank %d, which sends %zu of type %d", of->rank,
               work->call.count, work->call.type, work->peer, call->count, call->type);
      return fail(kInvalidUsage);
    }
    work->call.carries = call->carries;
    work->knows = call->carries && call->knows;
    if (call->carries) memcpy(work->to + work->offset, message, piece);
    pair->taken++;
  }
  work->offset += piece;
  if (!work->call.carries || work->offset == work->bytes) finish(work, !sends, work->bytes);
  return kGoesOn;
}

static enum step advance_join(struct work* work) {
  struct communicator* of = work->of;
  const struct nccl_rank* ranks = of->clique->ranks;
  for (int i = 0; i < of->size; i++) {
    work->awaited = i;
    if (ranks[i].presence == kAbsent) return kWaits;
    if (i == of->rank || ranks[i].place != ranks[of->rank].place) continue;
    nccl_say("ranks %d and %d are on the same GPU, number %d of the machine", i, of->rank, ranks[i].place);
    return fail(kInvalidUsage);
  }
  work->is_done = true;
  return kGoesOn;
}

// ---- groups ----

static enum step advance(struct work* work) {
  if (work->of->aborted) {
    nccl_say("rank %d has aborted the communicator", work->of->rank);
    return fail(kInternalError);
  }
  const int kind = work->call.kind;
  return kind == kJoin ? advance_join(work) : kind >= kSend ? advance_message(work) : advance_collective(work);
}

// Calls of the same communicator come one after the other, messages those of the same peer and way.
static bool is_behind(const struct work* one, const struct work* other) {
  if (one->of != other->of) return false;
  const bool messages = one->call.kind >= kSend;
  if (messages != (other->call.kind >= kSend)) return false;
  return !messages || (one->call.kind == other->call.kind && one->peer == other->peer);
}

// Fails if nothing will come any more; what was done last may have come meanwhile.
static enum step look_for_awaited(struct work* work, long waits, int signals) {
  const char* why = nccl_end_of(work->of->clique, work->awaited, waits);
  if (!why && nccl_signals() != signals) why = "and is to end";
  if (!why) return kWaits;
  const enum step step = advance(work);
  if (step != kWaits) return step;
  nccl_say("rank %d waits in %s for rank %d, %s", work->of->rank, kinds[work->call.kind], work->awaited, why);
  return fail(kRemoteError);
}

void nccl_release(struct communicator* of) {
  if (--of->uses) return;
  if (of->clique) nccl_leave(of->clique);
  free(of);
}

// All that has been called, at once: a rank may wait for several others, and be several itself.
static int run(void) {
  struct work* const all = works;
  const size_t count = work_count;
  works = NULL;
  work_count = work_room = 0;
  const int signals = nccl_signals();
  bool is_open = count > 0;
  for (long waits = 0; is_open && !failure; waits++) {
    is_open = false;
    for (size_t i = 0; i < count && !failure; i++) {
      struct work* work = &all[i];
      bool waits_for_another = work->is_done;
      for (size_t k = 0; k < i && !waits_for_another; k++)
        waits_for_another = !all[k].is_done && is_behind(work, &all[k]);
      if (waits_for_another) {
        is_open = is_open || !work->is_done;
        continue;
      }
      if (advance(work) == kGoesOn) waits = 0;
      is_open = is_open || !work->is_done;
      if (!work->is_done && !failure && waits % 500 == 499) look_for_awaited(work, waits, signals);
    }
    if (is_open && waits) nccl_rest(waits);
  }
  for (size_t i = 0; i < count; i++) nccl_release(all[i].of);
  free(all);
  const int result = failure;
  failure = kSuccess;
  return result;
}

static int call(struct work work) {
  if (!work.of->clique) return kSuccess;
  const int vouched = phantom_vouched();
  const bool is_small = work.bytes <= phantom_gpu()->kept_bytes;
  work.call.carries = work.call.carries || vouched == PHANTOM_KNOWN || (vouched == PHANTOM_SILENT && is_small);
  work.call.knows = vouched == PHANTOM_KNOWN;
  if (work.call.operation >= kOperations) {
    const struct nccl_factor* factor = &work.of->factors[work.call.operation - kOperations];
    work.call.knows = work.call.knows && factor->is_known;
    memcpy(work.factor, factor->number, sizeof work.factor);
  }
  if (work_count == work_room) {
    struct work* more = realloc(works, (2 * work_room + 8) * sizeof *works);
    if (!more) return kSystemError;
    works = more;
    work_room = 2 * work_room + 8;
  }
  work.of->uses++;
  works[work_count++] = work;
  return depth ? kSuccess : run();
}

int nccl_meet(struct communicator* of) { return call((struct work){.of = of, .call.kind = kJoin}); }
int nccl_tell_all(struct communicator* of, const void* from, void* to, size_t bytes) {
  struct work* const grouped = works;
  const size_t count = work_count, room = work_room;
  const int of_depth = depth;
  works = NULL;
  work_count = work_room = 0;
  depth = 0;
  const int result = call((struct work){.of = of,
                                        .call = {.kind = kAllGather, .type = kUint8, .count = bytes, .carries = true},
                                        .from = from,
                                        .to = to,
                                        .bytes = bytes});
  works = grouped;
  work_count = count;
  work_room = room;
  depth = of_depth;
  for (int i = 0; i < of->size && !result; i++) {
    if (!has_ended(&of->clique->ranks[i], of->clique->ranks[of->rank].given)) continue;
    nccl_say("rank %d asks of all what rank %d has ended before, after the steps asked for", of->rank, i);
    return kRemoteError;
  }
  return result;
}

int ncclGroupStart(void) { return depth++, kSuccess; }
int ncclGroupEnd(void) {
  if (depth == 0) return kInvalidUsage;
  return --depth ? kSuccess : run();
}
// Calls of this thread that wait for the end of their group. An exported function, for phantom_gpu/agent.
long phantom_grouped(void) { return (long)work_count; }

int nccl_exchange(struct communicator* of, enum kind kind, const void* from, void* to, size_t count, size_t parts,
                  int type, int operation, int root, struct stream* stream) {
  phantom_goes_to(stream);
  phantom_launched();
  const size_t width = nccl_width(type);
  const bool is_known = operation < kOperations ||
                        (operation < kOperations + NCCL_FACTORS && of->factors[operation - kOperations].is_used);
  if (!width || operation < 0 || !is_known || root < 0 || root >= (of->clique ? of->size : root + 1)) {
    nccl_say("%s is given a type (%d), an operation (%d) or a rank (%d) that there is not", kinds[kind], type,
             operation, root);
    return kInvalidArgument;
  }
  return call(
      (struct work){.of = of,
                    .call = {.kind = (int)kind, .type = type, .operation = operation, .root = root, .count = count},
                    .from = from,
                    .to = to,
                    .peer = root,
                    .bytes = count * parts * width});
}
