// The sources with a variant for Windows (check.sh compiles them after the headers).
#include "src/core/elements_that_fit.cc"
#include "src/core/fork.h"
#include "src/core/memory.cc"
#include "src/core/size.cc"
#include "src/io/file.cc"
#include "src/io/file_windows.cc"
