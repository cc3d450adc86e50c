// Custom operators for ONNX Runtime, of the domain `gnomon`, on the C API of Gnomon. The page
// docs/integrations/onnx.md describes their inputs and attributes.
//
//   session_options.register_custom_ops_library("libgnomon_onnx.so")
#include <gnomon.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "bindings/onnx/runtime.h"

namespace gnomon::onnx {
namespace {

Runtime runtime;

// An error of ONNX Runtime, or of a rule of these operators.
struct Failure {
  Status* status;
};
void check(Status* status) {
  if (status) throw Failure{status};
}
[[noreturn]] void fail(const std::string& message) {
  throw Failure{runtime.create_status()(1, message.c_str())};
}
void check(gnomon_status status) {
  if (status) fail(gnomon_error_message());
}
// Runs a function of an operator; a failure becomes a status.
template <typename Body>
Status* guarded(const Body& body) noexcept {
  try {
    body();
    return nullptr;
  } catch (const Failure& failure) {
    return failure.status;
  } catch (const std::exception& error) {
    return runtime.create_status()(1, error.what());
  }
}

// --- Threads: loops of Gnomon run on the threads of the session ------------------------------

thread_local const Context* current = nullptr;  // of the call on this thread

void run_on_session(void*, std::int64_t count, gnomon_task task, void* data) {
  struct Loop {
    gnomon_task task;
    void* data;
  } loop{task, data};
  const auto each = [](void* given, std::size_t i) {
    const Loop& one = *static_cast<Loop*>(given);
    one.task(one.data, static_cast<std::int64_t>(i));
  };
  Status* status =
      current ? runtime.parallel_for()(current, each, static_cast<std::size_t>(count), 0, &loop)
              : nullptr;
  if (current && !status) return;
  if (status) runtime.release_status()(status);
  for (std::int64_t i = 0; i < count; ++i) task(data, i);
}

struct OnSession {
  explicit OnSession(const Context* context) { current = context; }
  ~OnSession() { current = nullptr; }
};

// --- Tensors ---------------------------------------------------------------------------------

// A tensor of ONNX Runtime as one of Gnomon. Borrowed.
struct Array {
  std::vector<std::int64_t> shape;
  gnomon_tensor tensor{};

  std::int64_t size() const {
    std::int64_t product = 1;
    for (const std::int64_t extent : shape) product *= extent;
    return product;
  }
  std::size_t bytes() const { return static_cast<std::size_t>(size() * tensor.dtype.bits / 8); }
};
using ArrayPointer = std::unique_ptr<Array>;  // its address is in the tensor

ArrayPointer array_of(void* data, std::vector<std::int64_t> shape, Element element) {
  auto array = std::make_unique<Array>();
  array->shape = std::move(shape);
  gnomon_data_type type{2, 32, 1};
  if (element == Element::int64) type = {0, 64, 1};
  if (element == Element::float64) type = {2, 64, 1};
  if (element == Element::float16) type = {2, 16, 1};
  array->tensor = {data,
                   {1, 0},
                   static_cast<std::int32_t>(array->shape.size()),
                   type,
                   array->shape.data(),
                   nullptr,
                   0};
  return array;
}

// Input i, or null if it is not given.
ArrayPointer input_of(const Context* context, std::size_t i) {
  std::size_t count = 0;
  check(runtime.input_count()(context, &count));
  const Tensor* tensor = nullptr;
  if (i < count) check(runtime.input()(context, i, &tensor));
  if (!tensor) return nullptr;
  Shape* shape = nullptr;
  check(runtime.shape()(tensor, &shape));
  const std::unique_ptr<Shape, void (*)(Shape*)> owned(shape, runtime.release_shape());
  std::size_t rank = 0;
  check(runtime.rank()(shape, &rank));
  std::vector<std::int64_t> extents(rank);
  check(runtime.extents()(shape, extents.data(), rank));
  Element element{};
  check(runtime.element()(shape, &element));
  void* data = nullptr;
  check(runtime.data()(const_cast<Tensor*>(tensor), &data));
  return array_of(data, std::move(extents), element);
}

ArrayPointer output_of(Context* context, std::size_t i,
                       const std::vector<std::int64_t>& shape) {
  Tensor* tensor = nullptr;
  check(runtime.output()(context, i, shape.data(), shape.size(), &tensor));
  if (!tensor) return nullptr;
  void* data = nullptr;
  check(runtime.data()(tensor, &data));
  return array_of(data, shape, Element::float32);
}

// --- Attributes ------------------------------------------------------------------------------

// Attributes have defaults, so an error means that the attribute is not given.
template <typename T, typename Get>
T attribute(const Info* info, const char* name, T value, const Get& get) {
  if (Status* status = get(info, name, &value)) runtime.release_status()(status);
  return value;
}
std::int64_t integer_of(const Info* info, const char* name, std::int64_t otherwise) {
  return attribute(info, name, otherwise, runtime.attribute_integer());
}
double number_of(const Info* info, const char* name, float otherwise) {
  return double{attribute(info, name, otherwise, runtime.attribute_float())};
}
std::string text_of(const Info* info, const char* name) {
  std::size_t size = 0;
  if (Status* status = runtime.attribute_text()(info, name, nullptr, &size))
    runtime.release_status()(status);
  std::string text(size, '\0');
  if (size == 0) return text;
  check(runtime.attribute_text()(info, name, text.data(), &size));
  text.resize(size - 1);  // without the null at the end
  return text;
}

template <auto Destroy>
struct Destroyer {
  template <typename T>
  void operator()(T* handle) const {
    Destroy(handle);
  }
};
using Encoding = std::unique_ptr<gnomon_encoding, Destroyer<gnomon_encoding_destroy>>;
using Plan = std::unique_ptr<gnomon_layer_plan, Destroyer<gnomon_layer_plan_destroy>>;
using Terms = std::unique_ptr<gnomon_terms, Destroyer<gnomon_terms_destroy>>;
using Table = std::unique_ptr<gnomon_rotary_table, Destroyer<gnomon_rotary_table_destroy>>;
using Frequencies = std::unique_ptr<gnomon_frequencies, Destroyer<gnomon_frequencies_destroy>>;

Encoding encoding_of(const Info* info) {
  gnomon_encoding* encoding = nullptr;
  const std::string json = text_of(info, "encoding");
  if (!json.empty()) check(gnomon_encoding_from_json(json.c_str(), &encoding));
  return Encoding(encoding);
}

// The trained matrices: all inputs from `first` on.
struct Parameters {
  std::vector<ArrayPointer> arrays;
  std::vector<const gnomon_tensor*> tensors;

