# The library: everything in src/, one folder per module, one target per component (gnomon_core is
# gnomon::core), and the target gnomon, which links all of them.

include(exports)

# Writes a source that compiles several kernels (*_simd.cc) for each instruction set at once: parsing Highway
# takes longer than most of them. A kernel includes foreach_target.h, which has an effect only in this source.
function(gnomon_kernel_group source)
  set(include "#undef HWY_TARGET_INCLUDE\n#define HWY_TARGET_INCLUDE \"${source}\"\n")
  set(text "${include}#include \"hwy/foreach_target.h\"\n\n#include \"hwy/highway.h\"\n")
  foreach(kernel IN LISTS ARGN)
    string(APPEND text "#include \"${kernel}\"\n")
  endforeach()
  file(CONFIGURE OUTPUT "${source}" CONTENT "${text}${include}" @ONLY)
endfunction()

# Declares <library>_<component> with the sources of its modules. The arguments after the name are libraries
# that its sources use but its headers do not.
function(gnomon_component library component)
  set(target ${library}_${component})
  set(sources "")
  foreach(module IN LISTS gnomon_${component}_modules)
    file(GLOB_RECURSE found CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/src/${module}/*.cc")
    if(GNOMON_WASM)  # has no file system
      list(FILTER found EXCLUDE REGEX "/io/(file(_posix)?|checkpoint)[.]cc$")
    endif()
    list(APPEND sources ${found})
    # A module is compiled in groups of at most 15 files, because headers and the same templates take longer
    # than the files.
    list(FILTER found EXCLUDE REGEX "_simd[.]cc$")
    set(count 0)
    foreach(source IN LISTS found)
      math(EXPR group "${count} / 15")
      math(EXPR count "${count} + 1")
      set_source_files_properties("${source}" PROPERTIES UNITY_GROUP ${module}_${group})
    endforeach()
  endforeach()
  # Kernels are compiled in groups of at most 5, rotations and angles alone.
  set(kernels ${sources})
  list(FILTER kernels INCLUDE REGEX "_simd[.]cc$")
  list(FILTER kernels EXCLUDE REGEX "/(rotate_[a-z0-9]+|angles)_simd[.]cc$")
  if(kernels)
    list(REMOVE_ITEM sources ${kernels})
  endif()
  set(count 0)
  while(kernels)
    list(SUBLIST kernels 0 5 group)
    list(REMOVE_ITEM kernels ${group})
    set(source "${CMAKE_CURRENT_BINARY_DIR}/kernels/${component}_${count}_simd.cc")
    gnomon_kernel_group("${source}" ${group})
    set_property(SOURCE "${source}" PROPERTY COMPILE_OPTIONS ${gnomon_kernel_options})
    list(APPEND sources "${source}")
    math(EXPR count "${count} + 1")
  endwhile()
  add_library(${target} ${sources})
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_include_directories(${target} PUBLIC
    "$<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include>" "$<INSTALL_INTERFACE:include>"
    PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
  list(TRANSFORM gnomon_${component}_needs PREPEND gnomon_ OUTPUT_VARIABLE needed)
  target_link_libraries(${target} PUBLIC ${needed} PRIVATE ${ARGN})
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
    # Otherwise the compiler fuses products and sums of portable kernels differently in each kernel, and
    # kernels that must give the same bits do not.
    target_compile_options(${target} PRIVATE -ffp-contract=off)
  endif()
  # A static program has only the functions that it calls, if it is linked with --gc-sections.
  if(NOT MSVC)
    target_compile_options(${target} PRIVATE -ffunction-sections -fdata-sections)
  endif()
  gnomon_export_api(${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${component}
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR} DEFINE_SYMBOL "")
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  gnomon_warnings(${target})
  list(LENGTH sources count)
  if(count GREATER 15)  # a header for one or two groups takes longer to precompile than it saves
    gnomon_precompile(${target} PRIVATE ${gnomon_standard_headers})
  endif()
  target_link_libraries(${library} INTERFACE ${target})
endfunction()

# The default executor of parallel loops, unless the caller of the library sets one.
set(gnomon_default_threads openmp)
if(WIN32 OR APPLE)  # MSVC's OpenMP and Apple's Clang lack what the loops need
  set(gnomon_default_threads std)
endif()
set(GNOMON_THREADS ${gnomon_default_threads} CACHE STRING
    "Backend of parallel loops: openmp, std (pool of std::thread) or none (calling thread)")
set_property(CACHE GNOMON_THREADS PROPERTY STRINGS openmp std none)
if(NOT GNOMON_THREADS MATCHES "^(openmp|std|none)$")
  message(FATAL_ERROR "GNOMON_THREADS must be openmp, std or none, got '${GNOMON_THREADS}'.")
endif()

# Third-party packages are searched for here, and only by the components that use them.
find_package(hwy REQUIRED)
find_package(Threads REQUIRED)
set(threads Threads::Threads)
if(GNOMON_THREADS STREQUAL "openmp")
  find_package(OpenMP REQUIRED COMPONENTS CXX)
  list(APPEND threads OpenMP::OpenMP_CXX)
endif()
if(graph IN_LIST gnomon_built)
  find_package(Eigen3 3.4 REQUIRED NO_MODULE)
  find_package(Spectra 1.0 REQUIRED NO_MODULE)
endif()
if(model IN_LIST gnomon_built OR report IN_LIST gnomon_built)
  find_package(nlohmann_json REQUIRED)
endif()

# Declares the component core of the library. The definitions choose the instruction sets of the kernels.
function(gnomon_core_library)
  gnomon_component(gnomon core ${threads})
  # Of Highway, only the headers (src/core/processor.cc). The namespace has another name, so that a program may
  # use another version of Highway.
  target_include_directories(gnomon_core SYSTEM PRIVATE $<TARGET_PROPERTY:hwy::hwy,INTERFACE_INCLUDE_DIRECTORIES>)
  target_compile_definitions(gnomon_core PRIVATE hwy=gnomon_hwy)
  string(TOUPPER "GNOMON_THREADS_${GNOMON_THREADS}" threads_definition)
  target_compile_definitions(gnomon_core PRIVATE ${threads_definition} ${ARGN})
  # Highway's NEON functions require processors with AES, whose instructions these kernels do not use.
  # GCC refuses to inline the functions into constructors that it generates, unless everything is
  # compiled for AES.
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(gnomon_core PRIVATE -march=armv8-a+crypto)
  endif()
  if(GNOMON_C)
    target_sources(gnomon_core PRIVATE bindings/c/context.cc bindings/c/core.cc bindings/c/layer.cc
                                       bindings/c/paged_cache.cc bindings/c/ragged.cc)
  endif()
endfunction()

# Declares the components that read files and write pages: <library>_model and <library>_report.
function(gnomon_file_components library)
  set(false_warnings $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  if(model IN_LIST gnomon_built)
    gnomon_component(${library} model $<BUILD_INTERFACE:nlohmann_json::nlohmann_json>)
    if(GNOMON_C)
      target_sources(${library}_model PRIVATE bindings/c/model.cc)
    endif()
    # Reads files and lowers specs: -O1 compiles in three quarters of the time of -O3. GCC 12 then warns falsely
    # of std::optional.
    if(GNOMON_WASM)
      target_compile_options(${library}_model PRIVATE -Oz)
    else()
      target_compile_options(${library}_model PRIVATE $<$<CONFIG:Release>:-O1 ${false_warnings}>)
    endif()
  endif()
  if(report IN_LIST gnomon_built)
    gnomon_component(${library} report $<BUILD_INTERFACE:nlohmann_json::nlohmann_json>)
    # Writes text: -O1 compiles in two thirds of the time of -O3. GCC 12 then warns falsely of std::optional.
    target_compile_options(${library}_report PRIVATE $<$<CONFIG:Release>:-O1 ${false_warnings}>)
  endif()
endfunction()

# SSSE3 and AVX3_DL do not make these kernels faster than SSE4 and AVX3, and cost build time. SVE
# vectors have no size at compile time, but these kernels use arrays of vectors.
# GNOMON_LEFT_OUT: more of them, for a faster build while a kernel is written, as "|HWY_SSE4|HWY_AVX3".
set(GNOMON_LEFT_OUT "" CACHE STRING "Instruction sets that are not compiled")
set(left_out "HWY_SSSE3|HWY_AVX3_DL|HWY_SVE|HWY_SVE2|HWY_SVE_256|HWY_SVE2_128${GNOMON_LEFT_OUT}")
# Those of later versions than 1.0.3, if Highway has them.
get_target_property(hwy_include hwy::hwy INTERFACE_INCLUDE_DIRECTORIES)
list(FILTER hwy_include INCLUDE REGEX "^/")
foreach(name SSE2 AVX3_ZEN4 AVX3_SPR AVX10_2 NEON_WITHOUT_AES NEON_BF16)
  foreach(folder IN LISTS hwy_include ITEMS /usr/include)
    if(EXISTS "${folder}/hwy/detect_targets.h")
      file(STRINGS "${folder}/hwy/detect_targets.h" found REGEX "#define HWY_${name} " LIMIT_COUNT 1)
      if(found)
        string(APPEND left_out "|HWY_${name}")
      endif()
      break()
    endif()
  endforeach()
endforeach()
if(GNOMON_SANITIZE AND EXISTS /proc/cpuinfo)
  # With sanitizers, with which kernels take five times as long to compile: only the portable kernels and
  # the widest that this machine supports. Those in between are tested without sanitizers.
  file(STRINGS /proc/cpuinfo avx512 REGEX "avx512bw" LIMIT_COUNT 1)
  string(APPEND left_out "|HWY_SSE4")
  if(avx512)
    string(APPEND left_out "|HWY_AVX2")
  endif()
endif()
# Compiled alone, so that the Python module can replace its object by one with another executor.
set_source_files_properties(src/core/parallel.cc PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
if(WIN32)  # the macros of windows.h
  set_source_files_properties(src/core/elements_that_fit.cc src/io/file_windows.cc PROPERTIES
                              SKIP_UNITY_BUILD_INCLUSION ON)
  add_compile_definitions(NOMINMAX WIN32_LEAN_AND_MEAN _USE_MATH_DEFINES)
endif()
# Under the address sanitizer, checks of the scope of every vector of a kernel take up to eight times as
# long to compile as the kernel.
set(gnomon_kernel_options -fno-sanitize-address-use-after-scope)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND NOT GNOMON_SANITIZE)
  set(gnomon_kernel_options "")  # Clang warns of an option without effect
endif()
if(GNOMON_WASM)  # other sources are compiled for size
  set(gnomon_kernel_options -Os)
endif()
# The error terms of angles require that each product and each sum is rounded.
set_source_files_properties(src/core/angles_simd.cc src/core/wide.cc src/rotary/rotate_tokens_simd.cc PROPERTIES
  COMPILE_OPTIONS -ffp-contract=off SKIP_PRECOMPILE_HEADERS ON SKIP_UNITY_BUILD_INCLUSION ON)
file(GLOB rotations CONFIGURE_DEPENDS src/rotary/rotate_*_simd.cc)
set_property(SOURCE ${rotations} src/core/angles_simd.cc APPEND PROPERTY COMPILE_OPTIONS
             ${gnomon_kernel_options})

# All remaining instruction sets are compiled, even if the compiler's options guarantee better ones.
# Otherwise ARM would have no portable kernels to compare with.
add_library(gnomon INTERFACE)
if(GNOMON_SANITIZE STREQUAL "thread")  # races do not depend on the instruction set: only one
  gnomon_core_library(HWY_COMPILE_ONLY_STATIC "HWY_DISABLED_TARGETS=(${left_out}|HWY_EMU128|HWY_SCALAR)")
  target_compile_options(gnomon_core PRIVATE -march=native -ffp-contract=off)
elseif(GNOMON_WASM)  # one instruction set, chosen by the compiler's options
  gnomon_core_library(HWY_COMPILE_ONLY_STATIC)
else()
  gnomon_core_library(HWY_COMPILE_ALL_ATTAINABLE "HWY_DISABLED_TARGETS=(${left_out})")
endif()
if(graph IN_LIST gnomon_built)
  gnomon_component(gnomon graph $<BUILD_INTERFACE:Spectra::Spectra>)
  target_compile_options(gnomon_graph PRIVATE $<$<CONFIG:Release>:-O2>)
endif()
gnomon_file_components(gnomon)
if(cuda IN_LIST gnomon_built)
  include(cuda)
endif()
add_library(gnomon::gnomon ALIAS gnomon)
foreach(component IN LISTS gnomon_built)
  add_library(gnomon::${component} ALIAS gnomon_${component})
endforeach()

# The components that read untrusted files, under sanitizers, for `make asan`: the objects of the tests are linked
# to both. To save time, core and graph are as they are, and of undefined behaviour only the checks of arithmetic,
# bounds and conversions (all checks take 60 % longer to compile, these nothing). `make test-long` has all
# components, kernels and sanitizers.
if(GNOMON_TESTS AND NOT GNOMON_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
  add_library(gnomon_sanitized INTERFACE)
  target_link_libraries(gnomon_sanitized INTERFACE gnomon_core gnomon_graph)
  gnomon_file_components(gnomon_sanitized)
  foreach(component model report)
    set_target_properties(gnomon_sanitized_${component} PROPERTIES EXCLUDE_FROM_ALL ON)
    target_compile_options(gnomon_sanitized_${component} PRIVATE -UNDEBUG -g1 -fsanitize=address
      -fsanitize=signed-integer-overflow,shift,integer-divide-by-zero,float-cast-overflow,bounds,bool,enum
      -fno-sanitize-recover=all -fno-omit-frame-pointer -Wno-maybe-uninitialized -O0)
  endforeach()
  target_link_options(gnomon_sanitized INTERFACE ${gnomon_sanitizers})
endif()

# HTML pages embed the script that draws their charts. Without the script everything builds, and pages
# show a message instead.
if(TARGET gnomon_report)
  if(EXISTS "${GNOMON_VEGA_BUNDLE}")
    set_source_files_properties(src/plot/bundle.cc PROPERTIES
      COMPILE_DEFINITIONS "GNOMON_VEGA_BUNDLE=\"${GNOMON_VEGA_BUNDLE}\""
      OBJECT_DEPENDS "${GNOMON_VEGA_BUNDLE}")
  else()
    message(STATUS "No ${GNOMON_VEGA_BUNDLE}: HTML pages will have no charts (`make setup` writes it)")
  endif()
endif()
