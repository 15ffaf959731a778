// Time, cost, host memory, inference and the largest blocks of a plan, as tables for the terminal and as JSON.
#pragma once

#include <optional>
#include <string>

#include "base/json.h"
#include "config/devices.h"
#include "memory/timeline.h"
#include "plan/inference.h"
#include "plan/outlook.h"

namespace fathom::report {

// Operations and bytes of a step with the speeds and the time that follow; without a throughput the amounts alone. Of
// several processes also what one of them sends, and the speed of all.
std::string format_time(const plan::Plan& plan, const plan::Outlook& outlook);
// Why a run has no expected time, and what would bring it.
std::string describe_unknown_speed(config::Device device);
// GPU hours, hours and dollars, of a run that does not fit as such. Empty without them.
std::string format_cost(const plan::Outlook& outlook);
// Of that the hours and dollars, in one line that is not folded.
std::string describe_price(const plan::Budget& budget, const plan::Cost& cost);
std::string format_host(const plan::HostMemory& host);
// Weights in each format, with caches beside them; in decimal gigabytes, as rules of thumb are told.
// gpu: figures that exceed its memory stand in parentheses.
std::string format_inference(const plan::Inference& inference, const std::optional<config::GpuSpec>& gpu);
Json inference_json(const plan::Inference& inference);
// What is alive at the peak, largest first; equal blocks of several layers are one row. Empty without a timeline.
std::string format_largest_blocks(const memory::Timeline& timeline, size_t rows = 10);

// All of them that apply, a blank line before each.
std::string format_outlook(const plan::Plan& plan, const plan::Outlook& outlook);
// Keys: "arithmetic", "time", "communication", "run", "cost", "host", "largest_blocks"; null for what is not known.
Json outlook_json(const plan::Plan& plan, const plan::Outlook& outlook);

}  // namespace fathom::report
