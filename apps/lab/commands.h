// The program gnomon-lab, and its commands besides `gnomon lab` and `gnomon compare`.
#pragma once

namespace gnomon::lab {

extern const char* const generate_help;
extern const char* const evaluate_help;
extern const char* const batches_help;

// The program. Returns the exit status, and prints errors.
int run_program(int argc, char** argv);

// Return the exit status, and throw std::invalid_argument for bad usage and input.
int generate_command(int argc, char** argv);  // with a trained model
int evaluate_command(int argc, char** argv);  // of a trained model
// The batches of a plan for other programs (docs/lab/run-format.md).
int batches_command(int argc, char** argv);

}  // namespace gnomon::lab
