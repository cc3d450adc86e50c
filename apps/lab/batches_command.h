// `gnomon batches`: the batches of a plan for other programs (docs/lab/run-format.md).
#pragma once

namespace gnomon::lab {

extern const char* const batches_help;

// Returns the exit status, and throws std::invalid_argument for bad usage and input.
int batches_command(int argc, char** argv);

}  // namespace gnomon::lab
