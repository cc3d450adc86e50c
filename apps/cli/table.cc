// `gnomon table`: writes the table of an encoding (added values, or cos and sin) as an array.
#include <cmath>
#include <memory>

#include "apps/cli/arguments.h"
#include "apps/cli/command.h"
#include "apps/cli/output.h"
#include "apps/cli/tensors.h"
#include "gnomon/angles.h"
#include "gnomon/embedding/detr.h"
#include "gnomon/embedding/grid.h"
#include "gnomon/embedding/sinusoidal.h"
#include "gnomon/error.h"
#include "gnomon/rotary/rotary.h"

namespace gnomon::cli {
namespace {

constexpr const char* help =
    R"(Usage: gnomon table KIND --dim D [--positions P] [options] [-o FILE]

  sinusoidal   [T, D]: --recipe interleaved (default: Vaswani et al.),
               half-split, tensor2tensor
  timestep     [T, D] of diffusion models: --order sine-first|cosine-first,
               --shift S (1), --scale S (1)
  rotary       [2, T, D/2]: cos, then sin; --pairing halves|adjacent
  grid2d       [H*W, D]: --grid HxW, --recipe mae (default), detr

  --positions P   0:1024, 0:1024:2, 5,9,131071, or an integer .npy [T];
                  sinusoidal and timestep also accept fractions: 0.5,1.25
  --base B        10000
  --angles NAME   rotary: exact (half an ulp at any position up to 2^31), or
                  float32 to reproduce code that rounds angles
  --dtype NAME    f32, f16, bf16 (as uint16), f64
  -o FILE (.npy .csv .json)  --json        without -o: the first values

Example: gnomon table rotary --dim 128 --positions 0:4096 --pairing halves \
           --base 500000 -o cos_sin.npy
)";

struct Options {
  std::string kind, positions, recipe, pairing, grid, order = "sine-first", angles = "exact",
                                                      dtype = "f32";
  std::int64_t dim = 0;
  double base = 10'000, shift = 1, scale = 1;
  OutputOptions output;
};

template <typename T>
void put_sinusoidal(const Options& o, const Sinusoidal& spec, Json facts) {
  frequencies(spec);  // throws for a bad spec before the allocation
  const auto positions = parse_any_positions(o.positions);
  std::visit(
      [&](const auto& list) {
        Tensor<T, 2> out({static_cast<std::ptrdiff_t>(list.size()), o.dim});
        fill(spec, std::span(list), out.view);
        put_array(o.output, out.array(), facts);
      },
      positions);
}

template <typename T>
void put_rotary(const Options& o, Json facts) {
  const Rotary spec{.rotary_dim = o.dim, .pairing = parse_pairing(o.pairing), .base = o.base};
  const std::vector<double> frequencies = inverse_frequencies(spec);
  const Integers positions = parse_positions(o.positions);
  Tensor<T, 3> out({2, static_cast<std::ptrdiff_t>(positions.size()), o.dim / 2});
  fill_cos_sin(std::span(positions), std::span(frequencies), out.view[0], out.view[1],
               parse_angles(o.angles));
  facts["pairing"] = o.pairing;
  put_array(o.output, out.array(), facts);
}

template <typename T>
void put_grid(const Options& o, Json facts) {
  const auto [height, width] = parse_grid(o.grid);
  const std::string recipe = o.recipe.empty() ? "mae" : o.recipe;
  facts["grid"] = {height, width};
  facts["recipe"] = recipe;
  if (recipe != "mae" && recipe != "detr") refuse_name("recipe", {"mae", "detr"}, recipe);
  const SinusoidalGrid spec =
      recipe == "mae" ? grid_mae(o.dim, o.base) : grid_detr(o.dim, o.base);
  Tensor<T, 2> out({height * width, gnomon::width(spec)});
  if (recipe == "mae") {
    fill(spec, grid(height, width), out.view);
  } else {
    const auto at = detr_coordinates(height, width, DetrScale::normalised);
    fill(spec, View<const double, 2>(at.data(), {height * width, 2}), out.view);
  }
  put_array(o.output, out.array(), facts);
}

int run(Options& o) {
  check_ending(o.output, {".npy", ".csv", ".json"});
  if (o.kind != "grid2d" && o.positions.empty())
    refuse("table", "--positions is required", "none");
  if (o.kind == "rotary" && o.pairing.empty())
    refuse("table", "--pairing must be halves or adjacent", "none");
  if (o.kind == "grid2d" && o.grid.empty()) refuse("table", "--grid is required", "none");
  const Json facts{{"kind", o.kind}, {"dim", o.dim}, {"base", o.base}};
  with_dtype(o.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (o.kind == "sinusoidal") {
      Sinusoidal spec{.width = o.dim, .base = o.base};
      spec.recipe =
          parse_name<SinusoidalRecipe>("recipe",
                                       {{"interleaved", SinusoidalRecipe::interleaved},
                                        {"half-split", SinusoidalRecipe::half_split},
                                        {"tensor2tensor", SinusoidalRecipe::tensor2tensor}},
                                       o.recipe.empty() ? "interleaved" : o.recipe);
      put_sinusoidal<T>(o, spec, facts);
    } else if (o.kind == "timestep") {
      Sinusoidal spec{.width = o.dim,
                      .recipe = SinusoidalRecipe::timestep,
                      .base = o.base,
                      .shift = o.shift,
                      .scale = o.scale};
      spec.order =
          parse_name<SinusoidalOrder>("order",
                                      {{"sine-first", SinusoidalOrder::sine_first},
                                       {"cosine-first", SinusoidalOrder::cosine_first}},
                                      o.order);
      put_sinusoidal<T>(o, spec, facts);
    } else if (o.kind == "rotary") {
      put_rotary<T>(o, facts);
    } else {
      put_grid<T>(o, facts);
    }
  });
  return 0;
}

}  // namespace

Command table_command() {
  Command command("table", help);
  auto o = std::make_shared<Options>();
  command.required("KIND", &o->kind)
      .choices({"sinusoidal", "timestep", "rotary", "grid2d"})
      .selects();
  command.required("--dim", &o->dim).at_least(1);
  command.option("--positions", &o->positions).only_for({"sinusoidal", "timestep", "rotary"});
  command.option("--base", &o->base);
  command.option("--recipe", &o->recipe).only_for({"sinusoidal", "grid2d"});
  command.option("--pairing", &o->pairing).only_for({"rotary"});
  command.option("--grid", &o->grid).only_for({"grid2d"});
  command.option("--order", &o->order).only_for({"timestep"});
  command.option("--shift", &o->shift).only_for({"timestep"});
  command.option("--scale", &o->scale).only_for({"timestep"});
  command.option("--angles", &o->angles).only_for({"rotary"});
  command.option("--dtype", &o->dtype);
  command.option("-o", &o->output.path);
  command.flag("--json", &o->output.json);
  command.run = [o] { return run(*o); };
  return command;
}

}  // namespace gnomon::cli
