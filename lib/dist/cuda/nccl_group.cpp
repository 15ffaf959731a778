// NCCL between GPUs; what is no tensor goes over another group.
//
// NCCL's calls alone rather than c10d's process group: gathers are in place, nothing is held until a watchdog has seen
// it, and the sums are made here in the order of ranks, as between CPUs.
#include <ATen/ATen.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "dist/cuda/nccl_api.h"
#include "dist/nccl.h"

namespace fathom::dist {
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;
using Event = std::shared_ptr<at::cuda::CUDAEvent>;

constexpr Milliseconds kBetweenLooks{200};

// A call of NCCL's fails, by itself or because of another rank.
class Refused : public Error {
 public:
  using Error::Error;
};

void require_success(int result, ncclComm* communicator) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  const char* detail = ncclGetLastError(communicator);
  throw Refused(std::string("NCCL: ") + ncclGetErrorString(result) +
                (detail != nullptr && *detail != '\0' ? std::string(": ") + detail : ""));
}

// Why exchanges of a group or of its parts have failed: the first reason.
class Failure {
 public:
  void set(const std::string& why) {
    const std::lock_guard lock(mutex_);
    if (why_.empty()) why_ = why;
  }
  std::string why() const {
    const std::lock_guard lock(mutex_);
    return why_;
  }

 private:
  mutable std::mutex mutex_;
  std::string why_;
};

// Has a communicator. Ends exchanges that take too long or fail, as the process would wait for its GPU forever then.
class Watch {
 public:
  Watch(ncclComm* communicator, Milliseconds timeout, Failure& failure)
      : communicator_(communicator), timeout_(timeout), failure_(failure), thread_([this] { look(); }) {}
  ~Watch() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_one();
    thread_.join();
    if (aborted_) return;
    // Destroying waits for the GPU, which after a failure may wait for another in turn.
    const bool hangs = std::uncaught_exceptions() > 0 && (launching_ > 0 || !exchanges_.empty());
    hangs ? ncclCommAbort(communicator_) : ncclCommDestroy(communicator_);
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // The process launches an exchange, maybe within another, for which NCCL may first connect to others and wait for
  // them.
  void begin() {
    const std::lock_guard lock(mutex_);
    launching_ += 1;
    launching_since_ = Clock::now();
  }
  // It has. ready: what the exchange waits for on this GPU; done: itself.
  void add(Event ready, Event done) {
    const std::lock_guard lock(mutex_);
    launching_ -= 1;
    launching_since_ = Clock::now();
    exchanges_.push_back({std::move(ready), std::move(done), std::nullopt});
  }

 private:
  struct Exchange {
    Event ready, done;
    std::optional<Clock::time_point> since;  // it is this one's turn
  };

  void look() {
    const c10::cuda::CUDAGuard device(0);
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, kBetweenLooks, [&] { return ends_; }) && !aborted_) {
      try {
        look_once();
      } catch (const std::exception& error) {  // of an event, where the GPU has failed
        fail(std::string(error.what(), std::strcspn(error.what(), "\n")));
      }
    }
  }

  void look_once() {
    while (!exchanges_.empty() && exchanges_.front().done->query()) exchanges_.pop_front();
    int error = ncclSuccess;
    ncclCommGetAsyncError(communicator_, &error);
    if (error != ncclSuccess && error != ncclInProgress) return fail(std::string("NCCL: ") + ncclGetErrorString(error));
    const auto late = [&](const std::optional<Clock::time_point>& since) {
      return since && Clock::now() - *since > timeout_;
    };
    if (launching_ > 0 && late(launching_since_))
      return fail("an exchange between GPUs has not begun within " + seconds());
    if (exchanges_.empty()) return;
    Exchange& first = exchanges_.front();
    if (!first.since && first.ready->query()) first.since = Clock::now();
    if (late(first.since)) fail("an exchange between GPUs has not ended within " + seconds());
  }

  std::string seconds() const { return std::to_string(timeout_.count() / 1000) + " s"; }

  // What waits on this GPU goes on, with numbers that are none: Group::check() comes before anything is made of them.
  void fail(const std::string& why) {
    failure_.set(why);
    aborted_ = true;
    ncclCommAbort(communicator_);
  }

  ncclComm* communicator_;
  Milliseconds timeout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Exchange> exchanges_;  // in order
  int launching_ = 0;
  Clock::time_point launching_since_;
  Failure& failure_;
  bool ends_ = false, aborted_ = false;
  std::thread thread_;
};

