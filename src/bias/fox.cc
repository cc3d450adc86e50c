#include "gnomon/bias/fox.h"

#include <cmath>
#include <string>
#include <vector>

#include "gnomon/error.h"
#include "src/core/size.h"
#include "src/core/token_projection.h"

namespace gnomon {
namespace {

using std::int64_t;

void check(const Fox& fox) {
  if (fox.heads < 1) refuse("fox", "heads must be at least 1", fox.heads);
  if (fox.width < 1) refuse("fox", "width must be at least 1", fox.width);
  if (fox.recipe != FoxRecipe::fox && fox.recipe != FoxRecipe::cable)
    refuse("fox", "recipe must be fox or cable", static_cast<int>(fox.recipe));
  if (fox.recipe == FoxRecipe::cable && fox.head_dim < 1)
    refuse("fox", "head_dim must be at least 1 for CABLE", fox.head_dim);
  if (!(fox.lost_weight >= 0 && fox.lost_weight < 1))
    refuse("fox", "lost_weight must be at least 0 and below 1", fox.lost_weight);
}

template <typename T>
void check_gate(const Fox& fox, const FoxGate<T>& gate) {
  internal::check_shape<2>("fox", "weight", gate.weight.extents(), {fox.heads, fox.width});
  if (fox.recipe == FoxRecipe::fox)
    internal::check_shape<1>("fox", "bias", gate.bias.extents(), {fox.heads});
}

void check_input(const Fox& fox, View<const float, 3> x, const char* name,
                 View<const float, 3> out) {
  internal::check_shape<3>("fox", "x", x.extents(), {x.extent(0), x.extent(1), fox.width});
  internal::check_shape<3>("fox", name, out.extents(), {x.extent(0), fox.heads, x.extent(1)});
}

// ln sigmoid(z) without overflow.
double log_sigmoid(double z) {
  return z < 0 ? z - std::log1p(std::exp(z)) : -std::log1p(std::exp(-z));
}

// w . x + b, [B T, H]; CABLE has no b.
std::vector<double> products(const Fox& fox, const FoxGate<const float>& gate,
                             View<const float, 3> x) {
  return internal::project_tokens(
      x, gate.weight, fox.recipe == FoxRecipe::fox ? gate.bias : View<const float, 1>());
}

double sign(const Fox& fox) { return fox.recipe == FoxRecipe::fox ? 1 : -1; }

}  // namespace

CumulativeBias lower(const Fox& fox) {
  check(fox);
  return {.lost_weight = fox.lost_weight};
}

double softmax_factor(const Fox& fox) {
  check(fox);
  return fox.recipe == FoxRecipe::cable ? std::sqrt(static_cast<double>(fox.head_dim)) : 1;
}

void log_gates(const Fox& fox, const FoxGate<const float>& gate, View<const float, 3> x,
               View<float, 3> out) {
  check(fox), check_gate(fox, gate), check_input(fox, x, "out", out);
  const std::vector<double> z = products(fox, gate, x);
  const double* from = z.data();
  for (std::ptrdiff_t b = 0; b < x.extent(0); ++b)
    for (std::ptrdiff_t t = 0; t < x.extent(1); ++t)
      for (std::ptrdiff_t h = 0; h < fox.heads; ++h)
        out(b, h, t) = static_cast<float>(log_sigmoid(sign(fox) * *from++));
}

void log_gates_backward(const Fox& fox, const FoxGate<const float>& gate,
                        View<const float, 3> x, View<const float, 3> out_grad,
                        View<float, 3> x_grad, const FoxGate<float>& grads) {
  check(fox), check_gate(fox, gate), check_input(fox, x, "out_grad", out_grad);
  if (grads.weight.data()) check_gate(fox, grads);
  if (x_grad.data()) internal::check_shape<3>("fox", "x_grad", x_grad.extents(), x.extents());
  std::vector<double> z = products(fox, gate, x);
  double* at = z.data();
  for (std::ptrdiff_t b = 0; b < x.extent(0); ++b)
    for (std::ptrdiff_t t = 0; t < x.extent(1); ++t)
      for (std::ptrdiff_t h = 0; h < fox.heads; ++h, ++at)  // 1 - sigmoid
        *at = sign(fox) * double{out_grad(b, h, t)} / (1 + std::exp(sign(fox) * *at));
  internal::project_tokens_backward(
      x, gate.weight, z, x_grad, grads.weight,
      fox.recipe == FoxRecipe::fox ? grads.bias : View<float, 1>());
}

}  // namespace gnomon
