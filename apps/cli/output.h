// Where arrays go: a file whose ending chooses the format, JSON on stdout, or a look at the
// corner of them on the terminal.
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

// Throws where the ending of -o is none of `endings`, before any work is done for it.
void check_ending(const OutputOptions& output, const std::vector<std::string>& endings);

// The array as .npy, .json ({..., "shape": [...], "values": nested lists}) or .csv (rows of the
// last axis; a leading comment line with the shape), or a preview. `facts` are what was asked
// for, for JSON: {"kind": "alibi", "heads": 8}.
void put_array(const OutputOptions& output, const io::Array& array, const Json& facts);

// A JSON document as the command's result: to stdout.
void print_json(const Json& json);

}  // namespace gnomon::cli
