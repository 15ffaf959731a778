// A library for tests that kills the process with SIGKILL in the middle of its n-th write, or before its n-th fsync,
// rename or unlink, under a folder; or makes the disk full: "full:4096:/absolute/folder" lets 4096 bytes through, then
// writes fail with ENOSPC; or slow: with "slow:300:/absolute/folder" each write takes 300 ms more. Preloaded, it reads
// FATHOM_KILL_AT="write:7:/absolute/folder"; a test that links it calls fathom_kill_at() with the same text.
// FATHOM_KILL_COUNT=/some/file makes it write the counts there when the process ends, with its RANK behind the name.
//
// "fail:7:/absolute/folder" makes the seventh of all calls there fail that change files (and "from:7:…" all from the
// seventh on), with the number FATHOM_KILL_ERRNO, a write after half of it, and a removal with ENOENT after all of it,
// as where another process was quicker; with FATHOM_KILL_SIGNAL=15 the process gets that signal, too, and with
// FATHOM_KILL_RANK=1 it is the process alone whose RANK that is.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum Operation { kWrite, kFsync, kRename, kUnlink, kMake, kResize, kOperations };
static const char* const kNames[kOperations] = {"write", "fsync", "rename", "unlink", "make", "resize"};

static char folder[PATH_MAX];
static int doomed = -1;
static long doomed_number = 0;
static atomic_long room = LONG_MAX;  // bytes until the disk is full
static long delay = 0;               // of a write, in milliseconds
static atomic_long counts[kOperations];
static atomic_long changes;  // all of them
static long failing = 0;     // of these, the one that fails; 0: none
static int fails_on = 0, failure = EIO, with_signal = 0;

// Sets what kills; an empty or null text: nothing does. Counting starts anew.
void fathom_kill_at(const char* text) {
  doomed = -1;
  folder[0] = 0;
  delay = 0;
  atomic_store(&room, LONG_MAX);
  failing = 0;
  atomic_store(&changes, 0);
  for (int operation = 0; operation < kOperations; ++operation) atomic_store(&counts[operation], 0);
  if (text == NULL || text[0] == 0) return;
  char name[16];
  int path_start = 0;
  if (sscanf(text, "%15[a-z]:%ld:%n", name, &doomed_number, &path_start) < 2 || path_start == 0) {
    fprintf(stderr, "FATHOM_KILL_AT: expected operation:number:folder, got %s\n", text);
    _exit(99);
  }
  snprintf(folder, sizeof folder, "%s", text + path_start);
  if (strcmp(name, "full") == 0) atomic_store(&room, doomed_number);
  if (strcmp(name, "slow") == 0) delay = doomed_number;
  fails_on = strcmp(name, "from") == 0;
  const char *rank = getenv("RANK"), *only = getenv("FATHOM_KILL_RANK");
  const int here = only == NULL || (rank != NULL && strcmp(rank, only) == 0);
  if ((fails_on || strcmp(name, "fail") == 0) && here) {
    failing = doomed_number;
    if (getenv("FATHOM_KILL_ERRNO") != NULL) failure = atoi(getenv("FATHOM_KILL_ERRNO"));
    if (getenv("FATHOM_KILL_SIGNAL") != NULL) with_signal = atoi(getenv("FATHOM_KILL_SIGNAL"));
  }
  for (int operation = 0; operation < kOperations; ++operation) {
    if (strcmp(name, kNames[operation]) == 0) doomed = operation;
  }
}

long fathom_kill_count(const char* name) {
  for (int operation = 0; operation < kOperations; ++operation) {
    if (strcmp(name, kNames[operation]) == 0) return atomic_load(&counts[operation]);
  }
  return -1;
}

__attribute__((constructor)) static void start(void) { fathom_kill_at(getenv("FATHOM_KILL_AT")); }

__attribute__((destructor)) static void report(void) {
  const char *path = getenv("FATHOM_KILL_COUNT"), *rank = getenv("RANK");
  if (path == NULL) return;
  char name[PATH_MAX];
  snprintf(name, sizeof name, rank == NULL ? "%s" : "%s.%s", path, rank);
  FILE* file = fopen(name, "w");
  if (file == NULL) return;
  for (int operation = 0; operation < kOperations; ++operation) {
    fprintf(file, "%s %ld\n", kNames[operation], atomic_load(&counts[operation]));
  }
  fprintf(file, "all %ld\n", atomic_load(&changes));
  fclose(file);
}

