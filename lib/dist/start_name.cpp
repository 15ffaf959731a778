// Each rank says a word of its own; the first answers each of them with its word, which names the start. A word of an
// earlier start may be answered, too, and nobody waits for that.
#include "dist/start_name.h"

#include <random>
#include <set>
#include <thread>
#include <vector>

#include "base/error.h"

namespace fathom::dist {
namespace {

using Clock = std::chrono::steady_clock;

std::string new_word() {
  std::random_device random;
  std::string word;
  for (int i = 0; i < 4; ++i) word += std::to_string(random()) + ".";
  return word;
}

std::string word_key(int64_t rank) { return "start/word/" + std::to_string(rank); }
std::string answer_key(const std::string& word) { return "start/answer/" + word; }
std::string here_key(const std::string& start, int64_t rank) { return "start/here/" + start + std::to_string(rank); }

// Until each of the others has heard its answer.
void answer(c10d::Store& store, const std::string& start, int64_t size, Clock::time_point until) {
  std::set<std::string> answered;
  std::set<int64_t> missing;
  for (int64_t other = 1; other < size; ++other) missing.insert(other);
  while (!missing.empty()) {
    const int64_t other = *missing.begin();
    if (store.check({here_key(start, other)})) {
      missing.erase(other);
      continue;
    }
    for (const int64_t each : missing) {
      if (!store.check({word_key(each)})) continue;
      const std::string word = store.get_to_str(word_key(each));
      if (answered.insert(word).second) store.set(answer_key(word), start);
    }
    if (Clock::now() > until) {
      throw Error("rank " + std::to_string(other) + " of " + std::to_string(size) + " has not come",
                  "see what its launcher says; ddp_timeout is how long the first waits");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace

std::string agree_on_start(c10d::Store& store, int64_t rank, int64_t size, std::chrono::milliseconds timeout) {
  std::string word = new_word();
  if (rank == 0) {
    answer(store, word, size, Clock::now() + timeout);
    return word;
  }
  store.set(word_key(rank), word);
  std::string start = store.get_to_str(answer_key(word));
  store.set(here_key(start, rank), std::vector<uint8_t>());
  return start;
}

}  // namespace fathom::dist
