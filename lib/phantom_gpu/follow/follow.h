// What the parts of follow.so share: the facts that a process tells, one line each, of which lib/launch/facts.h makes
// what the processes of a command take of each GPU at most.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

// Writes a line into FATHOM_PHANTOM_REPORT/facts, behind those of all other processes. Calls no allocator, for it is
// used in children of vfork too.
__attribute__((format(printf, 1, 2))) void follow_tell(const char* format, ...);

// Whether this is a child of vfork, which has its parent's memory until it becomes another program.
bool follow_is_borrowed(void);
// The number of the process whose memory this is.
pid_t follow_process(void);
bool follow_ignores_interrupts(void);

// The variables by which a program is followed.
enum { FOLLOW_MOST_VARIABLES = 32 };
struct follow_variables {
  const char* library;                            // this one, in LD_PRELOAD
  const char* agent;                              // the folder in PYTHONPATH
  const char* others[FOLLOW_MOST_VARIABLES + 1];  // NAME=value
};
const struct follow_variables* follow_variables(void);
