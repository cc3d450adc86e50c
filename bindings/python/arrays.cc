#include "bindings/python/arrays.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>

#include "gnomon/error.h"
#include "src/core/tensor.h"

namespace gnomon::python {
namespace {

// The table of functions by which PyTorch 2.10 and later give a tensor's DLTensor without a
// Python call (DLPack 1.2, "C exchange API"). Only the members up to the one that is used; the
// layout is fixed by DLPack.
struct ExchangeApi {
  std::uint32_t major, minor;
  ExchangeApi* previous;
  void* allocate;
  void* from_object;
  void* to_object;
  int (*borrow_from_object)(void* object, Tensor* out);
};

// Facts of a type of arrays. The types of a process are few, so each thread keeps the last
// ones: Python without the GIL calls this function from several threads at once.
struct ArrayType {
  PyObject* type = nullptr;  // owned, so that its address is not used again
  const ExchangeApi* api = nullptr;
  bool immutable = false;  // JAX: its DLPack capsules do not say that they are read-only
  bool torch = false;      // autograd may record what happens to it
  bool known = false;      // its capsules are right; those of other types are checked
};
const ArrayType& array_type(PyObject* object) {
  thread_local ArrayType kept[8] = {};
  thread_local int next = 0;
  auto* const type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  for (const ArrayType& one : kept)
    if (one.type == type) return one;
  const ExchangeApi* api = nullptr;
  nb::object capsule = nb::getattr(nb::handle(type), "__dlpack_c_exchange_api__", nb::none());
  if (PyCapsule_CheckExact(capsule.ptr())) {
    api = static_cast<const ExchangeApi*>(
        PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
    if (!api) PyErr_Clear();
    if (api && (api->major != 1 || !api->borrow_from_object)) api = nullptr;
  }
  const nb::object module = nb::getattr(nb::handle(type), "__module__", nb::str(""));
  std::string from;
  const bool immutable = nb::try_cast(module, from, false) && from.starts_with("jax");
  bool known = immutable;
  for (const char* package : {"numpy", "torch", "cupy"}) known |= from.starts_with(package);
  const bool torch = nb::hasattr(nb::handle(type), "_backward_hooks");
  ArrayType& place = kept[next++ % 8];
  Py_XDECREF(place.type);
  Py_INCREF(type);
  place = {type, api, immutable, torch, known};
  return place;
}

// The contents of DLPack capsules, whose layout is fixed by DLPack.
struct ManagedTensor {
  DlTensor tensor;
  void* context;
  void (*deleter)(ManagedTensor*);
};
struct VersionedTensor {
  std::uint32_t major, minor;
  void* context;
  void (*deleter)(VersionedTensor*);
  std::uint64_t flags;
  DlTensor tensor;
};

// Calls object.__dlpack__, with the keyword max_version if `versioned`. Null if it raises.
nb::object dlpack_of(nb::handle object, bool versioned) {
  const nb::object method = nb::getattr(object, "__dlpack__", nb::none());
  if (method.is_none()) return {};
  nb::dict options;
  if (versioned) options["max_version"] = nb::make_tuple(1, 1);
  const nb::tuple no_arguments = nb::make_tuple();
  PyObject* const made = PyObject_Call(method.ptr(), no_arguments.ptr(), options.ptr());
  if (!made) PyErr_Clear();
  return nb::steal(made);
}

// Returns a capsule of a type that is not known, after a check of what nanobind reads without
// one. nanobind renames this capsule when it takes it, so that an object that gives one capsule
// twice is refused and not read after its deleter. Null: no capsule.
nb::object checked_capsule(const char* operation, const char* name, nb::handle object,
                           bool versioned) {
  nb::object capsule = nb::borrow(object);
  if (!PyCapsule_CheckExact(object.ptr())) {
    capsule = dlpack_of(object, versioned);
    if (!capsule.is_valid()) capsule = dlpack_of(object, !versioned);
    if (!capsule.is_valid() || !PyCapsule_CheckExact(capsule.ptr())) return {};
  }
  const DlTensor* tensor = nullptr;
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor")) {
    tensor = &static_cast<const ManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"))
                  ->tensor;
  } else if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned")) {
    const auto& managed = *static_cast<const VersionedTensor*>(
        PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
    if (managed.major != 1)
      refuse(operation, std::string(name) + " must have version 1 of DLPack, or none",
             std::int64_t{managed.major});
    tensor = &managed.tensor;
  } else {
    return {};
  }
  constexpr std::int32_t most_axes = 64;  // of NumPy and PyTorch
  if (tensor->rank < 0 || tensor->rank > most_axes)
    refuse(operation, std::string(name) + " must have at most 64 axes",
           std::int64_t{tensor->rank});
  if (tensor->rank && !tensor->shape)
    refuse(operation, std::string(name) + " must have a shape", "a null pointer");
  return capsule;
}

std::string dtype_of(nb::handle object) {
  const nb::object dtype = object.attr("dtype");  // nb::str of an accessor would not convert it
  return nb::cast<std::string>(nb::str(dtype));
}

// Returns the type of an object: "list", "ndarray of object".
std::string type_of(nb::handle object) {
  const nb::object name = nb::getattr(object.type(), "__name__", nb::str("?"));
  return nb::cast<std::string>(nb::str(name)) +
         (nb::hasattr(object, "dtype") ? " of " + dtype_of(object) : "");
}

// The function of gnomon.torch or gnomon.jax that does the work of an operation.
std::string function_of(const char* package, std::string_view operation) {
  std::string function = "attention";
  for (const char* name : {"rotate", "add_position"})
    if (operation.starts_with(name)) function = name;
  return std::string("gnomon.") + package + "." + function;
}

// Refuses a tensor of PyTorch if autograd would miss what happens to it. Reads of a tensor that
// requires a gradient are allowed under torch.no_grad (autograd.Function, parameters); a change
// is then entered in the version of the tensor, so that a backward pass that needs the earlier
// value raises PyTorch's error.
void check_autograd(const char* operation, const char* name, nb::handle object, bool changed) {
  static PyObject* const requires_grad = PyUnicode_InternFromString("requires_grad");
  static PyObject* const level = PyUnicode_InternFromString("_current_level");
  static PyObject* const forward_ad =
      PyModule_GetDict(nb::module_::import_("torch.autograd.forward_ad").release().ptr());
  static PyObject* const none = PyLong_FromLong(-1);  // outside of dual_level
  PyObject* const required = PyObject_GetAttr(object.ptr(), requires_grad);
  if (!required) throw nb::python_error();
  Py_DECREF(required);  // True and False stay
  PyObject* const current = PyDict_GetItemWithError(forward_ad, level);
  if (required != Py_True && current == none) [[likely]]
    return;
  const auto refuse_as = [&](const char* got) {
    refuse(operation,
           std::string(name) + " must be outside of autograd: use " +
               function_of("torch", operation) + ", or " + name + ".detach()",
           got);
  };
  if (required == Py_True) {
    const nb::module_ torch = nb::module_::import_("torch");
    if (nb::cast<bool>(torch.attr("is_grad_enabled")()))
      refuse_as("a tensor that requires a gradient");
    if (changed) torch.attr("autograd").attr("graph").attr("increment_version")(object);
  }
  if (!current || PyLong_AsLong(current) < 0) return;
  const nb::module_ dual = nb::module_::import_("torch.autograd.forward_ad");
  if (!dual.attr("unpack_dual")(object).attr("tangent").is_none())
    refuse_as("a tensor that has a tangent");
}

// The reason why PyTorch gives no memory of a tensor.
void refuse_tensor(const char* operation, const char* name, nb::handle object) {
  const nb::module_ functorch = nb::module_::import_("torch").attr("_C").attr("_functorch");
  if (nb::cast<bool>(functorch.attr("is_functorch_wrapped_tensor")(object)))
    refuse(operation,
           std::string(name) + " must be outside of torch.func transforms: use " +
               function_of("torch", operation),
           "a tensor of a transform (vmap, grad, jvp)");
  const auto text = [&](const char* of) {
    const nb::object value = object.attr(of);
    return nb::cast<std::string>(nb::str(value));
  };
  refuse(operation,
         std::string(name) + " must be a dense tensor on the CPU: use " +
             function_of("torch", operation) + " for other devices",
         text("layout") + " on " + text("device"));
}

// NumPy gives zero strides to arrays without elements. Null strides: row-major.
void drop_strides_if_empty(Tensor& tensor) {
  for (std::int32_t axis = 0; axis < tensor.rank; ++axis)
    if (tensor.shape[axis] == 0) tensor.strides = nullptr;
}

template <typename Array>
void put(const Array& array, Tensor& tensor) {
  tensor.data = const_cast<void*>(static_cast<const void*>(array.data_handle()));
  tensor.device = {static_cast<DeviceType>(array.device_type()), array.device_id()};
  tensor.rank = static_cast<std::int32_t>(array.ndim());
  const auto dtype = array.dtype();
  tensor.dtype = {static_cast<TypeCode>(dtype.code), dtype.bits, dtype.lanes};
  tensor.shape = const_cast<std::int64_t*>(array.shape_ptr());
  tensor.strides = const_cast<std::int64_t*>(array.stride_ptr());
  tensor.byte_offset = array.byte_offset();
  drop_strides_if_empty(tensor);
}

}  // namespace

bool Array::take(const char* operation, const char* name, nb::handle object, Access access) {
  nb::object capsule;
  const bool known = array_type(object.ptr()).known;
  if (!known && (PyCapsule_CheckExact(object.ptr()) || nb::hasattr(object, "__dlpack__"))) {
    capsule = checked_capsule(operation, name, object, access == Access::write);
    if (!capsule.is_valid()) return false;
    object = capsule;
  }
  if (access == Access::write) {
    if (!nb::try_cast(object, written_, false)) return false;
    put(written_, tensor_);
  } else {
    if (!nb::try_cast(object, read_, false)) return false;
    put(read_, tensor_);
  }
  return true;
}

Array::Array(const char* operation, const char* name, nb::handle object, Access access) {
  if (object.is_none()) return;
  const auto& known = array_type(object.ptr());
  const bool torch = known.torch, jax = known.immutable;
  if (access == Access::write && jax)
    refuse(operation,
           std::string(name) + " must be writable, since it is changed in place: use " +
               function_of("jax", operation),
           "an array of JAX");
  if (torch) check_autograd(operation, name, object, access == Access::write);
  if (!borrow(object) && !take(operation, name, object, access) &&
      !take_ml_dtype(operation, name, object, access)) {
    if (torch) refuse_tensor(operation, name, object);
    const std::string of = name;
    if (jax)
      refuse(operation, of + " must have values: use " + function_of("jax", operation),
             type_of(object));
    if (access == Access::write &&
        (owner_.is_valid() || take(operation, name, object, Access::read)))
      refuse(operation, of + " must be writable, since it is changed in place",
             "a read-only array");
    refuse(operation, of + " must be an array that supports DLPack (NumPy, PyTorch, JAX, CuPy)",
           type_of(object));
  }
  if (torch && !tensor_.data && nb::cast<std::int64_t>(object.attr("numel")()))
    refuse(operation,
           std::string(name) + " must have values: use " + function_of("torch", operation),
           type_of(object));
  if (!tensor_.data) {  // a null pointer would be an argument that is left out
    alignas(64) static std::byte no_elements[64];
    const std::span<const std::int64_t> shape(tensor_.shape,
                                              static_cast<std::size_t>(tensor_.rank));
    if (std::ranges::find(shape, 0) == shape.end())
      refuse(operation, std::string(name) + " must have data", "a null pointer");
    tensor_.data = no_elements, tensor_.byte_offset = 0;
  }
  if (access == Access::write && internal::fits(tensor_))
    internal::check_own_places({operation, name}, tensor_);
}

bool Array::borrow(nb::handle object) {
  const ExchangeApi* const api = array_type(object.ptr()).api;
  if (!api) return false;
  if (api->borrow_from_object(object.ptr(), &tensor_) == 0) return true;
  PyErr_Clear();
  return false;
}

// NumPy cannot export the types of ml_dtypes. Their elements have the layout of integers.
bool Array::take_ml_dtype(const char* operation, const char* name, nb::handle object,
                          Access access) {
  if (!nb::hasattr(object, "dtype") || !nb::hasattr(object, "view") ||
      (dtype_of(object) != "bfloat16" && dtype_of(object) != "float8_e4m3fn"))
    return false;
  const bool narrow = dtype_of(object) == "float8_e4m3fn";
  owner_ = object.attr("view")(narrow ? "uint8" : "uint16");
  if (!take(operation, name, owner_, access)) return false;
  tensor_.dtype =
      narrow ? DataType{TypeCode::float8_e4m3fn, 8} : DataType{TypeCode::bfloat, 16};
  return true;
}

nb::object new_array(const char* operation, const char* whose, const ConstTensor& like,
                     std::initializer_list<std::int64_t> shape) {
  const char* type = like.holds<float>()    ? "float32"
                     : like.holds<Half>()   ? "float16"
                     : like.holds<double>() ? "float64"
                                            : nullptr;
  if (!type)
    refuse(operation, std::string("out must be given unless ") + whose + " f32, f16 or f64",
           gnomon::name(like.dtype));
  nb::list extents;
  for (const std::int64_t one : shape) extents.append(one);
  return nb::module_::import_("numpy").attr("empty")(nb::tuple(extents), type);
}

nb::list sequence(const char* operation, const char* name, nb::handle object) {
  if (PyObject* const all = PySequence_List(object.ptr())) return nb::steal<nb::list>(all);
  PyErr_Clear();
  refuse(operation, std::string(name) + " must be a sequence of arrays", type_of(object));
}

Integers integers(const char* operation, const char* name, nb::handle object) {
  Integers all;
  const bool is_array = nb::hasattr(object, "__dlpack__");
  if (!is_array && PySequence_Check(object.ptr())) {
    for (nb::handle one : nb::borrow<nb::object>(object)) {
      std::int64_t value = 0;
      if (!nb::try_cast(one, value, false))
        refuse(operation, std::string(name) + " must be integers", type_of(one));
      all.values.push_back(value);
    }
    all.shape = {static_cast<std::int64_t>(all.values.size())};
    return all;
  }
  const Array array(operation, name, object, Array::Access::read);
  const Tensor& t = array.tensor();
  const bool is_integer = t.dtype.code == TypeCode::integer ||
                          t.dtype.code == TypeCode::unsigned_integer ||
                          t.dtype.code == TypeCode::boolean;
  const bool has_bytes =
      t.dtype.bits == 8 || t.dtype.bits == 16 || t.dtype.bits == 32 || t.dtype.bits == 64;
  if (!is_integer || !has_bytes || t.dtype.lanes != 1)
    refuse(operation, std::string(name) + " must be integers", gnomon::name(t.dtype));
  if (t.rank < 1 || t.rank > 2)
    refuse(operation, std::string(name) + " must have 1 or 2 axes", std::int64_t{t.rank});
  ConstTensor places = t;  // as bytes, because integers need not be aligned
  places.dtype = {TypeCode::unsigned_integer, 8};
  internal::check_tensor({operation, name}, places, t.rank);
  for (std::int32_t axis = 0; axis < t.rank; ++axis) all.shape.push_back(t.shape[axis]);
  const std::int64_t rows = t.rank == 2 ? t.shape[0] : 1, columns = t.shape[t.rank - 1];
  all.values.reserve(internal::checked_size(operation, name, {rows, columns}));
  const auto* const bytes = static_cast<const char*>(t.start());
  const std::int64_t size = t.dtype.bits / 8;
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t column = 0; column < columns; ++column) {
      const std::int64_t at =
          (t.rank == 2 ? row * t.stride(0) : 0) + column * t.stride(t.rank - 1);
      std::int64_t value = 0;  // little-endian, as all supported machines
      std::memcpy(&value, bytes + at * size, static_cast<std::size_t>(size));
      if (t.dtype.code == TypeCode::integer && size < 8) {
        const int unused = 64 - 8 * static_cast<int>(size);
        value =
            static_cast<std::int64_t>(static_cast<std::uint64_t>(value) << unused) >> unused;
      }
      if (t.dtype.code == TypeCode::unsigned_integer && value < 0)
        refuse(operation, std::string(name) + " must be at most 2^63 - 1",
               std::to_string(static_cast<std::uint64_t>(value)));
      all.values.push_back(value);
    }
  return all;
}

}  // namespace gnomon::python
