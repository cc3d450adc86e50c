// One encoding's part of a mixture. Private to src/model.
#pragma once

#include "gnomon/model/encoding.h"
#include "src/model/entry.h"

namespace gnomon::model::internal {

// Throws std::invalid_argument where its sizes do not fit each other.
void check_window(const Window& window);

// Makes the call's softmax scale final: the attention's own, or the usual one of the specs'
// head_dim, times every factor. Returns the product of the factors.
double put_scale(std::span<const Encoding> mixture, Call& call);

// The scale of q . k with every factor, 0 if it is not known; 1 where cosines are taken.
void set_scale(LayerPlan& plan, double scale);

// The table that rotates queries, wherever it is applied; null if there is none, or V-JEPA 2's.
const RotaryTable* query_table(const LayerPlan& plan);

// Both check the capacity and the shapes of the matrices; the call has been checked.
void lower_into(const Encoding& encoding, const Call& call, Values values, LayerPlan& lowered);
void backward_into(const Encoding& encoding, const Call& call, Values values,
                   const LayerGradient& lowered, Gradients grads);

// The mixture's lowering for a call whose scale is not final yet. `embedded`: the tokens of
// what is added to the embeddings, where these are others.
LayerPlan lower_call(const Mixture& mixture, Call call, Values values,
                     const Call* embedded = nullptr);

}  // namespace gnomon::model::internal
