# The component cuda: operations of the library for tensors in the memory of a GPU.
set(GNOMON_CUDA_ARCHITECTURES "80-real;90-real;100" CACHE STRING
    "Devices to compile for; a last one without -real also adds PTX for newer devices")
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES "${GNOMON_CUDA_ARCHITECTURES}")
endif()
if(NOT CMAKE_CUDA_COMPILER AND EXISTS /usr/local/cuda/bin/nvcc)
  set(CMAKE_CUDA_COMPILER /usr/local/cuda/bin/nvcc)
endif()
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that of nvcc 13
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()
find_package(CUDAToolkit REQUIRED)

file(GLOB cuda_sources CONFIGURE_DEPENDS src/cuda/*.cu src/cuda/arguments.cc)
add_library(gnomon_cuda ${cuda_sources})
target_compile_features(gnomon_cuda PUBLIC cxx_std_20)
set_target_properties(gnomon_cuda PROPERTIES EXPORT_NAME cuda
  CXX_VISIBILITY_PRESET default CUDA_VISIBILITY_PRESET default CUDA_RUNTIME_LIBRARY Static
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
target_include_directories(gnomon_cuda PUBLIC
  "$<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include>" "$<INSTALL_INTERFACE:include>"
  PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
# The static runtime, which requires only the driver. Kernels have the same bits as in the emulator,
# because products and sums are fused only where the source says so.
target_compile_options(gnomon_cuda PRIVATE
  $<$<COMPILE_LANGUAGE:CUDA>:--fmad=false --expt-relaxed-constexpr --extended-lambda>)
if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.8)  # a sixth of the size, decompressed when loaded
  target_compile_options(gnomon_cuda PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--compress-mode=size>)
endif()
target_link_libraries(gnomon_cuda PUBLIC gnomon_core PRIVATE CUDA::cudart_static)
