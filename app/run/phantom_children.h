// The child processes that play plans on a phantom GPU: started when the first question comes, kept for the next ones.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "phantom_gpu/child.h"
#include "play/exchange.h"

namespace fathom::app {

class PhantomChildren {
 public:
  // most: how many may live side by side; each takes a core while it answers.
  explicit PhantomChildren(size_t most);
  ~PhantomChildren();

  // The answer of a child that pretends question.gpu. From any thread; waits while all children are at work, and a
  // little before another one is started. A child that has died, or that pretends another GPU, is replaced. Throws
  // Error where there is no answer.
  plan::PhantomAnswer ask(const plan::PhantomQuestion& question);

 private:
  struct Member {
    config::GpuSpec gpu;
    std::unique_ptr<phantom_gpu::Child> child;
    bool busy = false;
    bool can_answer(const config::GpuSpec& asked) const;
  };
  // An idle child that can answer, or the place where one is to be started. It is the caller's until `busy` is false.
  Member& take(const config::GpuSpec& gpu);

  std::mutex mutex_;
  std::condition_variable given_back_;
  std::vector<Member> members_;
};

}  // namespace fathom::app
