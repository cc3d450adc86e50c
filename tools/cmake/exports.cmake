# The symbols that a shared library exports. Headers have no export macro: everything is compiled with hidden
# visibility, and the folder `exported` has a header of the same name for each public header, which includes it with
# default visibility. The sources find these first.
#
# Programs, tests and the lab use internal functions: with them, everything is exported.
set(gnomon_exports_api ON)
foreach(part GNOMON_PROGRAM GNOMON_LAB GNOMON_TESTS GNOMON_BENCH GNOMON_PYTHON GNOMON_WASM)
  if(${part})
    set(gnomon_exports_api OFF)
  endif()
endforeach()
if(WIN32)
  set(gnomon_exports_api OFF)  # only static libraries
endif()

# Internal headers with functions that other components call.
set(gnomon_internal_exports "")
if(NOT gnomon_built STREQUAL "core")
  set(gnomon_internal_exports
      bindings/c/handles.h src/core/elements_that_fit.h src/core/json.h src/core/nearest.h src/core/size.h
      src/core/tensor.h src/core/text.h src/core/token_projection.h src/embedding/laplacian.h src/position/check.h
      src/rotary/check.h)
endif()

if(gnomon_exports_api)
  file(GLOB_RECURSE public CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/include/*.h")
  foreach(header IN LISTS public gnomon_internal_exports)
    file(CONFIGURE OUTPUT "exported/${header}" @ONLY CONTENT "#pragma once
#pragma GCC visibility push(default)
#include_next <${header}>
#pragma GCC visibility pop
")
  endforeach()
endif()

# Lets a component export its public symbols only.
function(gnomon_export_api target)
  if(NOT gnomon_exports_api)
    set_target_properties(${target} PROPERTIES CXX_VISIBILITY_PRESET default)
    return()
  endif()
  set_target_properties(${target} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_include_directories(${target} BEFORE PRIVATE "${CMAKE_CURRENT_BINARY_DIR}/exported")
  if(NOT APPLE)
    target_link_options(${target} PRIVATE "LINKER:--version-script=${PROJECT_SOURCE_DIR}/tools/cmake/exports.map")
    set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS "${PROJECT_SOURCE_DIR}/tools/cmake/exports.map")
  endif()
endfunction()
