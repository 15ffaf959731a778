// The door of libfathom_engine.so: the commands that need LibTorch. Program and engine are built together.
#pragma once

#include <typeinfo>
#include <utility>

#include "app/invocation.h"

namespace fathom::app {

using EngineMain = int(const Invocation&);
inline constexpr const char* kEngineMain = "fathom_engine_main";

// The engine's table: what runs commands of a type.
struct EngineRow {
  const std::type_info& command;
  int (*run)(const Invocation&);
  const EngineRow* next;
};
inline constinit const EngineRow* engine_rows = nullptr;

// The file of a command adds its row as the engine is loaded: const InEngine<run_eval> kEval;
template <auto kRun>
struct InEngine;
template <typename Type, int (*kRun)(const Type&)>
struct InEngine<kRun> : EngineRow {
  InEngine() noexcept
      : EngineRow{typeid(Type), [](const Invocation& command) { return kRun(static_cast<const Type&>(command)); },
                  std::exchange(engine_rows, this)} {}
};

}  // namespace fathom::app

// Runs the command and returns the exit status; every failure is logged, none leaves.
extern "C" int fathom_engine_main(const fathom::app::Invocation& invocation);
