// Starts, shares and replaces the children.
#include "app/run/phantom_children.h"

#include <chrono>
#include <string>

#include "base/json_value.h"
#include "phantom_gpu/gpu.h"

namespace fathom::app {
namespace {

// With one question; the start of the child included.
constexpr std::chrono::minutes kPatience{5}, kPatienceForEvents{60};
constexpr std::chrono::milliseconds kStart{300};  // what the start of a child takes, about

std::unique_ptr<phantom_gpu::Child> start(const config::GpuSpec& gpu) {
  return std::make_unique<phantom_gpu::Child>(
      phantom_gpu::this_program(),
      std::vector<std::string>{"answer-plan", "--name", gpu.name, "--capability", gpu.compute_capability,
                               "--multiprocessors", std::to_string(gpu.multiprocessors), "--memory",
                               std::to_string(phantom_gpu::kUnlimitedBytes)});
}

// Memory is a part of every question, and never more than a child starts with, so children of one GPU answer for all
// amounts of it.
bool is_alike(const config::GpuSpec& a, const config::GpuSpec& b) {
  return a.name == b.name && a.compute_capability == b.compute_capability && a.multiprocessors == b.multiprocessors;
}

}  // namespace

PhantomChildren::PhantomChildren(size_t most) : members_(most) {}
PhantomChildren::~PhantomChildren() = default;

bool PhantomChildren::Member::can_answer(const config::GpuSpec& asked) const {
  return child && is_alike(gpu, asked) && child->is_alive();
}

PhantomChildren::Member& PhantomChildren::take(const config::GpuSpec& gpu) {
  std::unique_lock lock(mutex_);
  Member *ready = nullptr, *vacant = nullptr;
  bool worth_waiting = false;  // a child is at work that may be done sooner than another one starts
  const auto look = [&] {
    ready = vacant = nullptr;
    worth_waiting = false;
    for (Member& member : members_) {
      if (member.busy) {
        worth_waiting = true;
      } else if (member.can_answer(gpu)) {
        ready = &member;
      } else {
        vacant = &member;
      }
    }
    return ready != nullptr;
  };
  if (!look() && worth_waiting) given_back_.wait_for(lock, kStart, look);
  if (!ready) given_back_.wait(lock, [&] { return look() || vacant != nullptr; });
  Member& taken = ready != nullptr ? *ready : *vacant;
  taken.busy = true;
  return taken;
}

plan::PhantomAnswer PhantomChildren::ask(const plan::PhantomQuestion& question) {
  Member& member = take(question.gpu);
  struct GiveBack {
    PhantomChildren& children;
    Member& member;
    ~GiveBack() {
      const std::lock_guard lock(children.mutex_);
      member.busy = false;
      children.given_back_.notify_all();  // they wait for different children
    }
  } const give_back{*this, member};
  if (!member.can_answer(question.gpu)) {
    member.child = start(question.gpu);
    member.gpu = question.gpu;
  }
  const Json answer =
      member.child->ask(plan::to_json(question), question.trace.empty() ? kPatience : kPatienceForEvents);
  if (answer.contains("last")) member.child.reset();
  return plan::answer_from_json(answer);
}

}  // namespace fathom::app
