// The version, in the one place that CMake and the packages read it from.
#pragma once

#define GNOMON_VERSION "0.1.0"
