# Headers of others that nearly every file of a target reads, parsed once for it. Sources still
# include what they use: GNOMON_PCH=OFF builds the same, and the preset `neon` does. What was
# measured to gain: LibTorch (10 of 20 s a file), GoogleTest (0.6 of 3 s). CLI11 does not: its
# time goes to what each file compiles of it.
function(gnomon_precompile target)
  if(GNOMON_PCH)
    target_precompile_headers(${target} ${ARGN})
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      target_compile_options(${target} PRIVATE -fpch-preprocess)  # else ccache does not look
    endif()
  endif()
endfunction()

# ccache takes precompiled headers only when told not to mind what they make of __TIME__.
if(GNOMON_PCH AND CMAKE_CXX_COMPILER_LAUNCHER MATCHES "(^|/)ccache$")
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros
      ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
