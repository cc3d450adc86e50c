// The extension module gnomon._core. The package (gnomon/*.py) is its interface.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "bindings/python/encodings.h"
#include "gnomon/error.h"
#include "gnomon/isa.h"
#include "gnomon/parallel.h"
#include "gnomon/version.h"

NB_MODULE(_core, module) {
  namespace nb = nanobind;
  using namespace gnomon;
  // Caches of gnomon.torch hold tables and plans until the process ends.
  nb::set_leak_warnings(false);
  nb::exception<FormatError>(module, "FormatError", PyExc_ValueError);
  module.attr("__version__") = GNOMON_VERSION;
  module.def(
      "isa", [] { return std::string(name(current_isa())); },
      "Returns the instruction set of the kernels: "
      "'portable', 'sse4', 'avx2', 'avx512' or 'neon'.");
  module.def("threads", &threads,
             "Returns the largest number of threads of calls of this thread.");
  module.def("set_threads", &set_threads, nb::arg("count"),
             "Sets the largest number of threads of calls of this thread. "
             "Results do not depend on it.");
  python::bind_positions(module);
  python::bind_rotary(module);
  python::bind_encodings(module);
  python::bind_plan(module);
  python::bind_model(module);
  python::bind_jax(module);
}
