// FATHOM_CLONES before a function: one version of it per instruction set, chosen when the program starts.
#pragma once

#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__)
#define FATHOM_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FATHOM_CLONES
#endif
