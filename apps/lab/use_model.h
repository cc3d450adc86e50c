// `gnomon generate` and `gnomon evaluate`: the commands that use a trained model.
#pragma once

namespace gnomon::lab {

extern const char* const generate_help;
extern const char* const evaluate_help;

// Return the exit status, and throw std::invalid_argument for
// bad usage and input.
int generate_command(int argc, char** argv);
int evaluate_command(int argc, char** argv);

}  // namespace gnomon::lab
