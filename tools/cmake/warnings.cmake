# The warning options of all targets. Third-party headers are SYSTEM, so they give no warnings.
function(gnomon_warnings target)
  # In WebAssembly, sizes have 32 bits: Clang warns of each index of 64 bits, which was checked with the array.
  if(GNOMON_WASM)
    return()
  endif()
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wconversion)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # False in unity builds: the file with the namespace is not the main file.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
endfunction()
