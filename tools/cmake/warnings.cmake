# The warning options of all targets. Third-party headers are SYSTEM, so they give no warnings.
function(gnomon_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wconversion)
  # Not among the warnings of GCC for C++; and false in kernels, whose instances have loops of no or one turn and regions
  # of attributes without a function.
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    target_compile_options(${target} PRIVATE -Wno-sign-conversion -Wno-for-loop-analysis -Wno-pragma-clang-attribute)
    # std::stable_sort of the standard library of GCC 12 calls a function that C++17 deprecated.
    target_compile_options(${target} PRIVATE -Wno-deprecated-declarations)
  endif()
  if(GNOMON_WASM)  # has no elements of 16 bits
    target_compile_options(${target} PRIVATE -Wno-unused-function)
  endif()
  # Where sizes have 32 bits, Clang warns of each index of 64 bits, which was checked with the array.
  if(CMAKE_SIZEOF_VOID_P EQUAL 4)
    target_compile_options(${target} PRIVATE -Wno-shorten-64-to-32)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # False in unity builds: the file with the namespace is not the main file.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
endfunction()
