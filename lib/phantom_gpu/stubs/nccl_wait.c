// How a rank waits for another one, and what ends that.
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <time.h>

#include "nccl_parts.h"
#include "phantom.h"

enum { SHORT_WAIT = 20000, LONG_WAIT = SHORT_WAIT + 5000 };  // looks: of a second or two, and of five more

const char* nccl_end_of(const struct nccl_clique* clique, int rank, long looks) {
  const int presence = clique->ranks[rank].presence;
  if (presence == kLeft) return "which has left the communicator";
  if (nccl_is_dead(clique, rank)) return "whose process has ended";
  // Who has not joined is nobody yet, and may be who has ended.
  if (presence == kAbsent && looks > LONG_WAIT && nccl_someone_ended())
    return "which has not joined, while a process of the script has ended, or taken the steps asked for";
  return NULL;
}

static volatile sig_atomic_t signals;
static struct sigaction handlers[NSIG];

static void note(int number) {
  signals++;
  handlers[number].sa_handler(number);
}

int nccl_signals(void) { return signals; }

// A script may set other handlers at any time.
static void note_signals(void) {
  static const int asking[] = {SIGINT, SIGTERM};
  for (size_t i = 0; i < sizeof asking / sizeof *asking; i++) {
    const int number = asking[i];
    struct sigaction action;
    sigaction(number, NULL, &action);
    const bool has_handler = action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN;
    if (!has_handler || action.sa_handler == note || action.sa_flags & SA_SIGINFO) continue;
    handlers[number] = action;
    action.sa_handler = note;
    sigaction(number, &action, NULL);
  }
}

void nccl_rest(long looks) {
  if (looks == 1 || looks % 200 == 0) note_signals();
  if (looks < 200) {
    sched_yield();
    return;
  }
  const struct timespec moment = {.tv_nsec = looks < SHORT_WAIT ? 50 * 1000 : 1000 * 1000};
  nanosleep(&moment, NULL);
}
