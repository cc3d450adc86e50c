# Toolchain for cross-compiling to 64-bit ARM, on which every processor has NEON. Used by the preset
# `neon`, whose tests run under qemu-user. `tools/setup.sh neon` unpacks the libraries.
set(sysroot "${CMAKE_CURRENT_LIST_DIR}/../../build/setup/arm64/root")
cmake_path(NORMAL_PATH sysroot)
set(system_libraries /usr/aarch64-linux-gnu)  # the libraries of Debian's cross-compiler

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_CXX_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

set(CMAKE_FIND_ROOT_PATH "${sysroot}" ${system_libraries})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_LIBDIR} "${sysroot}/usr/lib/aarch64-linux-gnu/pkgconfig")
set(ENV{PKG_CONFIG_SYSROOT_DIR} "${sysroot}")

set(CMAKE_C_STANDARD_INCLUDE_DIRECTORIES "${sysroot}/usr/include/aarch64-linux-gnu")
set(CMAKE_CXX_STANDARD_INCLUDE_DIRECTORIES "${sysroot}/usr/include/aarch64-linux-gnu")

# Folders in which the linker searches for indirect dependencies, and the emulated loader, which
# uses RUNPATH only for direct dependencies of the program.
set(libraries "${sysroot}/usr/lib/aarch64-linux-gnu")
set(CMAKE_EXE_LINKER_FLAGS_INIT
    "-Wl,-rpath-link,${libraries},-rpath,${libraries},--disable-new-dtags")
# The emulator does not pass limits of memory, which some tests set, to the system.
set(CMAKE_CROSSCOMPILING_EMULATOR prlimit --as=8589934592 qemu-aarch64 -L ${system_libraries})
