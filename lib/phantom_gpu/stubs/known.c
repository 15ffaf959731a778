// Which storages on the device hold the numbers that a GPU would have put there: what the agent in a script's Python
// (lib/phantom_gpu/agent/values.py) and its fast way round Python (lib/phantom_gpu/calls) know in common.
#include <pthread.h>
#include <search.h>
#include <stdatomic.h>

#include "phantom.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void* known;           // trees of addresses
static void* filled;          // of them, those that a fill has made so
static atomic_bool is_stale;  // a kernel that no operator has called may have written what fills have made
static __thread const char* operator_name;

static int order(const void* left, const void* right) { return left < right ? -1 : left > right; }

static void forget_stale_fills(void) {
  // Looked at for each tensor, and seldom so: the exchange alone would lock the line each time.
  if (!atomic_load_explicit(&is_stale, memory_order_relaxed)) return;
  if (!atomic_exchange_explicit(&is_stale, false, memory_order_relaxed)) return;
  pthread_mutex_lock(&mutex);
  while (filled) {
    const void* storage = *(const void**)filled;  // a tree begins with its root, and that with its key
    tdelete(storage, &known, order);
    tdelete(storage, &filled, order);
  }
  pthread_mutex_unlock(&mutex);
}

void phantom_know(const void* storage, bool by_fill) {
  forget_stale_fills();
  pthread_mutex_lock(&mutex);
  tsearch(storage, &known, order);
  if (by_fill) {
    tsearch(storage, &filled, order);
  } else {
    tdelete(storage, &filled, order);
  }
  pthread_mutex_unlock(&mutex);
}

void phantom_forget(const void* storage) {
  pthread_mutex_lock(&mutex);
  tdelete(storage, &known, order);
  tdelete(storage, &filled, order);
  pthread_mutex_unlock(&mutex);
}

bool phantom_knows(const void* storage) {
  forget_stale_fills();
  pthread_mutex_lock(&mutex);
  const bool found = tfind(storage, &known, order) != NULL;
  pthread_mutex_unlock(&mutex);
  return found;
}

void phantom_operator_begins(const char* name) { operator_name = name; }
void phantom_operator_ends(void) { operator_name = NULL; }
const char* phantom_operator(void) { return operator_name; }
void phantom_launched_alone(void) { atomic_store_explicit(&is_stale, true, memory_order_relaxed); }
