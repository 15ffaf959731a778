// That a process has waited for the end of another one, and cannot have gone on before: of its main thread, as others
// wait beside it, and by a call that blocks, as others find an end by chance. So does Python's join with a time limit,
// which says so.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "follow.h"

#define EXPORTED __attribute__((visibility("default")))

static pid_t (*real_waitpid)(pid_t, int*, int);
static pid_t (*real_wait4)(pid_t, int*, int, struct rusage*);
static int (*real_waitid)(idtype_t, id_t, siginfo_t*, int);

__attribute__((constructor(101))) static void find(void) {
  real_waitpid = (pid_t(*)(pid_t, int*, int))dlsym(RTLD_NEXT, "waitpid");
  real_wait4 = (pid_t(*)(pid_t, int*, int, struct rusage*))dlsym(RTLD_NEXT, "wait4");
  real_waitid = (int (*)(idtype_t, id_t, siginfo_t*, int))dlsym(RTLD_NEXT, "waitid");
}

static __thread bool is_chance;
EXPORTED void follow_by_chance(bool is) { is_chance = is; }

static void tell(pid_t child, bool of_one, int options) {
  const bool by_chance = is_chance || (options & WNOHANG) || (pid_t)syscall(SYS_gettid) != getpid();
  const char* how = by_chance ? "reaped" : of_one ? "waited" : "waited-any";
  follow_tell("%s %d %d %d", how, (int)getpid(), (int)child, follow_ignores_interrupts());
}
static pid_t told(pid_t child, pid_t asked, const int* status, int options) {
  if (child > 0 && (!status || WIFEXITED(*status) || WIFSIGNALED(*status))) tell(child, asked > 0, options);
  return child;
}

EXPORTED pid_t waitpid(pid_t asked, int* status, int options) {
  int own = 0;
  status = status ? status : &own;
  return told(real_waitpid(asked, status, options), asked, status, options);
}
EXPORTED pid_t wait4(pid_t asked, int* status, int options, struct rusage* usage) {
  int own = 0;
  status = status ? status : &own;
  return told(real_wait4(asked, status, options, usage), asked, status, options);
}
EXPORTED pid_t wait(int* status) { return waitpid(-1, status, 0); }
EXPORTED pid_t wait3(int* status, int options, struct rusage* usage) { return wait4(-1, status, options, usage); }
EXPORTED int waitid(idtype_t kind, id_t asked, siginfo_t* end, int options) {
  siginfo_t own;
  end = end ? end : &own;
  end->si_pid = 0;
  const int result = real_waitid(kind, asked, end, options);
  const bool ended = end->si_code == CLD_EXITED || end->si_code == CLD_KILLED || end->si_code == CLD_DUMPED;
  if (!result && end->si_pid > 0 && ended && !(options & WNOWAIT)) {
    tell(end->si_pid, kind != P_ALL && kind != P_PGID, options);
  }
  return result;
}
