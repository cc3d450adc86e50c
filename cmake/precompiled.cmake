# Precompiled third-party headers that nearly every file of a target includes. Sources still include
# what they use: GNOMON_PCH=OFF builds the same, and the preset `neon` does. Measured gain:
# GoogleTest (0.6 of 3 s for each file). Files with LibTorch or CLI11 are unity builds instead: most
# of their time is that of compiling templates in each file.
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
