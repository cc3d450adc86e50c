// `gnomon convert --to gguf`: writes a model folder as a GGUF file.
#pragma once

#include <string>

#include "apps/cli/output.h"

namespace gnomon::cli {

struct GgufConvertOptions {
  std::string in, type;
  bool dry_run = false;
  OutputOptions output;
};
int run_convert_to_gguf(const GgufConvertOptions& options);

}  // namespace gnomon::cli
