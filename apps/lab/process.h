// Settings of the whole process before training.
#pragma once

namespace gnomon::lab {

// Restarts the program with the environment for OpenBLAS, which OpenBLAS reads when it is
// loaded, before main. OpenBLAS does not recognize newer processors, selects kernels for a
// Prescott and runs at a sixth of the possible speed. Each run has one thread. Variables that
// the user has set are not changed. Returns in the restarted program, or if the restart fails.
// Then the lab is slow, but its results are right.
void start_again_for_openblas(char** argv);

// Keeps freed memory in the process. Each training step frees and allocates the same tens of
// megabytes. Otherwise glibc returns them to the system in between, and the system clears every
// page again. Call it before other threads are started.
void keep_freed_memory();

}  // namespace gnomon::lab
