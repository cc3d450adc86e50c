// What a module of WebAssembly has in place of parts of a C++ runtime.

// The tag of the exceptions of C++. Compiled code names it, and no library of ziglang defines
// it.
asm(".globl __cpp_exception\n"
    ".tagtype __cpp_exception i32\n"
    "__cpp_exception:\n");

// The module is never unloaded, so the objects of its thread are not destroyed.
extern "C" int __cxa_thread_atexit(void (*)(void*), void*, void*) { return 0; }

// There are no other processes.
extern "C" int pthread_atfork(void (*)(), void (*)(), void (*)()) { return 0; }

// There is no environment.
extern "C" char* getenv(const char*) { return nullptr; }
