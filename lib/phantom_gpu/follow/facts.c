// What each process of a script tells of itself: that a program begins in it and ends, that it forks, what it has of a
// device.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "follow.h"

enum { kMostLine = 512 };

static char path[4096];
static pid_t process;
static __thread long forks;  // by this thread, so that a child knows its number
static struct follow_variables variables;

void follow_tell(const char* format, ...) {
  if (!*path) return;
  const int error = errno;
  char line[kMostLine];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(line, sizeof line - 1, format, arguments);
  va_end(arguments);
  if (length > (int)sizeof line - 2) length = (int)sizeof line - 2;
  for (int i = 0; i < length; i++) {
    if (line[i] == '\n') line[i] = ' ';
  }
  line[length] = '\n';
  // Opened anew each time: a script may close what it has not opened.
  const int file = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
  if (file >= 0) {
    const ssize_t written = write(file, line, (size_t)length + 1);
    (void)written;
    close(file);
  }
  errno = error;
}

bool follow_is_borrowed(void) { return getpid() != process; }
pid_t follow_process(void) { return process; }

bool follow_ignores_interrupts(void) {
  struct sigaction action;
  return sigaction(SIGINT, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

const struct follow_variables* follow_variables(void) { return &variables; }

static char* kept(const char* text) {
  char* copy = strdup(text);
  if (!copy) abort();
  return copy;
}

static void keep_variables(void) {
  const char* folder = getenv("FATHOM_PHANTOM_FOLDER");
  if (!folder) return;
  char text[sizeof path + 16];
  snprintf(text, sizeof text, "%s/follow.so", folder);
  variables.library = kept(text);
  snprintf(text, sizeof text, "%s/agent", folder);
  variables.agent = kept(text);
  int count = 0;
  for (char** each = environ; *each && count < FOLLOW_MOST_VARIABLES; each++) {
    if (!strncmp(*each, "FATHOM_PHANTOM_", strlen("FATHOM_PHANTOM_"))) variables.others[count++] = kept(*each);
  }
}

static void before_fork(void) { follow_tell("forks %d %ld %d", (int)process, ++forks, follow_ignores_interrupts()); }
static void in_child(void) {
  const pid_t parent = process;
  process = getpid();
  follow_tell("forked %d %d %ld", (int)process, (int)parent, forks);
  forks = 0;
}

static int is_torch(struct dl_phdr_info* library, size_t size, void* found) {
  (void)size;
  const char* slash = strrchr(library->dlpi_name, '/');
  const char* name = slash ? slash + 1 : library->dlpi_name;
  if (!strncmp(name, "libtorch", strlen("libtorch")) || !strncmp(name, "libc10", strlen("libc10")))
    *(bool*)found = true;
  return 0;
}

__attribute__((constructor)) static void begin(void) {
  const char* folder = getenv("FATHOM_PHANTOM_REPORT");
  if (!folder || !*folder) return;
  snprintf(path, sizeof path, "%s/facts", folder);
  process = getpid();
  keep_variables();
  pthread_atfork(before_fork, NULL, in_child);
  char words[256];
  ssize_t length = 0;
  const int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  if (file >= 0) {
    length = read(file, words, sizeof words - 1);
    close(file);
  }
  if (length < 0) length = 0;
  if (length > 0 && !words[length - 1]) length--;
  for (ssize_t i = 0; i < length; i++) {
    if (!words[i]) words[i] = ' ';
  }
  words[length] = 0;
  const bool is_python = dlsym(RTLD_DEFAULT, "Py_BytesMain") != NULL;
  follow_tell("begins %d %d %d %d %s", (int)process, (int)getppid(), follow_ignores_interrupts(), is_python, words);
}

__attribute__((destructor)) static void end(void) {
  if (!*path || follow_is_borrowed()) return;
  bool has_torch = false;
  dl_iterate_phdr(is_torch, &has_torch);
  follow_tell("ends %d %d", (int)process, has_torch);
}

// Of the stub libraries (lib/phantom_gpu/stubs): what this process has of a GPU of the machine now, and a function that
// it has called in vain. Of Python (lib/phantom_gpu/agent): that it has waited for the end of another process.
__attribute__((visibility("default"))) void follow_device(int place, size_t bytes) {
  follow_tell("has %d %d %zu", (int)getpid(), place, bytes);
}
__attribute__((visibility("default"))) void follow_lacks(const char* name) {
  follow_tell("lacks %d %s", (int)getpid(), name);
}
__attribute__((visibility("default"))) void follow_waited(int child) {
  if ((pid_t)syscall(SYS_gettid) != getpid()) return;
  follow_tell("waited %d %d %d", (int)getpid(), child, follow_ignores_interrupts());
}
