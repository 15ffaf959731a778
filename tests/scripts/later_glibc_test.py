"""cmake/portable/later_glibc.c: a wait with an end on a glibc that has no pthread_cond_clockwait, and on this one."""

import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAM = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#ifdef OLD
void* dlsym(void* library, const char* name) { return (void)library, (void)name, (void*)0; }
#endif

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int woken;

static void* wake(void* nothing) {
  pthread_mutex_lock(&mutex);
  woken = 1;
  pthread_cond_signal(&condition);
  pthread_mutex_unlock(&mutex);
  return nothing;
}

static long wait_for(long nanoseconds, int* result) {
  struct timespec start, until, end;
  clock_gettime(CLOCK_MONOTONIC, &start);
  until = start;
  until.tv_sec += (start.tv_nsec + nanoseconds) / 1000000000;
  until.tv_nsec = (start.tv_nsec + nanoseconds) % 1000000000;
  do *result = pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &until);
  while (*result == 0 && !woken);
  clock_gettime(CLOCK_MONOTONIC, &end);
  return (end.tv_sec - start.tv_sec) * 1000 + (end.tv_nsec - start.tv_nsec) / 1000000;
}

int main(void) {
  int result;
  pthread_mutex_lock(&mutex);
  for (int i = 0; i < 5; ++i) {  // of which some cross a second's end
    const long waited = wait_for(250000000, &result);
    if (result != ETIMEDOUT || waited < 249 || waited > 5000) return printf("%d after %ld ms\n", result, waited), 1;
  }
  pthread_t thread;
  pthread_create(&thread, NULL, wake, NULL);
  const long waited = wait_for(900000000000, &result);
  pthread_mutex_unlock(&mutex);
  pthread_join(thread, NULL);
  return result != 0 || waited > 5000 ? (printf("%d after %ld ms\n", result, waited), 2) : 0;
}
"""


class LaterGlibcTest(unittest.TestCase):
    def test_waits_until_then_and_no_longer(self):
        for options in ([], ["-DOLD"]):
            with self.subTest(options=options), tempfile.TemporaryDirectory() as folder:
                source, program = pathlib.Path(folder, "main.c"), pathlib.Path(folder, "main")
                source.write_text(PROGRAM, encoding="utf-8")
                subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", *options, source,
                                ROOT / "cmake/portable/later_glibc.c", "-o", program], check=True)
                ended = subprocess.run([program], timeout=120, capture_output=True, text=True)
                self.assertEqual((ended.returncode, ended.stdout), (0, ""))


if __name__ == "__main__":
    unittest.main()
