// The door of libfathom_engine.so: the commands that need LibTorch. Program and engine are built together.
#pragma once

#include "app/invocation.h"

namespace fathom::app {

using EngineMain = int(const Invocation&);
inline constexpr const char* kEngineMain = "fathom_engine_main";

}  // namespace fathom::app

// Runs the command and returns the exit status; every failure is logged, none leaves.
extern "C" int fathom_engine_main(const fathom::app::Invocation& invocation);
