// PNG and SVG files of charts, by vl-convert: the program `vl-convert` on the PATH, or the
// Python package vl-convert-python of `python3` on the PATH or of the environment of
// `make setup`.
#pragma once

#include <string>

namespace gnomon::cli {

// Returns the bytes of an image of a Vega-Lite spec. `ending`: ".png" or ".svg". Throws
// std::invalid_argument if vl-convert is not installed or refuses the spec.
std::string render(const std::string& spec, const std::string& ending);

}  // namespace gnomon::cli
