// The handle types of gnomon.h, and the conversion of exceptions to statuses.
#pragma once

#include <bit>
#include <cstddef>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gnomon.h"
#include "gnomon/attention/layer_plan.h"
#include "gnomon/error.h"
#include "gnomon/tensor.h"
#include "src/core/float_mode.h"
#include "src/core/tensor.h"

struct gnomon_frequencies {
  gnomon::RotaryFrequencies frequencies;
};
struct gnomon_rotary_table {
  gnomon::RotaryTable table;
};
struct gnomon_layer_plan {
  gnomon::LayerPlan plan;
};
struct gnomon_terms {
  gnomon::TermArrays own;
  gnomon::TokenTerms terms;  // borrow `own`
};
struct gnomon_plan_gradient {
  gnomon::BiasGradient bias;
  gnomon::RelativeGradient relative;
};

namespace gnomon::c {

static_assert(sizeof(gnomon_tensor) == sizeof(DlTensor));
static_assert(offsetof(gnomon_tensor, shape) == offsetof(DlTensor, shape));
static_assert(offsetof(gnomon_tensor, byte_offset) == offsetof(DlTensor, byte_offset));

// Stores the message for gnomon_error_message().
gnomon_status failed(gnomon_status status, const char* message) noexcept;

// Runs body() in the default mode of floating-point arithmetic, and converts exceptions to a
// status.
template <typename Body>
gnomon_status guarded(Body&& body) noexcept {
  const gnomon::internal::DefaultFloatMode mode;
  try {
    body();
    return GNOMON_OK;
  } catch (const FormatError& error) {
    return failed(GNOMON_FORMAT_ERROR, error.what());
  } catch (const std::invalid_argument& error) {
    return failed(GNOMON_INVALID_ARGUMENT, error.what());
  } catch (const std::bad_alloc&) {
    return failed(GNOMON_OUT_OF_MEMORY, "out of memory");
  } catch (const std::length_error&) {
    return failed(GNOMON_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& error) {
    return failed(GNOMON_INTERNAL_ERROR, error.what());
  } catch (...) {
    return failed(GNOMON_INTERNAL_ERROR, "unknown error");
  }
}

// Returns the object behind a pointer; throws if the pointer is null.
template <typename T>
T& given(std::string_view name, T* pointer) {
  if (!pointer) refuse("c", std::string(name) + " must be given", "NULL");
  return *pointer;
}

// Returns a struct of arguments. Throws if it does not have the size of this version, or has
// members of a later version that are not 0.
template <typename Struct>
const Struct& sized(const char* type, std::string_view name, const Struct* from) {
  const std::size_t size = given(name, from).size;
  const auto* const bytes = reinterpret_cast<const unsigned char*>(from);
  const std::string rule = std::string("the member size of ") + type + " must be ";
  if (size < sizeof(Struct) || size > 4096)
    refuse("c", rule + "sizeof(" + type + "), " + std::to_string(sizeof(Struct)),
           static_cast<std::int64_t>(size));
  for (std::size_t at = sizeof(Struct); at < size; ++at)
    if (bytes[at] != 0)
      refuse("c",
             rule + "at most " + std::to_string(sizeof(Struct)) +
                 " in this version of the library, unless the other members are 0",
             static_cast<std::int64_t>(size));
  return *from;
}

inline Tensor tensor(std::string_view name, const gnomon_tensor* from) {
  return Tensor(std::bit_cast<DlTensor>(given(name, from)));
}
// Returns the tensor, or a tensor without data for NULL.
inline Tensor tensor_if(const gnomon_tensor* from) {
  return from ? Tensor(std::bit_cast<DlTensor>(*from)) : Tensor{};
}

// Returns the elements of a tensor [N].
template <typename T>
std::vector<T> elements_of(const char* name, const gnomon_tensor* from) {
  const auto view = internal::read<T, 1>({"c", name}, tensor(name, from));
  std::vector<T> all;
  all.reserve(static_cast<std::size_t>(view.extent(0)));
  for (std::ptrdiff_t i = 0; i < view.extent(0); ++i) all.push_back(view(i));
  return all;
}

// Returns the positions of tokens, one for each axis. ids: int64 [T], [B, T] or [A, B, T].
// sequences: int32 [B, T], or NULL: all tokens are in one sequence.
std::vector<Positions> axes_of(const char* name, const gnomon_tensor* ids,
                               const gnomon_tensor* sequences);

// Computes attention with all that a plan requires after it. ragged: empty for sequences of the
// same lengths.
void attend(const gnomon_attention_input* input, const LayerPlan& plan,
            const RaggedBatch& ragged, const Tensor& out, const Tensor& lse);

// Makes a handle and writes it to *out.
template <typename Handle, typename... Parts>
void make(Handle** out, Parts&&... parts) {
  given("out", out) = new Handle{std::forward<Parts>(parts)...};
}

}  // namespace gnomon::c