// The stream that waits goes on once the exchange is done; the process itself does not wait.
class NcclTransfer final : public Transfer {
 public:
  explicit NcclTransfer(Event done) : done_(std::move(done)) {}
  void wait() override { done_->block(c10::cuda::getCurrentCUDAStream()); }

 private:
  Event done_;
};

class NcclGroup final : public Group {
 public:
  NcclGroup(Group& control, Milliseconds timeout, std::shared_ptr<Failure> failure)
      : Group(control.rank(), control.size()),
        control_(control),
        failure_(std::move(failure)),
        stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/true)),
        timeout_(timeout),
        communicator_(open(control, timeout)),
        watch_(communicator_, timeout, *failure_) {}
  // Of a part, which has its own between CPUs.
  NcclGroup(std::unique_ptr<Group> control, Milliseconds timeout, std::shared_ptr<Failure> failure)
      : NcclGroup(*control, timeout, std::move(failure)) {
    own_control_ = std::move(control);
  }
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  void begin(Sum& sum) override {
    sums_.push_back(exchange([&] {
      const c10::cuda::CUDAStreamGuard here(stream_);
      begin_pieces(sum);
      add_up(sum);
      gather_here(sum.tensor);
    }));
  }
  void end(Sum& /*sum*/) override {
    sums_.front()->wait();
    sums_.pop_front();
  }

  std::unique_ptr<Transfer> begin_gather(const at::Tensor& whole) override {
    return exchange([&] { gather_here(whole); });
  }

  std::unique_ptr<Transfer> begin_exchange(const std::vector<std::vector<Span>>& sent,
                                           const std::vector<std::vector<Span>>& received) override {
    return exchange([&] {
      require_success(ncclGroupStart(), communicator_);
      for (int64_t other = 0; other < size(); ++other) {
        const int peer = static_cast<int>(other);
        for (const Span& span : received[static_cast<size_t>(other)]) {
          auto* to = static_cast<char*>(span.of.mutable_data_ptr()) + first_byte(span);
          require_success(ncclRecv(to, bytes_of(span), ncclUint8, peer, communicator_, stream_), communicator_);
        }
        for (const Span& span : sent[static_cast<size_t>(other)]) {
          const auto* from = static_cast<const char*>(span.of.const_data_ptr()) + first_byte(span);
          require_success(ncclSend(from, bytes_of(span), ncclUint8, peer, communicator_, stream_), communicator_);
        }
      }
      require_success(ncclGroupEnd(), communicator_);
    });
  }

  std::vector<double> gather(double number) override {
    check();
    return control_.gather(number);
  }
  std::vector<std::string> gather(const std::string& text) override {
    check();
    return control_.gather(text);
  }
  std::vector<std::string> gather_to_first(const std::string& text) override {
    check();
    return control_.gather_to_first(text);
  }
  void sum(std::vector<double>& numbers) override {
    check();
    control_.sum(numbers);
  }
  void meet() override {
    check();
    control_.meet();
  }
  void meet_after_files() override {
    check();
    control_.meet_after_files();
  }
  std::unique_ptr<Group> part(const std::vector<int64_t>& ranks) override {
    std::unique_ptr<Group> control = control_.part(ranks);
    if (control->size() == 1) return control;
    return std::make_unique<NcclGroup>(std::move(control), timeout_, failure_);
  }
  void wait_at_most(Milliseconds timeout) override { control_.wait_at_most(timeout); }
  void now(const std::string& activity) override { control_.now(activity); }
  void tell_failure(const std::string& message) noexcept override { control_.tell_failure(message); }

 private:
  static int64_t first_byte(const Span& span) { return span.first * static_cast<int64_t>(span.of.itemsize()); }
  static size_t bytes_of(const Span& span) { return static_cast<size_t>(span.count) * span.of.itemsize(); }

  // NCCL waits for the others without an end, on a thread that is left to itself where they do not come.
  static ncclComm* open(Group& control, Milliseconds timeout) {
    ncclUniqueId id{};
    if (control.is_first()) require_success(ncclGetUniqueId(&id), nullptr);
    const std::string told = control.gather(std::string(id.internal, sizeof id.internal)).front();
    std::memcpy(id.internal, told.data(), sizeof id.internal);
    std::packaged_task<ncclComm*()> join([id, size = control.size(), rank = control.rank()] {
      const c10::cuda::CUDAGuard device(0);
      ncclComm* communicator = nullptr;
      require_success(ncclCommInitRank(&communicator, static_cast<int>(size), id, static_cast<int>(rank)), nullptr);
      return communicator;
    });
    std::future<ncclComm*> joined = join.get_future();
    std::thread(std::move(join)).detach();
    const auto until = std::chrono::steady_clock::now() + timeout;
    while (std::chrono::steady_clock::now() < until) {
      const bool has_ended = joined.wait_for(std::chrono::seconds(1)) == std::future_status::ready;
      control.listen();  // another's failure comes before what NCCL makes of it here
      if (!has_ended) continue;
      try {
        return joined.get();
      } catch (const Refused& error) {
        throw Error(error.what(), "NCCL_DEBUG=WARN says more");
      }
    }
    control.meet();  // names who is gone
    throw LostOthers("the GPUs have not met over NCCL within " + std::to_string(timeout.count() / 1000) + " s",
                     "NCCL_DEBUG=INFO says whom each waits for; ddp_timeout is how long they may take");
  }

  // What `work` launches on the stream of exchanges begins after what was launched on the caller's.
  template <typename Work>
  std::unique_ptr<Transfer> exchange(const Work& work) {
    check();
    const auto ready = std::make_shared<at::cuda::CUDAEvent>(), done = std::make_shared<at::cuda::CUDAEvent>();
    ready->record(c10::cuda::getCurrentCUDAStream());
    ready->block(stream_);
    watch_.begin();
    try {
      work();
    } catch (const Refused& error) {
      failure_->set(error.what());
      check();
    }
    done->record(stream_);
    watch_.add(ready, done);
    return std::make_unique<NcclTransfer>(done);
  }

  // In place, on the stream of exchanges: as one gather where the pieces are equal.
  void gather_here(const at::Tensor& whole) {
    const at::Tensor own = piece(whole, rank());
    if (whole.numel() % size() == 0) {
      require_success(ncclAllGather(own.const_data_ptr(), whole.mutable_data_ptr(), own.nbytes(), ncclUint8,
                                    communicator_, stream_),
                      communicator_);
      return;
    }
    require_success(ncclGroupStart(), communicator_);
    for (int64_t owner = 0; owner < size(); ++owner) {
      const at::Tensor theirs = piece(whole, owner);
      require_success(ncclBroadcast(theirs.const_data_ptr(), theirs.mutable_data_ptr(), theirs.nbytes(), ncclUint8,
                                    static_cast<int>(owner), communicator_, stream_),
                      communicator_);
    }
    require_success(ncclGroupEnd(), communicator_);
  }

  // Others that do not answer are named by the group between CPUs, which waits for them.
  void check() override {
    const std::string failure = failure_->why();
    if (failure.empty()) return;
    control_.meet();
    throw LostOthers(failure, "NCCL_DEBUG=WARN says more; resume_from_checkpoint=auto goes on");
  }

  Group& control_;
  std::unique_ptr<Group> own_control_;
  std::shared_ptr<Failure> failure_;  // of the whole group and all its parts
  c10::cuda::CUDAStream stream_;
  Milliseconds timeout_;
  ncclComm* communicator_;
  Watch watch_;
  std::deque<std::unique_ptr<Transfer>> sums_;  // that were begun, in order
};

}  // namespace
}  // namespace fathom::dist

fathom::dist::Group* fathom_nccl_group(fathom::dist::Group* control, int64_t timeout) {
  return new fathom::dist::NcclGroup(*control, std::chrono::milliseconds(timeout),
                                     std::make_shared<fathom::dist::Failure>());
}
