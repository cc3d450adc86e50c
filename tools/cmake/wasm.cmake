# Toolchain for WebAssembly: Clang and the sources of libc++ of PyPI's ziglang, in the folder
# build/wasm-tools, which tools/wasm.sh writes. The module has SIMD, exceptions of WebAssembly and one thread.
set(gnomon_wasm_tools "${CMAKE_CURRENT_LIST_DIR}/../../build/wasm-tools")
cmake_path(NORMAL_PATH gnomon_wasm_tools)
set(zig_lib "${gnomon_wasm_tools}/zig/lib")

set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR wasm32)
set(CMAKE_C_COMPILER "${gnomon_wasm_tools}/bin/clang")
set(CMAKE_CXX_COMPILER "${gnomon_wasm_tools}/bin/clang")
set(CMAKE_AR "${gnomon_wasm_tools}/bin/ar")
set(CMAKE_RANLIB "${gnomon_wasm_tools}/bin/ranlib")
set(CMAKE_C_COMPILER_TARGET wasm32-wasip1)
set(CMAKE_CXX_COMPILER_TARGET wasm32-wasip1)
# Everything is compiled for size, and kernels for speed too (gnomon_kernel_options).
set(CMAKE_C_FLAGS_RELEASE "-Oz -DNDEBUG" CACHE STRING "")
set(CMAKE_CXX_FLAGS_RELEASE "-Oz -DNDEBUG" CACHE STRING "")
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)  # bindings/wasm has the command that links
set(CMAKE_HAVE_LIBC_PTHREAD TRUE)  # libc has the functions of threads, which do nothing
set(CMAKE_FIND_ROOT_PATH "${gnomon_wasm_tools}")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
list(APPEND CMAKE_MODULE_PATH "${CMAKE_CURRENT_LIST_DIR}/headers")  # Highway and nlohmann-json

# WebAssembly has two encodings of exceptions. Node 20 has only the older one, as have Chrome from 95 on,
# Firefox from 100 on and Safari from 15.2 on, and their later versions have both.
set(features -msimd128 -mbulk-memory -mnontrapping-fptoint -msign-ext -mmutable-globals
    -fwasm-exceptions -mllvm -wasm-use-legacy-eh=true -ffp-contract=off -fvisibility=hidden
    -ffunction-sections -fdata-sections -Xclang -fmerge-functions -nostdinc)
# The settings of libc++, which has no file of them in ziglang: those that zig passes, but with threads, whose
# functions do nothing, and with a file system, which is only declared.
set(libcxx -D_LIBCPP_ABI_VERSION=1 -D_LIBCPP_ABI_NAMESPACE=__1 -D_LIBCPP_HAS_THREADS=1
    -D_LIBCPP_HAS_THREAD_API_PTHREAD=1 -D_LIBCPP_HAS_THREAD_API_EXTERNAL=0
    -D_LIBCPP_HAS_THREAD_API_WIN32=0 -D_LIBCPP_HAS_THREAD_API_C11=0 -D_LIBCPP_HAS_MONOTONIC_CLOCK=1
    -D_LIBCPP_HAS_TERMINAL=0 -D_LIBCPP_HAS_MUSL_LIBC=1 -D_LIBCPP_HAS_FILESYSTEM=1
    -D_LIBCXXABI_DISABLE_VISIBILITY_ANNOTATIONS -D_LIBCPP_DISABLE_VISIBILITY_ANNOTATIONS
    -D_LIBCPP_HAS_VENDOR_AVAILABILITY_ANNOTATIONS=0 -D_LIBCPP_HAS_RANDOM_DEVICE=1
    -D_LIBCPP_HAS_LOCALIZATION=1 -D_LIBCPP_HAS_UNICODE=1 -D_LIBCPP_HAS_WIDE_CHARACTERS=1
    -D_LIBCPP_HAS_TIME_ZONE_DATABASE=0 -D_LIBCPP_PSTL_BACKEND_SERIAL
    -D_LIBCPP_HARDENING_MODE=_LIBCPP_HARDENING_MODE_NONE
    -D_LIBCPP_ASSERTION_SEMANTIC_DEFAULT=_LIBCPP_ASSERTION_SEMANTIC_IGNORE)
set(libc "${zig_lib}/include" "${zig_lib}/libc/include/wasm-wasi-musl"
    "${zig_lib}/libc/include/generic-musl")
list(TRANSFORM libc PREPEND "-isystem ")
list(JOIN features " " features)
list(JOIN libcxx " " libcxx)
list(JOIN libc " " libc)
set(CMAKE_C_FLAGS_INIT "${features} ${libc}")
set(CMAKE_CXX_FLAGS_INIT
    "${features} ${libcxx} -isystem ${zig_lib}/libcxx/include -isystem ${zig_lib}/libcxxabi/include ${libc}")
