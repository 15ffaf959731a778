// The settings of LibTorch's caching allocator that the environment gives: PYTORCH_ALLOC_CONF, as for any PyTorch
// program.
#pragma once

#include <string>

namespace fathom::app {

// Before LibTorch is loaded: the settings that the environment gives, or expandable segments where it gives none, which
// hold reserved memory within a few percent of what is allocated. Throws UsageError as below.
void settle_allocator_settings();

// Throws UsageError for settings that LibTorch would answer with an abort, and for a backend whose memory cannot be
// counted. Everything else is LibTorch's to judge: it reads the same variables, on a GPU as on a phantom one.
void check_allocator_settings(const std::string& variable, const std::string& value);

}  // namespace fathom::app
