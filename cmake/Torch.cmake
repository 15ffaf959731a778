# Finds LibTorch 2.11 and CUDA's headers and defines imported targets for them: fathom::torch_cpu and fathom::torch_cuda.
# find_package(Torch) of a CUDA wheel is a fatal error without an installed CUDA toolkit, so the targets are our own.
# Input: FATHOM_TORCH_DIR (the folder that holds include/ and lib/), else $FATHOM_TORCH, else .deps/ as scripts/setup fills it.
set(FATHOM_TORCH_DIR "$ENV{FATHOM_TORCH}" CACHE PATH "Folder of the torch package or of an unpacked LibTorch (has include/ and lib/)")
if(NOT FATHOM_TORCH_DIR)
  file(GLOB found "${PROJECT_SOURCE_DIR}/.deps/python/lib/python3*/site-packages/torch")
  list(GET found 0 first)
  set(FATHOM_TORCH_DIR "${first}" CACHE PATH "" FORCE)
endif()
if(NOT EXISTS "${FATHOM_TORCH_DIR}/lib/libtorch_cpu.so")
  message(FATAL_ERROR "LibTorch was not found in '${FATHOM_TORCH_DIR}'. Run scripts/setup, or pass -DFATHOM_TORCH_DIR=<folder with include/ and lib/>.")
endif()
file(STRINGS "${FATHOM_TORCH_DIR}/include/torch/headeronly/version.h" version_lines REGEX "#define TORCH_VERSION_(MAJOR|MINOR) ")
if(NOT "${version_lines}" MATCHES "MAJOR 2;.*MINOR 11$")
  message(FATAL_ERROR "fathom is built for LibTorch 2.11, but ${FATHOM_TORCH_DIR} says: ${version_lines}. Run scripts/setup.")
endif()

set(torch_includes "${FATHOM_TORCH_DIR}/include" "${FATHOM_TORCH_DIR}/include/torch/csrc/api/include")
function(fathom_import name)
  add_library(fathom::${name} SHARED IMPORTED GLOBAL)
  set_target_properties(fathom::${name} PROPERTIES
    IMPORTED_LOCATION "${FATHOM_TORCH_DIR}/lib/lib${name}.so"
    INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${torch_includes}"
    INTERFACE_INCLUDE_DIRECTORIES "${torch_includes}")
endfunction()
fathom_import(c10)
fathom_import(torch_cpu)
fathom_import(c10_cuda)
fathom_import(torch_cuda)
target_link_libraries(fathom::torch_cpu INTERFACE fathom::c10)
# at::parallel_for is a template that runs on one thread unless its caller is compiled with OpenMP. LibTorch's own libgomp is
# the one that is loaded: it has the system's soname and comes first.
target_compile_options(fathom::torch_cpu INTERFACE -fopenmp)
target_link_options(fathom::torch_cpu INTERFACE -fopenmp)

# CUDA's headers: the wheels beside torch, else an installed toolkit. Host code needs no more than cuda_runtime_api.h.
find_path(FATHOM_CUDA_INCLUDE_DIR cuda_runtime_api.h
  HINTS "${FATHOM_TORCH_DIR}/../nvidia/cu13/include" "$ENV{CUDA_HOME}/include" /usr/local/cuda/include NO_DEFAULT_PATH REQUIRED)
# Of CUDA 12, for the stub libraries of other people's LibTorch alone (lib/phantom_gpu/stubs).
find_path(FATHOM_CUDA12_INCLUDE_DIR cuda_runtime_api.h
  HINTS "${FATHOM_TORCH_DIR}/../nvidia/cuda_runtime/include" NO_DEFAULT_PATH)
target_include_directories(fathom::c10_cuda SYSTEM INTERFACE "${FATHOM_CUDA_INCLUDE_DIR}")
target_link_libraries(fathom::torch_cuda INTERFACE fathom::torch_cpu fathom::c10_cuda)
