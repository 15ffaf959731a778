// Bits of CPUID's leaf 7 as in Intel's Software Developer's Manual, volume 2A.
#include "base/narrow_instructions.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace fathom {

NarrowInstructions narrow_instructions() {
#if defined(__x86_64__)
  constexpr unsigned kAvx512Bf16 = 1U << 5, kAmxFp16 = 1U << 21;   // subleaf 1, EAX
  constexpr unsigned kAvxNeConvert = 1U << 5;                      // subleaf 1, EDX: both types
  constexpr unsigned kAmxBf16 = 1U << 22, kAvx512Fp16 = 1U << 23;  // subleaf 0, EDX
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0, more_eax = 0, more_edx = 0;
  __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx);
  if (eax >= 1) __get_cpuid_count(7, 1, &more_eax, &ebx, &ecx, &more_edx);
  const bool converts = (more_edx & kAvxNeConvert) != 0;
  return {converts || (edx & kAmxBf16) != 0 || (more_eax & kAvx512Bf16) != 0,
          converts || (edx & kAvx512Fp16) != 0 || (more_eax & kAmxFp16) != 0};
#else
  return {true, true};
#endif
}

}  // namespace fathom
