// Projection of position features (Fourier features, eigenvectors, return probabilities) to the
// width of the model by a trained matrix, and the gradient of that matrix.
//
// Letters: T tokens, F features, C width.
//
// Naive version: tests/naive/embedding.h, `naive_project`.
#pragma once

#include "gnomon/embedding/table.h"
#include "gnomon/view.h"

namespace gnomon {

// out[t, c] = sum over f of features[t, f] weights[f, c]. Any strides. Sums run in double in an
// order that depends on F only, and are rounded once. Error bound: half an ulp of the element
// type + F 2^-53 sum |features weights|. Element types: float, double. Cost: T F C products. If
// one feature is a constant 1, its row of weights is a bias.
//
// Throws std::invalid_argument if shapes do not match.
template <typename T>
void project(View<const double, 2> features, View<const T, 2> weights, View<T, 2> out);

// Returns the plan: the projected features, a table for add_table.
EmbeddingTable projected(View<const double, 2> features, View<const float, 2> weights);

// Gradient with respect to the weights: weights_grad[f, c] += sum over t of features[t, f]
// grad[t, c]. Sums run in double in an order that depends on T only, so the result is
// bit-identical for any number of threads.
template <typename T>
void project_backward(View<const double, 2> features, View<const T, 2> grad,
                      View<T, 2> weights_grad);

}  // namespace gnomon
