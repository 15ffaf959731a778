// Recognises an assertion by its text, as LibTorch 2.11 has it (CUDACachingAllocator.cpp, reportProcessMemoryInfo).
#include "ledger/out_of_memory.h"

namespace fathom::ledger {
namespace {

bool says_how_much(const c10::Error& error) { return dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr; }

}  // namespace

bool is_out_of_memory(const c10::Error& error) {
  if (says_how_much(error)) return true;
  const std::string said = error.what_without_backtrace();
  return said.find("NVML_SUCCESS") != std::string::npos && said.find("CUDACachingAllocator.cpp") != std::string::npos;
}

std::string describe_out_of_memory(const c10::Error& error) {
  if (!says_how_much(error)) {
    return "the GPU could not give what was asked for. How much that was LibTorch does not say here, because NVML does "
           "not know this GPU, as happens in virtual machines.";
  }
  const std::string said = error.what_without_backtrace();
  return said.substr(0, said.find(" If reserved but unallocated"));
}

}  // namespace fathom::ledger
