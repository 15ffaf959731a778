// The settings of LibTorch's caching allocator that the environment gives: PYTORCH_ALLOC_CONF, as for any PyTorch
// program.
#pragma once

#include <string>

namespace fathom::app {

// Throws UsageError for settings that LibTorch would answer with an abort, and for a backend whose memory cannot be
// counted. Everything else is LibTorch's to judge: it reads the same variables, on a GPU as on a phantom one.
void check_allocator_settings();

// The same for one variable's value.
void check_allocator_settings(const std::string& variable, const std::string& value);

}  // namespace fathom::app
