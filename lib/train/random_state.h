// The state of a device's default generator as JSON, taken and restored without making a tensor.
#pragma once

#include <ATen/core/Tensor.h>

#include "base/json.h"

namespace fathom::train {

Json random_state(at::Device device);
// Throws Error unless the value is what random_state gives of some device.
void require_random_state(const Json& state);
// Throws Error, too, if the value is not a state of this kind of device.
void restore_random_state(at::Device device, const Json& state);

}  // namespace fathom::train
