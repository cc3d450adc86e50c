// The bias of a plan for Python.
#pragma once

#include "bindings/python/encodings.h"
#include "gnomon/bias/form.h"

namespace gnomon::python {

const char* form_name(const BiasForm& form);

// The numbers of the bias form, for kernels of other libraries (FlexAttention).
nb::dict bias_form(const Plan& plan);

// The whole bias, float64 [H, Q, K]; None if the plan has no bias.
nb::object bias_of(const Plan& plan, std::int64_t queries, std::int64_t keys);

}  // namespace gnomon::python
