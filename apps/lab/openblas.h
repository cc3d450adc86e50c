// OpenBLAS on processors newer than itself.
#pragma once

namespace gnomon::lab {

// OpenBLAS takes processors newer than itself for a Prescott and runs at a fifth of their
// speed; and each run has one thread. It reads its environment when it is loaded, before main,
// so this starts the program again with it set; what the user has set stays. Returns in the
// program so started, or where that fails: the run is slow then and still right.
void start_again_for_openblas(char** argv);

}  // namespace gnomon::lab
