// Where the program's own files are, and which version it is.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace fathom::app {

// The folder of the running program.
std::filesystem::path program_folder();
// Whether it is PREFIX/bin/fathom with its libraries in PREFIX/lib/fathom. What it was built in is nothing to it.
bool is_installed();
// Its libraries: those, or lib/ beside the program.
std::filesystem::path library_folder();
// fathom's own CUDA kernels: not there where the program was built without nvcc.
std::filesystem::path cuda_kernels_file();
// The folder with configs/quickstart.yaml and the data and the model that it names: of an installed program below its
// prefix, else the source tree. Throws Error if it is not there.
std::filesystem::path example_folder();
// Of the program, as cmake/built_from.cmake has it.
std::string version();
// configs/gpus.yaml beside the program, else of the source tree that it was built in, else the copy among the libraries
// (of a program that was copied or installed). Throws Error if there is none.
std::filesystem::path gpus_file();
// The table of operators' times for a GPU, as the driver names it, that comes with the program; empty: there is none.
std::filesystem::path operator_times_file(const std::string& device);
// configs/models likewise: a folder with config.json for each well-known shape.
std::filesystem::path models_folder();
// Their names, sorted.
std::vector<std::string> known_models();

}  // namespace fathom::app
