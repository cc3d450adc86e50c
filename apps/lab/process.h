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

// Throws std::invalid_argument if runs are concurrent (jobs > 1) and the loaded BLAS is an
// OpenBLAS that was built without threads. It has no locks (Debian's libopenblas0-serial
// 0.3.21), so concurrent products of 160 x 160 matrices are wrong in 0.1 to 6 % of the calls.
void check_blas(int jobs);

}  // namespace gnomon::lab