static void* next(const char* name) {
  void* found = dlsym(RTLD_NEXT, name);
  if (found == NULL) abort();
  return found;
}

static int inside(const char* path) {
  const size_t length = strlen(folder);
  return length > 0 && strncmp(path, folder, length) == 0 && (path[length] == 0 || path[length] == '/');
}

// Paths may be relative to a folder's descriptor or to the working folder.
static int path_inside(int descriptor, const char* path) {
  char base[PATH_MAX], whole[2 * PATH_MAX];
  if (folder[0] == 0) return 0;
  if (path[0] == '/') return inside(path);
  if (descriptor == AT_FDCWD) {
    if (getcwd(base, sizeof base) == NULL) return 0;
  } else {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    const ssize_t length = readlink(link, base, sizeof base - 1);
    if (length < 0) return 0;
    base[length] = 0;
  }
  snprintf(whole, sizeof whole, "%s/%s", base, path);
  return inside(whole);
}

static int descriptor_inside(int descriptor) {
  char link[64], path[PATH_MAX];
  if (folder[0] == 0) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return inside(path);
}

static void die(void) {
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

// Counts a call there. True if it is to fail, with errno set; does not return if it is the one that must not end.
static int fails(enum Operation operation) {
  const long number = atomic_fetch_add(&counts[operation], 1) + 1;
  if ((int)operation == doomed && number == doomed_number) die();
  const long change = atomic_fetch_add(&changes, 1) + 1;
  if (failing == 0 || change < failing || (change > failing && !fails_on)) return 0;
  if (with_signal != 0 && change == failing) kill(getpid(), with_signal);
  errno = failure;
  return 1;
}

// offset: -1 for write.
static ssize_t real_write(int descriptor, const void* data, size_t size, off_t offset) {
  static ssize_t (*real)(int, const void*, size_t);
  static ssize_t (*real_at)(int, const void*, size_t, off_t);
  if (real == NULL) real = (ssize_t(*)(int, const void*, size_t))next("write");
  if (real_at == NULL) real_at = (ssize_t(*)(int, const void*, size_t, off_t))next("pwrite");
  return offset < 0 ? real(descriptor, data, size) : real_at(descriptor, data, size, offset);
}

static ssize_t watched_write(int descriptor, const void* data, size_t size, off_t offset) {
  if (!descriptor_inside(descriptor)) return real_write(descriptor, data, size, offset);
  const long number = atomic_load(&counts[kWrite]) + 1, change = atomic_load(&changes) + 1;
  const int torn = (doomed == kWrite && number == doomed_number) || (failing != 0 && change == failing);
  if (torn && size > 1) real_write(descriptor, data, size / 2, offset);
  if (fails(kWrite)) return -1;
  if (delay > 0) {
    const struct timespec pause = {delay / 1000, delay % 1000 * 1000000};
    nanosleep(&pause, NULL);
  }
  if (atomic_load(&room) == LONG_MAX) return real_write(descriptor, data, size, offset);
  const long left = atomic_fetch_sub(&room, (long)size);
  if (left > 0) {  // what still fits
    return real_write(descriptor, data, left < (long)size ? (size_t)left : size, offset);
  }
  errno = ENOSPC;
  return -1;
}

ssize_t write(int descriptor, const void* data, size_t size) { return watched_write(descriptor, data, size, -1); }

ssize_t pwrite(int descriptor, const void* data, size_t size, off_t offset) {
  return watched_write(descriptor, data, size, offset);
}

ssize_t pwrite64(int descriptor, const void* data, size_t size, off_t offset) {
  return watched_write(descriptor, data, size, offset);
}

// What the C library has under this name, with these arguments, unless the call is to fail.
#define WATCHED(result, name, parameters, arguments, inside, operation)      \
  result name parameters {                                                   \
    static result(*real) parameters;                                         \
    if (real == NULL) real = (result(*) parameters)next(#name);              \
    if ((inside) && fails(operation)) {                                      \
      if ((operation) == kUnlink && failure == ENOENT) (void)real arguments; \
      errno = failure;                                                       \
      return -1;                                                             \
    }                                                                        \
    return real arguments;                                                   \
  }

WATCHED(ssize_t, writev, (int descriptor, const struct iovec* parts, int count), (descriptor, parts, count),
        descriptor_inside(descriptor), kWrite)
WATCHED(ssize_t, sendfile, (int to, int from, off_t* offset, size_t count), (to, from, offset, count),
        descriptor_inside(to), kWrite)
WATCHED(ssize_t, copy_file_range, (int from, off64_t* at, int to, off64_t* there, size_t size, unsigned int flags),
        (from, at, to, there, size, flags), descriptor_inside(to), kWrite)
WATCHED(int, fsync, (int descriptor), (descriptor), descriptor_inside(descriptor), kFsync)
WATCHED(int, fdatasync, (int descriptor), (descriptor), descriptor_inside(descriptor), kFsync)
WATCHED(int, rename, (const char* from, const char* to), (from, to), path_inside(AT_FDCWD, to), kRename)
WATCHED(int, renameat, (int folder_from, const char* from, int folder_to, const char* to),
        (folder_from, from, folder_to, to), path_inside(folder_to, to), kRename)
WATCHED(int, renameat2, (int folder_from, const char* from, int folder_to, const char* to, unsigned int flags),
        (folder_from, from, folder_to, to, flags), path_inside(folder_to, to), kRename)
WATCHED(int, link, (const char* from, const char* to), (from, to), path_inside(AT_FDCWD, to), kMake)
WATCHED(int, symlink, (const char* from, const char* to), (from, to), path_inside(AT_FDCWD, to), kMake)
WATCHED(int, unlink, (const char* path), (path), path_inside(AT_FDCWD, path), kUnlink)
WATCHED(int, unlinkat, (int descriptor, const char* path, int flags), (descriptor, path, flags),
        path_inside(descriptor, path), kUnlink)
WATCHED(int, remove, (const char* path), (path), path_inside(AT_FDCWD, path), kUnlink)
WATCHED(int, rmdir, (const char* path), (path), path_inside(AT_FDCWD, path), kUnlink)
WATCHED(int, mkdir, (const char* path, mode_t mode), (path, mode), path_inside(AT_FDCWD, path), kMake)
WATCHED(int, mkdirat, (int descriptor, const char* path, mode_t mode), (descriptor, path, mode),
        path_inside(descriptor, path), kMake)
WATCHED(int, ftruncate, (int descriptor, off_t length), (descriptor, length), descriptor_inside(descriptor), kResize)
WATCHED(int, ftruncate64, (int descriptor, off64_t length), (descriptor, length), descriptor_inside(descriptor),
        kResize)
WATCHED(int, truncate, (const char* path, off_t length), (path, length), path_inside(AT_FDCWD, path), kResize)
WATCHED(int, fallocate, (int descriptor, int mode, off_t offset, off_t length), (descriptor, mode, offset, length),
        descriptor_inside(descriptor), kResize)
WATCHED(int, fallocate64, (int descriptor, int mode, off64_t offset, off64_t length),
        (descriptor, mode, offset, length), descriptor_inside(descriptor), kResize)

// To write; what is opened to read passes by.
#define WATCHED_OPEN(name, parameters, arguments, base, path)                                  \
  int name parameters {                                                                        \
    static int(*real) parameters;                                                              \
    if (real == NULL) real = (int(*) parameters)next(#name);                                   \
    mode_t mode = 0;                                                                           \
    if ((flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE) {                          \
      va_list rest;                                                                            \
      va_start(rest, flags);                                                                   \
      mode = va_arg(rest, mode_t);                                                             \
      va_end(rest);                                                                            \
    }                                                                                          \
    if ((flags & O_ACCMODE) != O_RDONLY && path_inside(base, path) && fails(kMake)) return -1; \
    return real arguments;                                                                     \
  }

WATCHED_OPEN(open, (const char* path, int flags, ...), (path, flags, mode), AT_FDCWD, path)
WATCHED_OPEN(open64, (const char* path, int flags, ...), (path, flags, mode), AT_FDCWD, path)
WATCHED_OPEN(openat, (int base, const char* path, int flags, ...), (base, path, flags, mode), base, path)
WATCHED_OPEN(openat64, (int base, const char* path, int flags, ...), (base, path, flags, mode), base, path)

static FILE* watched_fopen(const char* name, const char* path, const char* mode) {
  FILE* (*real)(const char*, const char*) = (FILE * (*)(const char*, const char*)) next(name);
  if (strpbrk(mode, "wa+") != NULL && path_inside(AT_FDCWD, path) && fails(kMake)) return NULL;
  return real(path, mode);
}
FILE* fopen(const char* path, const char* mode) { return watched_fopen("fopen", path, mode); }
FILE* fopen64(const char* path, const char* mode) { return watched_fopen("fopen64", path, mode); }
