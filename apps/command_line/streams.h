// The standard streams and the errors of a program.
#pragma once

#include <exception>
#include <string>

namespace gnomon {

// Opens the standard streams that the caller has closed, so that no file of this program gets
// their numbers: its text would be written into that file. Writing to them still fails. To be
// called first.
void reserve_standard_streams();

// Throws std::invalid_argument if not all text of this process reached the standard output.
void check_standard_output();

// Writes a line to the standard error. Ignores errors: there is no other place to report them.
void print_error(const std::string& line) noexcept;

// The text of an error for the user, "[what] rule, got value", also of errors of the system:
// files, threads and the standard output. `program`: "gnomon" or "lab".
std::string error_text(const std::exception& error, const std::string& program);

}  // namespace gnomon
