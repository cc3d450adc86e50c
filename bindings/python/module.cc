// The extension module gnomon._core. The package (gnomon/*.py) is its interface.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstdlib>

#include "bindings/python/encodings.h"
#include "gnomon/error.h"
#include "gnomon/isa.h"
#include "gnomon/parallel.h"
#include "gnomon/version.h"

NB_MODULE(_core, module) {
  namespace nb = nanobind;
  using namespace gnomon;
  // nanobind keeps the types of the interpreter that imports the module last: those of the main
  // interpreter must stay, or its calls refuse all objects. (Python 3.13 runs PyInit__core in
  // the main interpreter also for a sub-interpreter, so it cannot refuse there.)
  static auto* of_main = nb::detail::internals;
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
    nb::detail::internals = of_main;
    throw nb::import_error(
        "gnomon must be imported by the main interpreter, got a sub-interpreter");
  }
  of_main = nb::detail::internals;
  // Caches of gnomon.torch hold tables and plans until the process ends.
  nb::set_leak_warnings(false);
  nb::exception<FormatError>(module, "FormatError", PyExc_ValueError);
  module.attr("__version__") = GNOMON_VERSION;
  module.def(
      "isa", [] { return std::string(name(current_isa())); },
      nb::sig("def isa() -> Literal['portable', 'sse4', 'avx2', 'avx512', 'neon']"),
      "Returns the instruction set of the kernels: "
      "'portable', 'sse4', 'avx2', 'avx512' or 'neon'.");
  module.def("threads", &threads,
             "Returns the largest number of threads of calls of this thread.");
  module.def(
      "set_threads",
      [](std::int64_t count) {
        if (count != static_cast<int>(count))
          refuse("threads", "count must be below 2^31", count);
        set_threads(static_cast<int>(count));
      },
      nb::arg("count"),
      "Sets the largest number of threads of calls of this thread. "
      "Results do not depend on it.");
  python::bind_positions(module);
  python::bind_rotary(module);
  python::bind_encodings(module);
  python::bind_plan(module);
  python::bind_model(module);
  python::bind_cache(module);
  python::bind_paged_cache(module);
  python::bind_graph(module);
  python::bind_resize(module);
  python::bind_compression(module);
  python::bind_convolution(module);
  python::bind_dape(module);
  python::bind_jax(module);
  // Stubs (nanobind.stubgen) list the signatures without it.
  if (!std::getenv("NB_STUBGEN")) python::bind_wrong_calls(module);
}
