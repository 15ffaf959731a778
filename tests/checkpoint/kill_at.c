// A library for tests that kills the process with SIGKILL in the middle of its n-th write, or before its n-th fsync,
// rename or unlink, under a folder; or makes the disk full: "full:4096:/absolute/folder" lets 4096 bytes through, then
// writes fail with ENOSPC; or slow: with "slow:300:/absolute/folder" each write takes 300 ms more. Preloaded, it reads
// FATHOM_KILL_AT="write:7:/absolute/folder"; a test that links it calls fathom_kill_at() with the same text.
// FATHOM_KILL_COUNT=/some/file makes it write the counts there when the process ends.
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
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum Operation { kWrite, kFsync, kRename, kUnlink, kOperations };
static const char* const kNames[kOperations] = {"write", "fsync", "rename", "unlink"};

static char folder[PATH_MAX];
static int doomed = -1;
static long doomed_number = 0;
static atomic_long room = LONG_MAX;  // bytes until the disk is full
static long delay = 0;               // of a write, in milliseconds
static atomic_long counts[kOperations];

// Sets what kills; an empty or null text: nothing does. Counting starts anew.
void fathom_kill_at(const char* text) {
  doomed = -1;
  folder[0] = 0;
  delay = 0;
  atomic_store(&room, LONG_MAX);
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
  const char* path = getenv("FATHOM_KILL_COUNT");
  if (path == NULL) return;
  FILE* file = fopen(path, "w");
  if (file == NULL) return;
  for (int operation = 0; operation < kOperations; ++operation) {
    fprintf(file, "%s %ld\n", kNames[operation], atomic_load(&counts[operation]));
  }
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

// Counts a call; true if this is the one that must not end.
static int is_last(enum Operation operation) {
  const long number = atomic_fetch_add(&counts[operation], 1) + 1;
  return (int)operation == doomed && number == doomed_number;
}

static void die(void) {
  kill(getpid(), SIGKILL);
  for (;;) pause();
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
  if (descriptor_inside(descriptor) && is_last(kWrite)) {
    if (size > 1) real_write(descriptor, data, size / 2, offset);  // a torn write
    die();
  }
  if (delay > 0 && descriptor_inside(descriptor)) {
    const struct timespec pause = {delay / 1000, delay % 1000 * 1000000};
    nanosleep(&pause, NULL);
  }
  if (atomic_load(&room) == LONG_MAX || !descriptor_inside(descriptor)) {
    return real_write(descriptor, data, size, offset);
  }
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

ssize_t writev(int descriptor, const struct iovec* parts, int count) {
  static ssize_t (*real)(int, const struct iovec*, int);
  if (real == NULL) real = (ssize_t(*)(int, const struct iovec*, int))next("writev");
  if (descriptor_inside(descriptor) && is_last(kWrite)) {
    if (count > 1) real(descriptor, parts, count / 2);
    die();
  }
  return real(descriptor, parts, count);
}

int fsync(int descriptor) {
  static int (*real)(int);
  if (real == NULL) real = (int (*)(int))next("fsync");
  if (descriptor_inside(descriptor) && is_last(kFsync)) die();
  return real(descriptor);
}

int fdatasync(int descriptor) {
  static int (*real)(int);
  if (real == NULL) real = (int (*)(int))next("fdatasync");
  if (descriptor_inside(descriptor) && is_last(kFsync)) die();
  return real(descriptor);
}

int rename(const char* from, const char* to) {
  static int (*real)(const char*, const char*);
  if (real == NULL) real = (int (*)(const char*, const char*))next("rename");
  if (path_inside(AT_FDCWD, to) && is_last(kRename)) die();
  return real(from, to);
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned int flags) {
  static int (*real)(int, const char*, int, const char*, unsigned int);
  if (real == NULL) real = (int (*)(int, const char*, int, const char*, unsigned int))next("renameat2");
  if (path_inside(to_folder, to) && is_last(kRename)) die();
  return real(from_folder, from, to_folder, to, flags);
}

int unlink(const char* path) {
  static int (*real)(const char*);
  if (real == NULL) real = (int (*)(const char*))next("unlink");
  if (path_inside(AT_FDCWD, path) && is_last(kUnlink)) die();
  return real(path);
}

int unlinkat(int descriptor, const char* path, int flags) {
  static int (*real)(int, const char*, int);
  if (real == NULL) real = (int (*)(int, const char*, int))next("unlinkat");
  if (path_inside(descriptor, path) && is_last(kUnlink)) die();
  return real(descriptor, path, flags);
}
