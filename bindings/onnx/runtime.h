// The part of ONNX Runtime's C interface that the custom operators call, declared here because
// neither PyPI nor Debian 12 has its header. The interface is binary compatible: OrtApi is a
// list of function pointers that later versions only extend, so a function is known by its
// index (facts of onnxruntime_c_api.h; that header states that the order never changes).
// Version 17 is the first with all of these functions.
//
// If the macro GNOMON_ONNXRUNTIME_HEADER is defined, onnxruntime_c_api.h is included and the
// indices and the layout of OrtCustomOp are compared with it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gnomon::onnx {

inline constexpr std::uint32_t api_version = 17;

// Opaque objects of ONNX Runtime.
struct Api;
struct Status;
struct Info;     // OrtKernelInfo: the attributes of a node
struct Context;  // OrtKernelContext: the inputs and outputs of a call
struct Tensor;   // OrtValue
struct Shape;    // OrtTensorTypeAndShapeInfo

enum class Element : int { undefined = 0, float32 = 1, int64 = 7, float16 = 10, float64 = 11 };
enum class Presence : int { required = 0, optional = 1, variadic = 2 };

// A function of OrtApi by its index.
template <std::size_t Index, typename Function>
Function* function_of(const Api* api) {
  return reinterpret_cast<Function* const*>(api)[Index];
}

struct Runtime {
  const Api* api = nullptr;

  auto create_status() const { return function_of<0, Status*(int, const char*)>(api); }
  auto add_operator() const { return function_of<27, Status*(void*, const void*)>(api); }
  auto create_domain() const { return function_of<26, Status*(const char*, void**)>(api); }
  auto add_domain() const { return function_of<28, Status*(void*, void*)>(api); }
  auto data() const { return function_of<51, Status*(Tensor*, void**)>(api); }
  auto element() const { return function_of<60, Status*(const Shape*, Element*)>(api); }
  auto rank() const { return function_of<61, Status*(const Shape*, std::size_t*)>(api); }
  auto extents() const {
    return function_of<62, Status*(const Shape*, std::int64_t*, std::size_t)>(api);
  }
  auto shape() const { return function_of<65, Status*(const Tensor*, Shape**)>(api); }
  auto attribute_float() const {
    return function_of<85, Status*(const Info*, const char*, float*)>(api);
  }
  auto attribute_integer() const {
    return function_of<86, Status*(const Info*, const char*, std::int64_t*)>(api);
  }
  auto attribute_text() const {
    return function_of<87, Status*(const Info*, const char*, char*, std::size_t*)>(api);
  }
  auto input_count() const {
    return function_of<88, Status*(const Context*, std::size_t*)>(api);
  }
  auto output_count() const {
    return function_of<89, Status*(const Context*, std::size_t*)>(api);
  }
  auto input() const {
    return function_of<90, Status*(const Context*, std::size_t, const Tensor**)>(api);
  }
  auto output() const {
    return function_of<91, Status*(Context*, std::size_t, const std::int64_t*, std::size_t,
                                   Tensor**)>(api);
  }
  auto release_status() const { return function_of<93, void(Status*)>(api); }
  auto release_shape() const { return function_of<99, void(Shape*)>(api); }
  auto parallel_for() const {
    return function_of<274, Status*(const Context*, void (*)(void*, std::size_t), std::size_t,
                                    std::size_t, void*)>(api);
  }
};

// OrtApiBase.
struct ApiBase {
  const Api* (*get)(std::uint32_t version);
  const char* (*version)();
};

// OrtCustomOp: one table of functions for each operator.
struct Operator {
  std::uint32_t version = api_version;
  void* (*create)(const Operator*, const Api*, const Info*) = nullptr;
  const char* (*name)(const Operator*) = nullptr;
  const char* (*provider)(const Operator*) = nullptr;
  Element (*input_type)(const Operator*, std::size_t) = nullptr;
  std::size_t (*input_types)(const Operator*) = nullptr;
  Element (*output_type)(const Operator*, std::size_t) = nullptr;
  std::size_t (*output_types)(const Operator*) = nullptr;
  void (*compute)(void*, Context*) = nullptr;
  void (*destroy)(void*) = nullptr;
  Presence (*input_presence)(const Operator*, std::size_t) = nullptr;
  Presence (*output_presence)(const Operator*, std::size_t) = nullptr;
  int (*memory)(const Operator*, std::size_t) = nullptr;
  int (*fewest_inputs)(const Operator*) = nullptr;  // of the variadic input
  int (*equal_inputs)(const Operator*) = nullptr;
  int (*fewest_outputs)(const Operator*) = nullptr;
  int (*equal_outputs)(const Operator*) = nullptr;
  Status* (*create_v2)(const Operator*, const Api*, const Info*, void**) = nullptr;
  Status* (*compute_v2)(void*, Context*) = nullptr;
  Status* (*infer_shape)(const Operator*, void*) = nullptr;
  int (*start_version)(const Operator*) = nullptr;
  int (*end_version)(const Operator*) = nullptr;
  void* later[4] = {};  // of version 18
};

}  // namespace gnomon::onnx

#ifdef GNOMON_ONNXRUNTIME_HEADER
#include <onnxruntime_c_api.h>
namespace gnomon::onnx {
#define GNOMON_AT(member, index) \
  static_assert(offsetof(OrtApi, member) == (index) * sizeof(void*))
GNOMON_AT(CreateStatus, 0);
GNOMON_AT(CreateCustomOpDomain, 26);
GNOMON_AT(CustomOpDomain_Add, 27);
GNOMON_AT(AddCustomOpDomain, 28);
GNOMON_AT(GetTensorMutableData, 51);
GNOMON_AT(GetTensorElementType, 60);
GNOMON_AT(GetDimensionsCount, 61);
GNOMON_AT(GetDimensions, 62);
GNOMON_AT(GetTensorTypeAndShape, 65);
GNOMON_AT(KernelInfoGetAttribute_float, 85);
GNOMON_AT(KernelInfoGetAttribute_int64, 86);
GNOMON_AT(KernelInfoGetAttribute_string, 87);
GNOMON_AT(KernelContext_GetInputCount, 88);
GNOMON_AT(KernelContext_GetOutputCount, 89);
GNOMON_AT(KernelContext_GetInput, 90);
GNOMON_AT(KernelContext_GetOutput, 91);
GNOMON_AT(ReleaseStatus, 93);
GNOMON_AT(ReleaseTensorTypeAndShapeInfo, 99);
GNOMON_AT(KernelContext_ParallelFor, 274);
#undef GNOMON_AT
static_assert(offsetof(OrtCustomOp, KernelDestroy) == offsetof(Operator, destroy));
static_assert(offsetof(OrtCustomOp, KernelComputeV2) == offsetof(Operator, compute_v2));
static_assert(offsetof(OrtCustomOp, GetEndVersion) == offsetof(Operator, end_version));
}  // namespace gnomon::onnx
#endif
