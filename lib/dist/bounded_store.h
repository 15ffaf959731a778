// A store that is asked without waiting for ever.
#pragma once

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace fathom::dist {

// The store, with keys behind a prefix, whose check() throws Error where no answer comes in time: TCPStore waits for
// one as long as its connection stands, and that of a machine that is out of reach stands for many minutes.
c10::intrusive_ptr<c10d::Store> bounded_store(const std::string& prefix, c10::intrusive_ptr<c10d::Store> store,
                                              std::chrono::milliseconds patience);

}  // namespace fathom::dist
