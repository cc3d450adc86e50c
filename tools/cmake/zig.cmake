# Toolchain for other systems: Clang of PyPI's ziglang, which contains the C library and libc++ of each. `tools/wasm.sh
# tools` installs it, Highway and nlohmann-json below build/.
#
#   cmake --toolchain tools/cmake/zig.cmake -DGNOMON_ZIG_TARGET=x86_64-windows-gnu -DGNOMON_COMPONENTS="core;model" ...
#
# Targets: x86_64-linux-musl, aarch64-linux-musl, x86_64-windows-gnu, aarch64-macos. (wasm32: tools/cmake/wasm.cmake)
set(gnomon_wasm_tools "${CMAKE_CURRENT_LIST_DIR}/../../build/wasm-tools")
cmake_path(NORMAL_PATH gnomon_wasm_tools)
set(GNOMON_ZIG_TARGET x86_64-linux-musl CACHE STRING "System, as in `zig cc --target`")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES GNOMON_ZIG_TARGET)

string(REGEX MATCH "^[^-]+" CMAKE_SYSTEM_PROCESSOR "${GNOMON_ZIG_TARGET}")
set(CMAKE_SYSTEM_NAME Linux)
if(GNOMON_ZIG_TARGET MATCHES "windows")
  set(CMAKE_SYSTEM_NAME Windows)
elseif(GNOMON_ZIG_TARGET MATCHES "macos")
  set(CMAKE_SYSTEM_NAME Darwin)
endif()
set(CMAKE_C_COMPILER "${gnomon_wasm_tools}/bin/zig-cc")
set(CMAKE_CXX_COMPILER "${gnomon_wasm_tools}/bin/zig-c++")
set(CMAKE_AR "${gnomon_wasm_tools}/bin/ar")
set(CMAKE_RANLIB "${gnomon_wasm_tools}/bin/ranlib")
set(CMAKE_C_COMPILER_TARGET ${GNOMON_ZIG_TARGET})
set(CMAKE_CXX_COMPILER_TARGET ${GNOMON_ZIG_TARGET})
set(CMAKE_FIND_ROOT_PATH "${gnomon_wasm_tools}")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
list(APPEND CMAKE_MODULE_PATH "${CMAKE_CURRENT_LIST_DIR}/headers")  # Highway and nlohmann-json

# Tests run under an emulator, if there is one.
if(GNOMON_ZIG_TARGET MATCHES "^aarch64-linux")
  set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64)
elseif(GNOMON_ZIG_TARGET MATCHES "windows")
  set(CMAKE_CROSSCOMPILING_EMULATOR wine)
endif()
set(GNOMON_THREADS std CACHE STRING "")  # ziglang has no OpenMP
