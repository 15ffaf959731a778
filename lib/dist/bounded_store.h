// A store that is asked without waiting for ever.
#pragma once

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace fathom::dist {

// The store, with keys behind a prefix. check, set, get, multiGet, wait and deleteKey throw Error where no answer
// comes: TCPStore waits for one as long as its connection stands, and that of a machine that is out of reach, or of a
// process that is stopped, stands for many minutes. patience: for a look whether keys are there; all else is given the
// store's own timeout besides, as it waits so long for keys that are not there yet. Once it has not answered it is not
// asked again.
c10::intrusive_ptr<c10d::Store> bounded_store(const std::string& prefix, c10::intrusive_ptr<c10d::Store> store,
                                              std::chrono::milliseconds patience);

}  // namespace fathom::dist
