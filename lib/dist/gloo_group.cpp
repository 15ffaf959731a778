// Gloo between processes on CPUs.
//
// Its own all-reduce adds up in the order of a ring and its gathers take a second buffer as large as what they make.
// Pieces sent to the rank that adds them up, and each sum sent on to all, take what the caller gives, and the order of
// ranks makes N processes give the bits of one with N micro-batches.
#include <ATen/ATen.h>
#include <sys/resource.h>

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <stop_token>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/numbers.h"
#include "dist/bounded_store.h"
#include "dist/group.h"
#include "dist/notices.h"
#include "dist/start_name.h"

namespace fathom::dist {
namespace {

using Milliseconds = std::chrono::milliseconds;
using Work = c10::intrusive_ptr<c10d::Work>;

constexpr Milliseconds kForFiles = std::chrono::minutes(30);
constexpr Milliseconds kWithoutWord{10'000};  // that a rank waits for the others at the start before it says so
constexpr Milliseconds kForReasons{2000};     // that a rank may take to tell why it ends, and to hear why others do

// Without the line of the library's source where it was thrown.
std::string reason_of(const std::string& text) {
  const std::string line = text.substr(0, text.find('\n'));
  const size_t place = line.starts_with('[') ? line.find("] ") : std::string::npos;
  return place == std::string::npos ? line : line.substr(place + 2);
}

std::string owner_of_store(const launch::Processes& processes) {
  return processes.agent_has_store ? "torchrun's agent on the first machine"
                                   : "rank 0 of " + std::to_string(processes.size);
}

// A rank has a connection to each other one in every group, and the first two more to each for the store.
void allow_many_connections() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

c10::intrusive_ptr<c10d::Store> open_store(const launch::Processes& processes, Milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(processes.port);
  options.isServer = processes.rank == 0 && !processes.agent_has_store;
  options.numWorkers = static_cast<size_t>(processes.size);
  options.waitWorkers = !processes.agent_has_store;
  options.timeout = timeout;
  if (options.isServer && processes.listening_socket >= 0) options.masterListenFd = processes.listening_socket;
  auto store = c10::make_intrusive<c10d::TCPStore>(processes.address, options);
  // A store that outlives a restart still has the keys of before.
  const std::string start = processes.agent_has_store ? agree_on_start(*store, processes.rank, processes.size, timeout)
                                                      : processes.generation;
  return bounded_store("fathom/" + start, std::move(store), kForReasons);
}

c10::intrusive_ptr<c10d::ProcessGroupGloo::Options> gloo_options(const launch::Processes& processes,
                                                                 Milliseconds timeout) {
  auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
  if (interface != nullptr && *interface != '\0') {
    options->devices = {c10d::ProcessGroupGloo::createDeviceForInterface(interface)};
  } else if (processes.local_size == processes.size) {
    options->devices = {c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1")};
  } else {
    options->devices = {c10d::ProcessGroupGloo::createDefaultDevice()};
  }
  options->threads = 2;
  return options;
}

// One that has not been started, or not as one of these, is missed long before the timeout: where all are told alike, a
// person sees which.
void tell_of_waiting(const launch::Processes& processes, Milliseconds timeout, const std::stop_token& ended) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any none;
  none.wait_for(lock, ended, kWithoutWord, [] { return false; });
  if (ended.stop_requested()) return;
  const std::string text = "rank " + std::to_string(processes.rank) + " of " + std::to_string(processes.size) +
                           " waits at " + processes.address + ":" + std::to_string(processes.port) +
                           " for the others, for up to " +
                           format_duration(std::chrono::duration<double>(timeout).count()) +
                           ": each rank from 0 on must have been started once";
  processes.rank == 0 ? log_warning(text) : log_error(text);  // of others than the first, errors alone are shown
}

class Gloo final : public c10d::ProcessGroupGloo, public Notices::Waiting {
 public:
  using ProcessGroupGloo::ProcessGroupGloo;
  void wait_at_most(Milliseconds timeout) override { setTimeout(timeout); }
  void close() override {
    for (const auto& context : contexts_) context->closeConnections();
  }
};

class GlooGroup final : public Group {
 public:
  using Options = c10::intrusive_ptr<c10d::ProcessGroupGloo::Options>;
  using Store = c10::intrusive_ptr<c10d::Store>;

  GlooGroup(const launch::Processes& processes, const Store& store, Milliseconds timeout)
      : GlooGroup(
            processes.rank, processes.size, store, gloo_options(processes, timeout),
            std::make_shared<Notices>(store, owner_of_store(processes), processes.rank, processes.size, kForReasons)) {}

  ~GlooGroup() override { notices_->remove(*gloo_); }
  GlooGroup(const GlooGroup&) = delete;
  GlooGroup& operator=(const GlooGroup&) = delete;

  void begin(Sum& sum) override { exchanges_.push_back(begin_pieces(sum)); }

  void end(Sum& sum) override {
    exchanges_.front()->wait();
    exchanges_.pop_front();
    add_up(sum);
    begin_gather(sum.tensor)->wait();
  }

  std::unique_ptr<Transfer> begin_gather(const at::Tensor& whole) override {
    std::vector<Work> works;
    run([&] {
      for (int64_t owner = 0; owner < size(); ++owner) {
        std::vector<at::Tensor> tensors{lent(piece(whole, owner))};
        if (tensors.front().numel() == 0) continue;
        c10d::BroadcastOptions options;
        options.rootRank = owner;
        works.push_back(gloo_->broadcast(tensors, options));
      }
    });
    return std::make_unique<GlooTransfer>(*this, std::move(works), whole);
  }

  // A message for each span; the n-th from a rank is the n-th that it sends here.
  std::unique_ptr<Transfer> begin_exchange(const std::vector<std::vector<Span>>& sent,
                                           const std::vector<std::vector<Span>>& received) override {
    std::vector<Work> works;
    run([&] {
      for (int64_t other = 0; other < size(); ++other) {
        const auto place = static_cast<size_t>(other);
        for (const Span& span : received[place]) {
          std::vector<at::Tensor> tensors{numbers_of(span)};
          if (span.count > 0) works.push_back(gloo_->recv(tensors, static_cast<int>(other), next(received_[place])));
        }
        for (const Span& span : sent[place]) {
          std::vector<at::Tensor> tensors{numbers_of(span)};
          if (span.count > 0) works.push_back(gloo_->send(tensors, static_cast<int>(other), next(sent_[place])));
        }
      }
    });
    return std::make_unique<GlooTransfer>(*this, std::move(works));
  }

  std::vector<double> gather(double number) override {
    std::vector<double> numbers(static_cast<size_t>(size()));
    numbers[static_cast<size_t>(rank())] = number;
    sum(numbers);
    return numbers;
  }

  std::vector<std::string> gather(const std::string& text) override { return exchange(text, true); }
  std::vector<std::string> gather_to_first(const std::string& text) override { return exchange(text, is_first()); }

  void sum(std::vector<double>& numbers) override {
    if (numbers.empty()) return;
    run([&] {
      std::vector<at::Tensor> tensors{at::from_blob(numbers.data(), {std::ssize(numbers)}, at::kDouble)};
      gloo_->allreduce(tensors, {})->wait();
    });
  }

  void meet() override {
    run([&] { gloo_->barrier({})->wait(); });
  }

  void meet_after_files() override {
    c10d::BarrierOptions options;
    options.timeout = kForFiles;
    run([&] {
      const Work barrier = gloo_->barrier(options);
      Notices::Vigil vigil(*notices_, options_->timeout);
      constexpr Milliseconds kLongestPause{50};
      for (Milliseconds pause{1}; !barrier->isCompleted(); pause = std::min(2 * pause, kLongestPause)) {
        std::this_thread::sleep_for(pause);
        vigil.look();
      }
      barrier->wait();
    });
  }

  std::unique_ptr<Group> part(const std::vector<int64_t>& ranks) override {
    if (ranks.size() == 1) return play(0, 1);
    std::string name = "part/" + std::to_string(next_part_++);
    for (const int64_t each : ranks) name.append("/").append(std::to_string(each));
    const auto place = std::find(ranks.begin(), ranks.end(), rank()) - ranks.begin();
    return std::unique_ptr<GlooGroup>(new GlooGroup(
        place, std::ssize(ranks), c10::make_intrusive<c10d::PrefixStore>(name, store_), options_, notices_));
  }

  void wait_at_most(Milliseconds timeout) override { notices_->wait_at_most(timeout); }

  void now(const std::string& activity) override {
    run([&] { notices_->now(activity); });
  }

  void listen() override {
    run([&] { notices_->listen(); });
  }

  void tell_failure(const std::string& message) noexcept override { notices_->tell_failure(message); }
  bool first_tells(const std::string& message) noexcept override {
    return !is_first() && notices_->first_tells(message);
  }

 private:
  // Texts of all, where they are to come here.
  std::vector<std::string> exchange(const std::string& text, bool comes_here) {
    const std::string key = "text/" + std::to_string(next_text_++) + "/";
    std::vector<std::string> texts;
    run([&] { store_->set(key + std::to_string(rank()), text); });
    meet();  // the store would wait for the text of one that has failed
    run([&] {
      for (int64_t each = 0; comes_here && each < size(); ++each) {
        texts.push_back(store_->get_to_str(key + std::to_string(each)));
      }
    });
    meet();
    run([&] {
      for (int64_t each = 0; is_first() && each < size(); ++each) store_->deleteKey(key + std::to_string(each));
    });
    return texts;
  }

  GlooGroup(int64_t rank, int64_t size, Store store, Options options, std::shared_ptr<Notices> notices)
      : Group(rank, size),
        store_(std::move(store)),
        options_(std::move(options)),
        notices_(std::move(notices)),
        sent_(static_cast<size_t>(size)),
        received_(sent_.size()) {
    run([&] {
      gloo_ = c10::make_intrusive<Gloo>(c10::make_intrusive<c10d::PrefixStore>("gloo", store_), static_cast<int>(rank),
                                        static_cast<int>(size), options_);
    });
    notices_->add(*gloo_);
  }

  class GlooTransfer final : public Transfer {
   public:
    // kept: what was lent.
    GlooTransfer(GlooGroup& group, std::vector<Work> works, at::Tensor kept = {})
        : group_(group), works_(std::move(works)), kept_(std::move(kept)) {}
    ~GlooTransfer() override {
      if (!works_.empty()) group_.failed_.push_back(std::move(kept_));
    }
    GlooTransfer(const GlooTransfer&) = delete;
    GlooTransfer& operator=(const GlooTransfer&) = delete;
    void wait() override {
      group_.run([&] {
        // Messages keep the timeout with which their group was made, unless they are given one.
        for (const Work& work : works_) work->wait(group_.options_->timeout);
      });
      works_.clear();
      kept_.reset();
    }

   private:
    GlooGroup& group_;
    std::vector<Work> works_;
    at::Tensor kept_;
  };

  // For a thread of Gloo's, which drops its reference some time after the transfer's end: what it holds must not keep
  // memory alive that the run has given back.
  static at::Tensor lent(const at::Tensor& tensor) {
    return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.options());
  }

  static int next(int& tag) { return tag = (tag + 1) & 0x0fffffff; }

  // Runs what may fail because of another rank, and says which.
  template <typename Call>
  void run(const Call& call) {
    try {
      call();
    } catch (const std::exception& error) {
      throw notices_->explained(reason_of(error.what()));
    }
  }

  Store store_;  // its own keys
  Options options_;
  std::vector<at::Tensor> failed_;    // lent to transfers that have failed, where Gloo's threads may write on
  c10::intrusive_ptr<Gloo> gloo_;     // with these threads
  std::shared_ptr<Notices> notices_;  // whose heart stops before others see connections close
  std::deque<std::unique_ptr<Transfer>> exchanges_;  // of sums that were begun, in order
  std::vector<int> sent_, received_;                 // messages, by the other rank: their tags
  int64_t next_text_ = 0, next_part_ = 0;
};

}  // namespace

std::unique_ptr<Group> join(const launch::Processes& processes, Milliseconds timeout) {
  FLAGS_caffe2_log_level = c10::GLOG_FATAL;  // without c10d's own lines, with backtraces
  allow_many_connections();
  std::signal(SIGPIPE, SIG_IGN);  // a connection that another rank has closed is an error that is told
  const std::jthread told([&](const std::stop_token& ended) { tell_of_waiting(processes, timeout, ended); });
  try {
    return std::make_unique<GlooGroup>(processes, open_store(processes, timeout), timeout);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error("rank " + std::to_string(processes.rank) + " of " + std::to_string(processes.size) +
                    " cannot join the others at " + processes.address + ":" + std::to_string(processes.port) + ": " +
                    reason_of(error.what()),
                "check that rank 0 runs there and that the port is free and not blocked");
  }
}

}  // namespace fathom::dist
