// What libstdc++'s headers ask of glibc beyond 2.27, for programs that run on it too (scripts/portable). Hidden: each
// program and library has its own, and the system's is found by its name.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <time.h>

#define HIDDEN __attribute__((visibility("hidden")))

// Of 2.32: whether atomic operations can be spared. They never are.
HIDDEN char __libc_single_threaded = 0;

// Of 2.30. Where the system has none, what is left until then is waited for by the clock that it has always had.
HIDDEN int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                                  const struct timespec* until) {
  int (*systems)(pthread_cond_t*, pthread_mutex_t*, clockid_t, const struct timespec*) =
      (__typeof__(systems))dlsym(RTLD_DEFAULT, "pthread_cond_clockwait");
  if (systems) return systems(condition, mutex, clock, until);
  struct timespec now, end;
  clock_gettime(clock, &now);
  clock_gettime(CLOCK_REALTIME, &end);
  end.tv_sec += until->tv_sec - now.tv_sec;
  end.tv_nsec += until->tv_nsec - now.tv_nsec;
  if (end.tv_nsec < 0) {
    --end.tv_sec;
    end.tv_nsec += 1000000000;
  } else if (end.tv_nsec >= 1000000000) {
    ++end.tv_sec;
    end.tv_nsec -= 1000000000;
  }
  return pthread_cond_timedwait(condition, mutex, &end);
}
