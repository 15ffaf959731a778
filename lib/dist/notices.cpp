// Keys of the store: "now/", "beat/", "failed/", "noticed/" and "heard/", each with a rank behind it.
#include "dist/notices.h"

#include <algorithm>
#include <numeric>
#include <thread>
#include <utility>

namespace fathom::dist {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr char kBeat[] = "beat/";
constexpr milliseconds kBetweenLooks{50}, kForTheSame{1000}, kBetweenVigils{1000};
// The store goes with rank 0, which stays for those that still compute: at most so long, where others have noticed.
constexpr std::chrono::minutes kToHear{1};

}  // namespace

Notices::Notices(c10::intrusive_ptr<c10d::Store> store, std::string owner, int64_t rank, int64_t size,
                 milliseconds patience)
    : store_(std::move(store)),
      owner_(std::move(owner)),
      rank_(rank),
      size_(size),
      patience_(patience),
      heart_(store_->clone(), kBeat + std::to_string(rank)) {}

void Notices::wait_at_most(milliseconds timeout) {
  for (Waiting* waiting : waiting_) waiting->wait_at_most(timeout);
  store_->setTimeout(timeout);
}

void Notices::listen() {
  for (const int64_t each : all()) {
    if (find("failed/", each)) throw Error("it has told so");
  }
}

void Notices::tell_failure(const std::string& message) noexcept {
  try {
    set("failed/", message);
    close();
    let_hear(all(), patience_);
  } catch (const std::exception&) {  // the store is gone
  }
}

bool Notices::first_tells(const std::string& message) noexcept {
  try {
    const auto until = Clock::now() + kForTheSame;
    std::optional<std::string> told;
    while (!(told = find("failed/", 0)) && Clock::now() < until) std::this_thread::sleep_for(kBetweenLooks);
    return told == message;
  } catch (const std::exception&) {  // the store is gone
    return false;
  }
}

Notices::Vigil::Vigil(Notices& notices, milliseconds patience) : notices_(notices), patience_(patience) {
  for (const int64_t each : notices.all()) keys_.push_back(kBeat + std::to_string(each));
}

// The store may take as long to answer as an exchange.
void Notices::Vigil::look() {
  const auto now = Clock::now();
  if (now < next_) return;
  next_ = now + kBetweenVigils;
  const std::vector<std::vector<uint8_t>> beats = notices_.store_->multiGet(keys_);
  for (size_t rank = 0; rank < beats.size(); ++rank) {
    const auto [seen, is_new] = seen_.try_emplace(rank, Seen{beats[rank], now});
    if (is_new || seen->second.beat != beats[rank]) {
      seen->second = {beats[rank], now};
    } else if (now - seen->second.since > patience_) {
      throw Error("it has given no sign for " + std::to_string(patience_.count() / 1000) + " s");
    }
  }
}

LostOthers Notices::explained(const std::string& reason) {
  try {
    return named(reason);
  } catch (const std::exception&) {
    return LostOthers(owner_ + ", which has the others' addresses, is gone: " + reason,
                      "see what it has said; resume_from_checkpoint=auto goes on");
  }
}

// Each rank that notices tells so. One that neither does nor fails by itself is what the others wait for, unless its
// heart beats while another's has stopped: then it still computes.
LostOthers Notices::named(const std::string& reason) {
  set("noticed/", reason);
  close();
  const Beats before = beats_of(all());
  std::optional<LostOthers> failure;
  Ranks silent = wait_for(all(), [&](int64_t each) {
    const auto told = failure ? std::nullopt : find("failed/", each);
    if (told) failure.emplace("rank " + std::to_string(each) + " failed: " + *told);
    return failure || find("noticed/", each);
  });
  if (const Ranks stopped = stopped_since(before, silent); !stopped.empty()) silent = stopped;
  std::string whom;
  for (const int64_t each : silent) {
    whom += "rank " + std::to_string(each) + " of " + std::to_string(size_) + " does not answer; it was last in " +
            find("now/", each).value_or("its start") + "; ";
  }
  set("heard/", "");
  Ranks hearers = all();
  for (const int64_t each : silent) std::erase(hearers, each);
  let_hear(std::move(hearers), kToHear);
  if (failure) return *failure;
  return LostOthers(whom.empty() ? "the processes of the run have lost each other: " + reason : whom + reason,
                    "see what it has said, and its machine's memory; resume_from_checkpoint=auto goes on");
}

// Rank 0 stays for those of them that are there and have not come so far.
void Notices::let_hear(Ranks ranks, milliseconds at_most) {
  if (rank_ != 0) return;
  const auto until = Clock::now() + at_most;
  do {
    const Beats before = beats_of(ranks);
    ranks = wait_for(std::move(ranks), [&](int64_t each) { return find("heard/", each) || find("failed/", each); });
    for (const int64_t each : stopped_since(before, ranks)) std::erase(ranks, each);
  } while (!ranks.empty() && Clock::now() < until);
}

Notices::Ranks Notices::all() const {
  Ranks ranks(static_cast<size_t>(size_));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

void Notices::close() {
  for (Waiting* waiting : waiting_) waiting->close();
}

Notices::Beats Notices::beats_of(const Ranks& ranks) {
  Beats beats;
  for (const int64_t each : ranks) beats[each] = find(kBeat, each);
  return beats;
}

Notices::Ranks Notices::stopped_since(const Beats& before, const Ranks& ranks) {
  Ranks stopped;
  std::copy_if(ranks.begin(), ranks.end(), std::back_inserter(stopped),
               [&](int64_t each) { return find(kBeat, each) == before.at(each); });
  return stopped;
}

template <typename Predicate>
Notices::Ranks Notices::wait_for(Ranks ranks, const Predicate& has_told) const {
  const auto until = Clock::now() + patience_;
  while (true) {
    std::erase_if(ranks, has_told);
    if (ranks.empty() || Clock::now() >= until) return ranks;
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

void Notices::set(const std::string& what, const std::string& text) { store_->set(what + std::to_string(rank_), text); }

std::optional<std::string> Notices::find(const std::string& what, int64_t of) {
  const std::string key = what + std::to_string(of);
  return store_->check({key}) ? std::optional(store_->get_to_str(key)) : std::nullopt;
}

}  // namespace fathom::dist
