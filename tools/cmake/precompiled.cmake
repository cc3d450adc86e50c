# Precompiled headers of the standard library and of other projects that nearly every file of a target
# includes. Sources still include what they use: GNOMON_PCH=OFF builds the same, and the preset `neon`
# does. Measured gains for each file: the standard library 1 of 2 s, nlohmann-json 1 s, GoogleTest 0.6 of
# 3 s. Files with LibTorch are unity builds instead, because most of their time is that of compiling
# templates in each file.
set(gnomon_standard_headers <algorithm> <array> <cmath> <cstdint> <functional> <memory> <optional>
    <span> <string> <string_view> <variant> <vector>)
function(gnomon_precompile target)
  if(GNOMON_PCH)
    target_precompile_headers(${target} ${ARGN})
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      target_compile_options(${target} PRIVATE -fpch-preprocess)  # required by ccache
    endif()
  endif()
endfunction()

# ccache caches precompiled headers only if it is told to ignore their use of __TIME__.
if(GNOMON_PCH AND CMAKE_CXX_COMPILER_LAUNCHER MATCHES "(^|/)ccache$")
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros
      ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
