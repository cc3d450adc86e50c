// What the whole process is told before it trains.
#pragma once

namespace gnomon::lab {

// OpenBLAS takes processors newer than itself for a Prescott and runs at a sixth of their
// speed; and each run has one thread. It reads its environment when it is loaded, before main,
// so this starts the program again with it set; what the user has set stays. Returns in the
// program so started, or where that fails: the run is slow then and still right.
void start_again_for_openblas(char** argv);

// Each training step frees and takes the same tens of megabytes. Without this glibc hands them
// back to the system in between, which then clears every page again. To be called before other
// threads are started.
void keep_freed_memory();

}  // namespace gnomon::lab
