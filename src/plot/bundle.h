// The Vega-Embed script, as this build carries it.
#pragma once

#include <string_view>

namespace gnomon::plot::internal {

std::string_view bundle() noexcept;  // empty where GNOMON_VEGA_BUNDLE was not there

}  // namespace gnomon::plot::internal
