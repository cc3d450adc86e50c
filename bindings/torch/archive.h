// The description of encodings in saved modules. Not installed.
#pragma once

#include <torch/serialize/archive.h>

#include <string>
#include <string_view>

namespace gnomon::libtorch {

void write_specification(torch::serialize::OutputArchive& archive,
                         const std::string& specification);
// Throws std::invalid_argument if the file has another specification or none.
void check_specification(torch::serialize::InputArchive& archive, std::string_view module,
                         const std::string& wanted);

}  // namespace gnomon::libtorch
