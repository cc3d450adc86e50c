// The Vega-Embed script that is embedded in this build.
#pragma once

#include <string_view>

namespace gnomon::plot::internal {

std::string_view bundle() noexcept;  // empty if built without GNOMON_VEGA_BUNDLE

}  // namespace gnomon::plot::internal