  Parameters(const Context* context, std::size_t first) {
    for (; ArrayPointer one = input_of(context, first); ++first) {
      tensors.push_back(&one->tensor);
      arrays.push_back(std::move(one));
    }
  }
  std::vector<char> bytes() const {
    std::vector<char> all;
    for (const ArrayPointer& one : arrays) {
      const char* const data = static_cast<const char*>(one->tensor.data);
      all.insert(all.end(), data, data + one->bytes());
    }
    return all;
  }
};

// --- The operators ---------------------------------------------------------------------------

// out = x + the table of the encoding. Inputs: x [B, T, C], parameters.
struct AddPosition {
  static constexpr const char* name = "AddPosition";
  static constexpr std::size_t inputs = 2, outputs = 1;
  static Element input_type(std::size_t) { return Element::float32; }
  static Presence presence(std::size_t i) {
    return i == 1 ? Presence::variadic : Presence::required;
  }
  explicit AddPosition(const Info* info) : encoding(encoding_of(info)) {
    if (!encoding) fail("[onnx] AddPosition must have an encoding, got none");
  }
  void compute(Context* context) {
    const ArrayPointer x = input_of(context, 0);
    const Parameters values(context, 1);
    const ArrayPointer out = output_of(context, 0, x->shape);
    if (x->shape.size() != 3) fail("[onnx] x must be [B, T, C], got another rank");
    gnomon_layer_plan* plan = nullptr;
    check(gnomon_encoding_lower(encoding.get(), values.tensors.data(),
                                std::ssize(values.tensors), x->shape[1], x->shape[1], &plan));
    const Plan owned(plan);
    std::memcpy(out->tensor.data, x->tensor.data, x->bytes());
    check(gnomon_add_position(&out->tensor, plan));
  }
  Encoding encoding;
};

// Inputs: x [B, T, H, D], positions [T], [B, T] or [A, B, T].
struct RotaryEmbedding {
  static constexpr const char* name = "RotaryEmbedding";
  static constexpr std::size_t inputs = 2, outputs = 1;
  static Element input_type(std::size_t i) {
    return i == 1 ? Element::int64 : Element::float32;
  }
  static Presence presence(std::size_t) { return Presence::required; }
  explicit RotaryEmbedding(const Info* info) : inverse(integer_of(info, "inverse", 0) != 0) {
    const Encoding encoding = encoding_of(info);
    if (!encoding) fail("[onnx] RotaryEmbedding must have an encoding, got none");
    gnomon_frequencies* made = nullptr;
    check(gnomon_encoding_frequencies(encoding.get(), integer_of(info, "length", 0), &made));
    frequencies.reset(made);
  }
  void compute(Context* context) {
    const ArrayPointer x = input_of(context, 0), positions = input_of(context, 1);
    const ArrayPointer out = output_of(context, 0, x->shape);
    check(gnomon_rotate_to(&x->tensor, table_of(*positions).get(),
                           inverse ? GNOMON_INVERSE : GNOMON_FORWARD, &out->tensor));
  }
  // The table of the last positions is kept: q and k, and all layers of a step, share them.
  std::shared_ptr<gnomon_rotary_table> table_of(const Array& positions) {
    const auto* const data = static_cast<const char*>(positions.tensor.data);
    const std::lock_guard lock(mutex);
    if (table && shape == positions.shape && bytes.size() == positions.bytes() &&
        std::memcmp(bytes.data(), data, bytes.size()) == 0)
      return table;
    gnomon_rotary_table* made = nullptr;
    check(gnomon_rotary_table_create(frequencies.get(), &positions.tensor, &made));
    table.reset(made, gnomon_rotary_table_destroy);
    shape = positions.shape;
    bytes.assign(data, data + positions.bytes());
    return table;
  }
  bool inverse;
  Frequencies frequencies;
  std::mutex mutex;
  std::shared_ptr<gnomon_rotary_table> table;
  std::vector<std::int64_t> shape;
  std::vector<char> bytes;
};

// Inputs: q [B, T, H, D], k [B, S, Hk, D], v [B, S, Hk, Dv], hidden [B, S, C] or none,
// parameters. Outputs: out [B, T, H, Dv], lse [B, H, T].
struct Attention {
  static constexpr const char* name = "Attention";
  static constexpr std::size_t inputs = 5, outputs = 2;
  static Element input_type(std::size_t) { return Element::float32; }
  static Presence presence(std::size_t i) {
    return i == 4 ? Presence::variadic : i == 3 ? Presence::optional : Presence::required;
  }
  explicit Attention(const Info* info)
      : encoding(encoding_of(info)),
        visibility(integer_of(info, "causal", 1) ? GNOMON_CAUSAL : GNOMON_BIDIRECTIONAL),
        left(integer_of(info, "left", -1)),
        right(integer_of(info, "right", -1)),
        scale(number_of(info, "scale", std::numeric_limits<float>::quiet_NaN())),
        cap(number_of(info, "softcap", 0)) {}

