// Errors of calls whose arguments do not fit a signature: one sentence (gnomon/_calls.py) in
// place of nanobind's list of signatures.
#include <nanobind/nanobind.h>

#include <string>

#include "bindings/python/encodings.h"

namespace gnomon::python {
namespace {

// The last overload of a function. It returns no value: either Python raises, or nanobind tries
// the other overload with conversions (3 for 3.0, the integers of NumPy).
nb::object refuse_call(nb::handle owner, const char* name, nb::args args, nb::kwargs kwargs) {
  nb::module_::import_("gnomon._calls").attr("check")(owner, name, args, kwargs);
  throw nb::next_overload();
}

// Adds that overload to the functions of a module, or to the methods of a class.
void add_to(nb::handle owner) {
  const nb::object members =
      nb::module_::import_("builtins").attr("dict")(owner.attr("__dict__"));
  for (const auto& [key, member] : nb::borrow<nb::dict>(members)) {
    const auto type = nb::cast<std::string>(member.type().attr("__name__"));
    if (type.starts_with("nb_type")) add_to(member);
    if (type != "nb_func" && type != "nb_method") continue;
    const auto name = nb::cast<std::string>(key);
    if (name.starts_with("__") && name != "__init__") continue;
    const nb::object text = member.attr("__nb_signature__")[0][1];
    const std::string doc = text.is_none() ? "" : nb::cast<std::string>(text);
    const std::string other = "def " + name + "(...): other calls raise TypeError";
    const char* const kept = PyUnicode_AsUTF8AndSize(key.ptr(), nullptr);  // interned
    if (type == "nb_method")
      nb::cpp_function_def(
          [owner, kept](nb::handle, nb::args args, nb::kwargs kwargs) {
            return refuse_call(owner, kept, args, kwargs);
          },
          nb::scope(owner), nb::sig(other.c_str()), nb::is_method(), doc.c_str());
    else
      nb::cpp_function_def(
          [owner, kept](nb::args args, nb::kwargs kwargs) {
            return refuse_call(owner, kept, args, kwargs);
          },
          nb::scope(owner), nb::sig(other.c_str()), doc.c_str());
  }
}

}  // namespace

void bind_wrong_calls(nb::module_& module) { add_to(module); }

}  // namespace gnomon::python
