// What the stub libraries share: the pretended GPU, its limits and its address space. Implemented by the stub of
// libcudart.
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { PHANTOM_MOST_DEVICES = 64 };

// Values from the environment (lib/phantom_gpu/gpu.cpp writes it), and what NVIDIA publishes for the compute
// capability.
struct phantom_gpu {
  char name[256];
  int devices_there;                 // in the machine, all of this kind; 1 for fathom's own runs
  int devices;                       // of them, those that the process sees, from 0
  int places[PHANTOM_MOST_DEVICES];  // of each of these in the machine: CUDA_VISIBLE_DEVICES may leave some out
  int major, minor;                  // compute capability
  int multiprocessors;
  int architecture;  // of the code in LibTorch's fat binary that the device would run: 90
  size_t memory_bytes;
  size_t taken_bytes;            // of them, by others: never free
  unsigned long long placement;  // 0: ascending addresses; else the seed of scattered ones
  size_t kept_bytes;             // copies and fills of up to so much are made: device memory can be read; 0: none is
  int log;                       // 1: kernel launches, 2: memory calls too, on stderr
  int threads_per_multiprocessor;
  int blocks_per_multiprocessor;
  size_t shared_per_multiprocessor;  // bytes
  size_t shared_per_block;           // bytes, after opting in
};
const struct phantom_gpu* phantom_gpu(void);
// Of a device that the process sees, in the machine. An exported function, for phantom_gpu/agent.
int phantom_place(int device);

enum { PHANTOM_GRANULE = 2 << 20 };          // bytes: what cudaMalloc and cuMemCreate round up to
enum { PHANTOM_SHARED_DEFAULT = 48 << 10 };  // bytes of shared memory of a block that has not opted in
enum { PHANTOM_SHARED_RESERVED = 1 << 10 };  // bytes of shared memory that each block gives to the system
enum { PHANTOM_THREADS_PER_BLOCK = 1024 };

// The device that calls of this thread mean; false where there is none of that number.
int phantom_device(void);
bool phantom_use_device(int device);

// Address space of the thread's device without memory behind it; null where none is left.
void* phantom_reserve(size_t bytes, size_t alignment);
void phantom_unreserve(void* begin);
// Whether it lies in a device's address space, and in which one's; -1: in none.
bool phantom_is_device(const void* pointer);
int phantom_device_of(const void* pointer);
// True if a real device could reach all of it: host memory, or inside one segment.
bool phantom_reaches(const void* pointer, size_t bytes);
// Whether all of it is host memory that was registered.
bool phantom_is_registered(const char* begin, size_t bytes);
// Where variables of kernels lie.
void* phantom_symbol(void);
// Counts `bytes` of a device's memory as used; false if the device has no more.
bool phantom_take(int device, size_t bytes);
void phantom_give_back(int device, size_t bytes);
// From now on the device has this much memory, others have taken so much of it, and segments lie elsewhere. An exported
// function, for phantom_gpu::pretend (lib/phantom_gpu/gpu.h). False, and nothing is changed, while something is still
// allocated or if the process has too little address space.
bool phantom_pretend(size_t memory_bytes, size_t taken_bytes, unsigned long long placement);
// In what phantom_gpu tells; no checks.
void phantom_set(size_t memory_bytes, size_t taken_bytes, unsigned long long placement);

// False if the process may not reserve enough address space to pretend anything.
bool phantom_has_address_space(void);
// Whether a launch of these sizes would be accepted; the answer is a cudaError_t.
int phantom_check_launch(const unsigned grid[3], const unsigned block[3], size_t shared_bytes, size_t shared_limit);
// Counts work that is given to the device: a kernel, a product of a library, a copy or a fill.
void phantom_launched(void);
// Whether it goes into a recording, which counts it.
bool phantom_records(void);
// Waits for a stream, null: for all; a cudaError_t, where that one is recorded.
int phantom_wait(void* stream);
// Tells of work on a stream, which breaks the recording of another one.
void phantom_goes_to(void* stream);
// So much of it by the calling thread, by all, and of that into recordings. Exported functions, for
// phantom_gpu::launches (lib/phantom_gpu/gpu.h).
long phantom_launches(void);
long phantom_launches_of_all(void);
long phantom_recorded_of_all(void);
// Hears of each copy from the device: where to, the address that is read, and so many bytes. True: it has written there
// what a device would have given, else that is made zeros.
// The function that is set is called on the thread that copies. An exported function, for phantom_gpu/agent.
typedef bool phantom_reader(void* to, const void* from, size_t bytes);
void phantom_on_read(phantom_reader* reader);
// Storages on the device whose bytes are as a GPU would have made them. by_fill: an operator has filled it with a
// number, as it does for a kernel that writes there too; forgotten as soon as a kernel was launched that no operator
// has called. Exported functions, for phantom_gpu/agent and phantom_gpu/calls.
void phantom_know(const void* storage, bool by_fill);
void phantom_forget(const void* storage);
bool phantom_knows(const void* storage);
// An operator of LibTorch is called by this thread. name: lives until it ends, and is null outside.
void phantom_operator_begins(const char* name);
void phantom_operator_ends(void);
const char* phantom_operator(void);
// A kernel that no operator of the calling thread has called.
void phantom_launched_alone(void);
// What the calling thread says of the numbers that it gives to copies and to NCCL: those that are known arrive whatever
// their size. Of others small copies do, and small messages where nothing was said of them. phantom_vouch is an
// exported function, for phantom_gpu/agent.
enum { PHANTOM_SILENT, PHANTOM_KNOWN, PHANTOM_UNKNOWN };
void phantom_vouch(int known);
int phantom_vouched(void);
// Hears of what NCCL has received: its address, so many bytes, and whether all who gave it vouched for it. An exported
// function, for phantom_gpu/agent.
typedef void phantom_receiver(void* to, size_t bytes, int known);
void phantom_on_receive(phantom_receiver* receiver);
// Tells once, where device memory can be read, that a function was called which the phantom GPU has not.
long phantom_unsupported(const char* name, long result);
// Remembers the error for cudaGetLastError, and returns it.
int phantom_fail(int error);
// A small object whose address is the handle.
void* phantom_handle(void);
