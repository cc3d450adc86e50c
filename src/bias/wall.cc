#include "gnomon/bias/wall.h"

#include <cmath>
#include <vector>

#include "gnomon/error.h"
#include "src/core/size.h"
#include "src/core/token_projection.h"

namespace gnomon {
namespace {

template <typename T>
void check_wall(const Wall& wall, const WallGate<T>& gate) {
  if (wall.heads < 1) refuse("wall", "heads must be at least 1", wall.heads);
  if (wall.head_dim < 1) refuse("wall", "head_dim must be at least 1", wall.head_dim);
  if (wall.width < 1) refuse("wall", "width must be at least 1", wall.width);
  const auto rows = static_cast<std::int64_t>(
      internal::checked_size("wall", "heads x head_dim", {wall.heads, wall.head_dim}));
  internal::check_shape<2>("wall", "weight", gate.weight.extents(), {rows, wall.width});
  internal::check_shape<1>("wall", "bias", gate.bias.extents(), {rows});
}

void check_wall_input(const Wall& wall, View<const float, 3> x, const char* name,
                      View<const float, 4> out) {
  internal::check_shape<3>("wall", "x", x.extents(), {x.extent(0), x.extent(1), wall.width});
  internal::check_shape<4>("wall", name, out.extents(),
                           {x.extent(0), x.extent(1), wall.heads, wall.head_dim});
}

}  // namespace

void channel_gates(const Wall& wall, const WallGate<const float>& gate, View<const float, 3> x,
                   View<float, 4> out) {
  check_wall(wall, gate), check_wall_input(wall, x, "out", out);
  const std::vector<double> z = internal::project_tokens(x, gate.weight, gate.bias);
  const double* at = z.data();
  for (std::ptrdiff_t b = 0; b < x.extent(0); ++b)
    for (std::ptrdiff_t t = 0; t < x.extent(1); ++t)
      for (std::ptrdiff_t h = 0; h < wall.heads; ++h)
        for (std::ptrdiff_t n = 0; n < wall.head_dim; ++n, ++at)
          out(b, t, h, n) = static_cast<float>(*at < 0 ? *at - std::log1p(std::exp(*at))
                                                       : -std::log1p(std::exp(-*at)));
}

void channel_gates_backward(const Wall& wall, const WallGate<const float>& gate,
                            View<const float, 3> x, View<const float, 4> out_grad,
                            View<float, 3> x_grad, const WallGate<float>& grads) {
  check_wall(wall, gate), check_wall_input(wall, x, "out_grad", out_grad);
  if (grads.weight.data()) check_wall(wall, grads);
  if (x_grad.data()) internal::check_shape<3>("wall", "x_grad", x_grad.extents(), x.extents());
  std::vector<double> z = internal::project_tokens(x, gate.weight, gate.bias);
  double* at = z.data();
  for (std::ptrdiff_t b = 0; b < x.extent(0); ++b)
    for (std::ptrdiff_t t = 0; t < x.extent(1); ++t)
      for (std::ptrdiff_t h = 0; h < wall.heads; ++h)
        for (std::ptrdiff_t n = 0; n < wall.head_dim; ++n, ++at)  // 1 - sigmoid
          *at = double{out_grad(b, t, h, n)} / (1 + std::exp(*at));
  internal::project_tokens_backward(x, gate.weight, z, x_grad, grads.weight, grads.bias);
}

}  // namespace gnomon
