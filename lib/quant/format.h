// The number formats that weights are stored in. No torch header.
#pragma once

namespace fathom::quant {

enum class Format {
  kFp32,
  kFp16,
  kBf16,
  kFp8,      // E4M3: quant/float_format.h
  kFp8E5M2,  // for comparison; no weights are stored in it
  kInt8,     // quant/int8.h
  kInt4,     // quant/int4.h
  kNf4,      // quant/nf4.h
};

}  // namespace fathom::quant
