// Which numbers of 16 bits this processor multiplies, or takes for FP32, by instructions of its own.
#pragma once

namespace fathom {

struct NarrowInstructions {
  bool bf16 = false, fp16 = false;
};
// By CPUID, which knows more of them than the operating system's list; both where the processor is no x86-64.
NarrowInstructions narrow_instructions();

}  // namespace fathom
