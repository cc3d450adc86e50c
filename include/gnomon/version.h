// The version of the library. CMake and the packages read it from this file.
#pragma once

#define GNOMON_VERSION "0.1.0"
