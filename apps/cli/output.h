// Output of arrays: a file whose extension selects the format, JSON on stdout, or a preview of
// the first values on the terminal.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "gnomon/io/array.h"

namespace gnomon::cli {

using Json = nlohmann::ordered_json;

struct OutputOptions {
  std::string path;   // -o; empty: the terminal
  bool json = false;  // --json
};

// Throws if the extension of -o is not one of `endings`. Call it before the computation.
void check_ending(const OutputOptions& output, const std::vector<std::string>& endings);

// Writes the array as .npy, .json ({..., "shape": [...], "values": nested lists}) or .csv (rows
// of the last axis, after a comment line with the shape), or prints a preview. `facts`: the
// settings for JSON, {"kind": "alibi", "heads": 8}.
void put_array(const OutputOptions& output, const io::Array& array, const Json& facts);

// Writes a JSON document to stdout, as the result of a command.
void print_json(const Json& json);

}  // namespace gnomon::cli