  struct Lowered {
    std::int64_t queries = 0, keys = 0;
    std::vector<char> bytes;  // of the parameters
    Plan plan;
    bool prepares = false;  // gnomon_prepare changes q or k
  };

  void compute(Context* context) {
    const ArrayPointer q = input_of(context, 0), k = input_of(context, 1),
                       v = input_of(context, 2), hidden = input_of(context, 3);
    for (const ArrayPointer* one : {&q, &k, &v})
      if ((*one)->shape.size() != 4)
        fail("[onnx] q, k, v must be [B, T, H, D], got another rank");
    const Parameters values(context, 4);
    const std::vector<std::int64_t>& shape = q->shape;
    const ArrayPointer out = output_of(context, 0, {shape[0], shape[1], shape[2], v->shape[3]});
    std::size_t count = 0;
    check(runtime.output_count()(context, &count));
    const ArrayPointer lse =
        count > 1 ? output_of(context, 1, {shape[0], shape[2], shape[1]}) : nullptr;
    const std::shared_ptr<const Lowered> lowered = lower(*q, *k, values);
    Terms terms;
    if (hidden) {
      gnomon_terms* made = nullptr;
      check(gnomon_encoding_terms(encoding.get(), values.tensors.data(),
                                  std::ssize(values.tensors), &hidden->tensor, &made));
      terms.reset(made);
    }
    std::vector<char> q_copy, k_copy;
    ArrayPointer q_used, k_used;
    if (lowered->prepares) {
      q_used = copied(*q, q_copy);
      k_used = copied(*k, k_copy);
      check(gnomon_prepare(&q_used->tensor, &k_used->tensor, nullptr, lowered->plan.get()));
    }
    gnomon_attention_input input{};
    input.size = sizeof input;
    input.q = q_used ? &q_used->tensor : &q->tensor;
    input.k = k_used ? &k_used->tensor : &k->tensor;
    input.v = &v->tensor;
    input.terms = terms.get();
    check(gnomon_attention(&input, lowered->plan.get(), &out->tensor,
                           lse ? &lse->tensor : nullptr));
  }

  static ArrayPointer copied(const Array& of, std::vector<char>& bytes) {
    const char* const data = static_cast<const char*>(of.tensor.data);
    bytes.assign(data, data + of.bytes());
    return array_of(bytes.data(), of.shape, Element::float32);
  }

