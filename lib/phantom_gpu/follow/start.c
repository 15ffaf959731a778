// Programs that a followed one starts are followed too, with whatever environment: functions of the C library that
// start them put back the variables that this takes.
#define _GNU_SOURCE
#include <alloca.h>
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "follow.h"

#define EXPORTED __attribute__((visibility("default")))

typedef int run_at(const char*, char* const*, char* const*);
typedef int spawn_at(pid_t*, const char*, const posix_spawn_file_actions_t*, const posix_spawnattr_t*, char* const*,
                     char* const*);

static run_at *real_execve, *real_execvpe;
static spawn_at *real_spawn, *real_spawnp;

__attribute__((constructor(101))) static void find(void) {
  real_execve = (run_at*)dlsym(RTLD_NEXT, "execve");
  real_execvpe = (run_at*)dlsym(RTLD_NEXT, "execvpe");
  real_spawn = (spawn_at*)dlsym(RTLD_NEXT, "posix_spawn");
  real_spawnp = (spawn_at*)dlsym(RTLD_NEXT, "posix_spawnp");
}

static size_t name_length(const char* variable) { return (size_t)(strchrnul(variable, '=') - variable); }

static const char* value_in(char* const* environment, const char* name) {
  const size_t length = strlen(name);
  for (; environment && *environment; environment++) {
    if (!strncmp(*environment, name, length) && (*environment)[length] == '=') return *environment + length + 1;
  }
  return NULL;
}

static bool is_listed(const char* list, const char* entry) {
  const size_t length = strlen(entry);
  for (const char* found = list; found && (found = strstr(found, entry)); found += length) {
    if ((found == list || strchr(": ", found[-1])) && strchr(": ", found[length])) return true;
  }
  return false;
}

// What the complete environment needs at most: room for its pointers, and for two lists that are made longer.
struct room {
  size_t pointers, text;
};
static struct room room_for(char* const* given) {
  const struct follow_variables* ours = follow_variables();
  struct room room = {.pointers = FOLLOW_MOST_VARIABLES + 3, .text = 0};
  for (char* const* each = given; each && *each; each++) room.pointers++;
  if (!ours->library) return room;
  const char *preload = value_in(given, "LD_PRELOAD"), *path = value_in(given, "PYTHONPATH");
  room.text = strlen(ours->library) + strlen(ours->agent) + (preload ? strlen(preload) : 0) +
              (path ? strlen(path) : 0) + sizeof "LD_PRELOAD=:PYTHONPATH=:" + 2;
  return room;
}

static char* put_before(char** text, const char* name, const char* entry, const char* list) {
  char* begin = *text;
  *text += sprintf(begin, "%s=%s%s%s", name, entry, list && *list ? ":" : "", list ? list : "") + 1;
  return begin;
}

static char* const* complete(char* const* given, char** made, char* text) {
  const struct follow_variables* ours = follow_variables();
  if (!ours->library) return given;
  size_t count = 0;
  const char *preload = value_in(given, "LD_PRELOAD"), *path = value_in(given, "PYTHONPATH");
  const bool adds_library = !is_listed(preload, ours->library), adds_agent = !is_listed(path, ours->agent);
  for (char* const* each = given; each && *each; each++) {
    const size_t length = name_length(*each);
    const bool replaced = (adds_library && length == strlen("LD_PRELOAD") && !strncmp(*each, "LD_PRELOAD", length)) ||
                          (adds_agent && length == strlen("PYTHONPATH") && !strncmp(*each, "PYTHONPATH", length));
    if (!replaced) made[count++] = *each;
  }
  if (adds_library) made[count++] = put_before(&text, "LD_PRELOAD", ours->library, preload);
  if (adds_agent) made[count++] = put_before(&text, "PYTHONPATH", ours->agent, path);
  for (const char* const* each = ours->others; *each; each++) {
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)name_length(*each), *each);
    if (!value_in(given, name)) made[count++] = (char*)*each;
  }
  made[count] = NULL;
  return made;
}

// The complete environment, under that name. On the stack: a child of vfork has its parent's heap.
#define COMPLETE(whole, given)                             \
  const struct room room = room_for(given);                \
  char** pointers = alloca(room.pointers * sizeof(char*)); \
  char* text = alloca(room.text + 1);                      \
  char* const* whole = complete(given, pointers, text)

static void tell_start(void) {
  if (!follow_is_borrowed()) return;
  follow_tell("started %d %d %d", (int)getpid(), (int)follow_process(), follow_ignores_interrupts());
}

EXPORTED int execve(const char* path, char* const* words, char* const* environment) {
  tell_start();
  COMPLETE(whole, environment);
  return real_execve(path, words, whole);
}
EXPORTED int execv(const char* path, char* const* words) { return execve(path, words, environ); }
EXPORTED int execvpe(const char* file, char* const* words, char* const* environment) {
  tell_start();
  COMPLETE(whole, environment);
  return real_execvpe(file, words, whole);
}
EXPORTED int execvp(const char* file, char* const* words) { return execvpe(file, words, environ); }

static int spawn(spawn_at* how, pid_t* child, const char* path, const posix_spawn_file_actions_t* actions,
                 const posix_spawnattr_t* attributes, char* const* words, char* const* environment) {
  COMPLETE(whole, environment);
  pid_t started = 0;
  const int error = how(&started, path, actions, attributes, words, whole);
  if (error) return error;
  follow_tell("started %d %d %d", (int)started, (int)getpid(), follow_ignores_interrupts());
  if (child) *child = started;
  return 0;
}
EXPORTED int posix_spawn(pid_t* child, const char* path, const posix_spawn_file_actions_t* actions,
                         const posix_spawnattr_t* attributes, char* const* words, char* const* environment) {
  return spawn(real_spawn, child, path, actions, attributes, words, environment);
}
EXPORTED int posix_spawnp(pid_t* child, const char* file, const posix_spawn_file_actions_t* actions,
                          const posix_spawnattr_t* attributes, char* const* words, char* const* environment) {
  return spawn(real_spawnp, child, file, actions, attributes, words, environment);
}

// As POSIX describes it; the C library's own calls neither of the functions here.
EXPORTED int system(const char* command) {
  if (!command) return 1;
  struct sigaction ignored = {.sa_handler = SIG_IGN}, interrupt, quit;
  sigset_t child_ends, before, normal;
  sigemptyset(&child_ends);
  sigaddset(&child_ends, SIGCHLD);
  sigaction(SIGINT, &ignored, &interrupt);
  sigaction(SIGQUIT, &ignored, &quit);
  sigprocmask(SIG_BLOCK, &child_ends, &before);
  sigemptyset(&normal);
  if (interrupt.sa_handler != SIG_IGN) sigaddset(&normal, SIGINT);
  if (quit.sa_handler != SIG_IGN) sigaddset(&normal, SIGQUIT);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigmask(&attributes, &before);
  posix_spawnattr_setsigdefault(&attributes, &normal);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  const char* words[] = {"sh", "-c", command, NULL};
  pid_t child = 0;
  int status = 127 << 8;
  if (posix_spawn(&child, "/bin/sh", NULL, &attributes, (char* const*)words, environ) == 0) {
    while (waitpid(child, &status, 0) < 0) {
      if (errno == EINTR) continue;
      status = -1;
      break;
    }
  }
  posix_spawnattr_destroy(&attributes);
  sigaction(SIGINT, &interrupt, NULL);
  sigaction(SIGQUIT, &quit, NULL);
  sigprocmask(SIG_SETMASK, &before, NULL);
  return status;
}
