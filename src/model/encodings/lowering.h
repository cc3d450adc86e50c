// Checkpoint tensors and lowering of one encoding of a mixture. Private to src/model.
#pragma once

#include "gnomon/model/encoding.h"
#include "src/model/encodings/entry.h"

namespace gnomon::model::internal {

// Throws std::invalid_argument unless all sizes are 1 to 2^31, `heads` divides `width`, and
// `reads` is causal or bidirectional. EncodingInfo::usual expects a checked shape.
void check_shape(const Shape& shape);

// Returns the checkpoint tensors of the parameters, those of one parameter in order of
// preference.
std::span<const CheckpointName> tensors(const Encoding& encoding);

// Throws std::invalid_argument, with the names and shapes of the matrices, unless as many are
// given as there are parameters.
void check_parameter_count(std::string_view where, std::span<const Parameter> wanted,
                           std::size_t given);

// Throws also if one of them has another shape. Views of float and of const float.
template <typename T>
void check_parameters(const Encoding& encoding, std::span<const View<T, 2>> matrices);

// Throws std::invalid_argument if the sizes of the window are inconsistent.
void check_window(const Window& window);

// Sets the final softmax scale of the call: its own scale, or 1 / sqrt(head_dim) of the specs,
// times all factors. Returns the product of the factors.
double put_scale(std::span<const Encoding> mixture, Call& call);

// Sets the scale of q.k with all factors. 0: unknown. Cosine attention has 1.
void set_scale(LayerPlan& plan, double scale);

// Returns the table that rotates queries, before or inside attention. Null: none, or V-JEPA
// 2's.
const RotaryTable* query_table(const LayerPlan& plan);

// Both check the capacity and the shapes of the matrices. The call must be checked already.
void lower_into(const Encoding& encoding, const Call& call, Values values, LayerPlan& lowered);
void backward_into(const Encoding& encoding, const Call& call, Values values,
                   const LayerGradient& lowered, Gradients grads);

// Lowers a mixture for a call whose scale is not final yet. `embedded`: the tokens of the table
// added to the embeddings, if they differ.
LayerPlan lower_call(const Mixture& mixture, Call call, Values values,
                     const Call* embedded = nullptr);

}  // namespace gnomon::model::internal