  // The plan of the last call is kept while sizes and parameters are the same.
  std::shared_ptr<const Lowered> lower(const Array& q, const Array& k,
                                       const Parameters& values) {
    const std::int64_t queries = q.shape[1], keys = k.shape[1];
    std::vector<char> bytes = values.bytes();
    const std::lock_guard lock(mutex);
    if (last && last->queries == queries && last->keys == keys && last->bytes == bytes)
      return last;
    auto made = std::make_shared<Lowered>();
    made->queries = queries, made->keys = keys, made->bytes = std::move(bytes);
    gnomon_layer_plan* plan = nullptr;
    if (encoding)
      check(gnomon_encoding_lower(encoding.get(), values.tensors.data(),
                                  std::ssize(values.tensors), queries, keys, &plan));
    else
      check(gnomon_layer_plan_create(&plan));
    made->plan.reset(plan);
    check(gnomon_layer_plan_set_mask(plan, visibility, keys - queries, left, right));
    if (!std::isnan(scale) || cap != 0)
      check(gnomon_layer_plan_set_softmax(plan, scale, cap, nullptr));
    std::vector<float> q_ones(static_cast<std::size_t>(q.size()), 1.0f),
        k_ones(static_cast<std::size_t>(k.size()), 1.0f);
    const ArrayPointer q_test = array_of(q_ones.data(), q.shape, Element::float32),
                       k_test = array_of(k_ones.data(), k.shape, Element::float32);
    check(gnomon_prepare(&q_test->tensor, &k_test->tensor, nullptr, plan));
    for (const std::vector<float>* one : {&q_ones, &k_ones})
      for (const float each : *one) made->prepares |= each != 1.0f;
    return last = made;
  }

  Encoding encoding;
  std::int32_t visibility;
  std::int64_t left, right;
  double scale, cap;
  std::mutex mutex;
  std::shared_ptr<const Lowered> last;
};

// The table of functions of an operator.
template <typename Kernel>
Operator* table_of() {
  static Operator table;
  table.name = [](const Operator*) { return Kernel::name; };
  table.provider = [](const Operator*) -> const char* { return nullptr; };
  table.input_types = [](const Operator*) { return Kernel::inputs; };
  table.input_type = [](const Operator*, std::size_t i) { return Kernel::input_type(i); };
  table.output_types = [](const Operator*) { return Kernel::outputs; };
  table.output_type = [](const Operator*, std::size_t) { return Element::float32; };
  table.input_presence = [](const Operator*, std::size_t i) { return Kernel::presence(i); };
  table.output_presence = [](const Operator*, std::size_t i) {
    return i == 0 ? Presence::required : Presence::optional;
  };
  table.memory = [](const Operator*, std::size_t) { return 0; };
  table.fewest_inputs = [](const Operator*) { return 0; };
  table.equal_inputs = [](const Operator*) { return 1; };
  table.fewest_outputs = [](const Operator*) { return 1; };
  table.equal_outputs = [](const Operator*) { return 1; };
  table.create_v2 = [](const Operator*, const Api*, const Info* info, void** kernel) {
    return guarded([&] { *kernel = new Kernel(info); });
  };
  table.compute_v2 = [](void* kernel, Context* context) {
    return guarded([&] {
      const OnSession session(context);
      static_cast<Kernel*>(kernel)->compute(context);
    });
  };
  table.destroy = [](void* kernel) { delete static_cast<Kernel*>(kernel); };
  table.start_version = [](const Operator*) { return 1; };
  table.end_version = [](const Operator*) { return std::numeric_limits<int>::max(); };
  return &table;
}

}  // namespace
}  // namespace gnomon::onnx

extern "C" __attribute__((visibility("default"))) gnomon::onnx::Status* RegisterCustomOps(
    void* options, const gnomon::onnx::ApiBase* base) {
  using namespace gnomon::onnx;
  const Api* const api = base->get(api_version);
  if (!api) return nullptr;  // older than 1.17: ONNX Runtime has reported the version
  runtime.api = api;
  return guarded([&] {
    const auto threads = static_cast<std::int32_t>(std::thread::hardware_concurrency());
    check(gnomon_set_executor(run_on_session, nullptr, threads > 0 ? threads : 1));
    void* domain = nullptr;  // lives as long as the process, as its operators do
    check(runtime.create_domain()("gnomon", &domain));
    for (const Operator* one :
         {table_of<AddPosition>(), table_of<RotaryEmbedding>(), table_of<Attention>()})
      check(runtime.add_operator()(domain, one));
    check(runtime.add_domain()(options, domain));
  });
}
