// GNOMON_EXPORTED: before the explicit instantiation of a function template of a public header.
// The pragma with which tools/cmake/exports.cmake exports public headers has no effect on
// instances of function templates.
#pragma once

#if defined(__GNUC__) && !defined(_WIN32)
#define GNOMON_EXPORTED __attribute__((visibility("default")))
#else
#define GNOMON_EXPORTED
#endif
