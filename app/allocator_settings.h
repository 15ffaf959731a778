// The settings of LibTorch's caching allocator: those of the environment, PYTORCH_ALLOC_CONF as for any PyTorch
// program, or else fathom's own.
#pragma once

#include <string>

namespace fathom::app {

// Throws UsageError for settings that LibTorch would answer with an abort, and for a backend whose memory cannot be
// counted. Everything else is LibTorch's to judge: it reads the same variables, on a GPU as on a phantom one.
void check_allocator_settings();

// The same for one variable's value.
void check_allocator_settings(const std::string& variable, const std::string& value);

// Where the environment gives none: PYTORCH_ALLOC_CONF for this process and its children. Segments expand if the GPU's
// driver maps memory, because fixed ones leave pieces that nothing fits into.
void choose_allocator_settings(bool maps_memory);

// Whether segments expand, as the settings stand: then their addresses are no choice of the driver's, and another
// placement of them changes nothing.
bool expands_segments();

}  // namespace fathom::app
