// The memory in which the ranks of a communicator meet: a file without a name, which the processes open by way of the
// one that has made it. So nothing stays behind, however they end. Each holds a lock on its rank's byte of the file,
// which the kernel releases with the process: the others see whether it lives.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "nccl_parts.h"
#include "phantom.h"

static __thread char said[512];
void nccl_say(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(said, sizeof said, format, arguments);
  va_end(arguments);
  fprintf(stderr, "phantom: NCCL: %s\n", said);
}
const char* nccl_said(void) { return said; }

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct nccl_clique* cliques;  // those of this process

bool nccl_make_id(char id[NCCL_ID_BYTES]) {
  static _Atomic int made;
  const int file = memfd_create("fathom-phantom-nccl", MFD_CLOEXEC);
  if (file < 0) {
    nccl_say("no memory can be shared between the ranks: %s", strerror(errno));
    return false;
  }
  memset(id, 0, NCCL_ID_BYTES);
  snprintf(id, NCCL_ID_BYTES, "%d %d %d", (int)getpid(), file, made++);
  return true;
}

// The file of the name in this process if it has made it, else in that process, opened anew; -1 where that has ended.
static int file_of(const char* id, bool opens) {
  int process = 0, file = -1;
  if (sscanf(id, "%d %d", &process, &file) != 2) return -1;
  if (process == (int)getpid()) return file;
  if (!opens) return -1;
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", process, file);
  return open(path, O_RDWR | O_CLOEXEC);
}
void nccl_forget_id(const char id[NCCL_ID_BYTES]) {
  const int file = file_of(id, false);
  if (file >= 0) close(file);
}

static size_t page_up(size_t bytes) { return (bytes + 4095) / 4096 * 4096; }

static bool map(struct nccl_clique* clique) {
  const size_t ranks = page_up((size_t)clique->size * sizeof(struct nccl_rank));
  const size_t pairs = page_up((size_t)clique->size * (size_t)clique->size * sizeof(struct nccl_pair));
  const size_t slots = (size_t)clique->size + (size_t)clique->size * (size_t)clique->size * NCCL_AHEAD;
  // Pages of it that nobody writes are none.
  clique->bytes = ranks + pairs + slots * phantom_gpu()->kept_bytes;
  clique->file = file_of(clique->id, true);
  if (clique->file < 0 || ftruncate(clique->file, (off_t)clique->bytes)) return false;
  void* memory = mmap(NULL, clique->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, clique->file, 0);
  if (memory == MAP_FAILED) return false;
  madvise(memory, clique->bytes, MADV_DONTFORK);
  clique->ranks = memory;
  clique->pairs = (struct nccl_pair*)((char*)memory + ranks);
  clique->memory = (char*)memory + ranks + pairs;
  return true;
}

static struct nccl_clique* find(const char id[NCCL_ID_BYTES]) {
  for (struct nccl_clique* each = cliques; each; each = each->next) {
    if (!strncmp(each->id, id, NCCL_ID_BYTES)) return each;
  }
  return NULL;
}

struct nccl_clique* nccl_join(const char id[NCCL_ID_BYTES], int size, int rank, int place) {
  pthread_mutex_lock(&mutex);
  struct nccl_clique* clique = find(id);
  if (!clique) {
    clique = calloc(1, sizeof *clique);
    if (clique) {
      memcpy(clique->id, id, NCCL_ID_BYTES);
      clique->size = size;
      if (!map(clique)) {
        nccl_say(
            "rank %d cannot join the others: %s (the process that has made the communicator's name may have ended)",
            rank, strerror(errno));
        if (clique->file >= 0) close(clique->file);
        free(clique);
        clique = NULL;
      } else {
        clique->next = cliques;
        cliques = clique;
      }
    }
  }
  if (clique) {
    clique->uses++;
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = rank, .l_len = 1};
    fcntl(clique->file, F_SETLK, &lock);
    clique->ranks[rank].process = (int)getpid();
    clique->ranks[rank].place = place;
    clique->ranks[rank].presence = kPresent;
  }
  pthread_mutex_unlock(&mutex);
  return clique;
}

void nccl_leave(struct nccl_clique* clique) {
  pthread_mutex_lock(&mutex);
  if (--clique->uses == 0) {
    struct nccl_clique** link = &cliques;
    while (*link != clique) link = &(*link)->next;
    *link = clique->next;
    munmap(clique->ranks, clique->bytes);
    close(clique->file);
    free(clique);
  }
  pthread_mutex_unlock(&mutex);
}

// A script that is ended after so many steps leaves the others to theirs: what they ask of this process from now on
// comes at once, and nothing is in it. An exported function, for phantom_gpu/agent.
void phantom_leave_ranks(void) {
  pthread_mutex_lock(&mutex);
  for (struct nccl_clique* clique = cliques; clique; clique = clique->next) {
    for (int rank = 0; rank < clique->size; rank++) {
      struct nccl_rank* each = &clique->ranks[rank];
      if (each->presence == kPresent && each->process == (int)getpid()) each->presence = kEnded;
    }
  }
  pthread_mutex_unlock(&mutex);
}

char* nccl_bytes_of(const struct nccl_clique* clique, int rank) {
  return clique->memory + (size_t)rank * phantom_gpu()->kept_bytes;
}
char* nccl_message(const struct nccl_clique* clique, int from, int to, long number) {
  const size_t pair = (size_t)from * (size_t)clique->size + (size_t)to;
  const size_t slot = (size_t)clique->size + pair * NCCL_AHEAD + (size_t)number % NCCL_AHEAD;
  return clique->memory + slot * phantom_gpu()->kept_bytes;
}

bool nccl_is_dead(const struct nccl_clique* clique, int rank) {
  const struct nccl_rank* other = &clique->ranks[rank];
  if (other->presence != kPresent || other->process == (int)getpid()) return false;
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = rank, .l_len = 1};
  return !fcntl(clique->file, F_GETLK, &lock) && lock.l_type == F_UNLCK;
}
bool nccl_someone_ended(void) {
  bool found = false;
  pthread_mutex_lock(&mutex);
  for (const struct nccl_clique* clique = cliques; clique; clique = clique->next) {
    for (int rank = 0; rank < clique->size && !found; rank++) {
      found = clique->ranks[rank].presence == kEnded || nccl_is_dead(clique, rank);
    }
  }
  pthread_mutex_unlock(&mutex);
  return found;
}
