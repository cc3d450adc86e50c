// `gnomon table`: writes the table of an encoding (added values, or cos and sin) as an array.
#include "apps/cli/table.h"

#include <cmath>
#include <memory>

#include "apps/cli/arguments.h"
#include "apps/cli/command.h"
#include "apps/cli/graph_file.h"
#include "apps/cli/tensors.h"
#include "gnomon/angles.h"
#include "gnomon/embedding/sinusoidal.h"
#include "gnomon/embedding/universal.h"
#include "gnomon/error.h"
#include "gnomon/rotary/rotary.h"
#include "gnomon/rotary/xpos.h"

namespace gnomon::cli {
namespace {

constexpr const char* table_help =
    R"(Usage: gnomon table KIND [options] [-o FILE]

  sinusoidal    [T, D]: --recipe interleaved, half-split or tensor2tensor
  timestep      [T, D]: --order sine-first|cosine-first --shift S (1) --scale S
  universal     [T, D], Universal Transformer: --step N (1), recipes as above
  rotary        [2, T, D/2]: cos, sin; --pairing halves|adjacent --angles NAME
  xpos          [3, T, D/2]: cos, sin, factor of queries; --pairing,
                --scale-base (512) --gamma (0.4) --centre (0)
  axial-rotary  [2, N, D/2]: --grid HxW --recipe pixtral, qwen-vl, sam2 or
                lumina; --grid TxHxW --recipe wan or cogvideox
  grid2d        [N, D]: --grid HxW, --recipe mae (default) or detr
  grid          [N, D], 1 to 4 axes: --grid AxB, --join concatenated|summed
  video         [N, D]: --grid TxHxW --recipe cogvideox, vjepa or videomae
  fourier       [N, F]: --grid AxB --recipe perceiver, nerf or gaussian
                --count N --deviation S --seed N
  laplacian, random-walk [N, D], degree [N, 2: in, out]: --graph FILE, an edge
                "u v" a line; --directed; --laplacian combinatorial|symmetric
  --dim D  --base B (10000)  --dtype f32, f16, bf16 (as uint16) or f64
  --positions P  0:1024, 0:1024:2, 5,9,131071, an integer .npy [T], fractions
  -o FILE (.npy .csv .json)  --json        without -o: the first values

Example: gnomon table rotary --dim 128 --positions 0:4096 --pairing halves \
           --base 500000 -o cos_sin.npy
)";

template <typename T>
void put_sinusoidal(const TableOptions& o, const Sinusoidal& spec, Json facts) {
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
void put_rotary(const TableOptions& o, Json facts) {
  const Rotary spec{.rotary_dim = o.dim, .pairing = parse_pairing(o.pairing), .base = o.base};
  const std::vector<double> frequencies = inverse_frequencies(spec);
  const Integers positions = parse_positions(o.positions);
  Tensor<T, 3> out({2, static_cast<std::ptrdiff_t>(positions.size()), o.dim / 2});
  fill_cos_sin(std::span(positions), std::span(frequencies), out.view[0], out.view[1],
               parse_angles(o.angles));
  facts["pairing"] = o.pairing;
  put_array(o.output, out.array(), facts);
}

// The factor of a key is 1 / that of the query at the same position.
template <typename T>
void put_xpos(const TableOptions& o, Json facts) {
  const RotaryFrequencies queries = lower_query({.rotary_dim = o.dim,
                                                 .pairing = parse_pairing(o.pairing),
                                                 .base = o.base,
                                                 .scale_base = o.scale_base,
                                                 .gamma = o.gamma,
                                                 .centre = o.centre});
  const Integers positions = parse_positions(o.positions);
  Tensor<T, 3> out({3, static_cast<std::ptrdiff_t>(positions.size()), o.dim / 2});
  fill_cos_sin(std::span(positions), std::span(queries.inv_freq), out.view[0], out.view[1],
               parse_angles(o.angles));
  for (std::size_t t = 0; t < positions.size(); ++t)
    for (std::size_t i = 0; i < queries.growth.size(); ++i)
      out.view(2, static_cast<std::ptrdiff_t>(t), static_cast<std::ptrdiff_t>(i)) =
          static_cast<T>(std::exp(queries.growth[i] * (static_cast<double>(positions[t]) -
                                                       static_cast<double>(o.centre))));
  facts["pairing"] = o.pairing;
  facts["scale_base"] = o.scale_base, facts["gamma"] = o.gamma, facts["centre"] = o.centre;
  put_array(o.output, out.array(), facts);
}

void put_universal(const TableOptions& o, const Sinusoidal& spec, Json facts) {
  const Integers positions = parse_positions(o.positions);
  elements_that_fit({std::ssize(positions), o.dim}, sizeof(float));
  const EmbeddingTable table = lower(
      UniversalTransformer{
          .width = spec.width, .recipe = spec.recipe, .base = spec.base, .step = o.step},
      positions);
  facts["step"] = o.step;
  put_array(o.output, io::Array::of(table.view()), facts);
}

int run_table(TableOptions& o) {
  check_ending(o.output, {".npy", ".csv", ".json"});
  constexpr std::int64_t most = std::int64_t{1} << 24;
  if (o.dim > most) refuse("table", "--dim must be at most 2^24", o.dim);
  if (o.count > most) refuse("table", "--count must be at most 2^24", o.count);
  Json facts{{"kind", o.kind}};
  if (o.dim > 0) facts["dim"] = o.dim;
  Sinusoidal spec{.width = o.dim, .base = o.base};
  if (o.kind == "sinusoidal" || o.kind == "universal")
    spec.recipe = parse_name("recipe", recipes(), o.recipe.empty() ? "interleaved" : o.recipe);
  if (o.kind == "timestep") {
    spec.recipe = SinusoidalRecipe::timestep;
    spec.order = parse_name<SinusoidalOrder>("order",
                                             {{"sine-first", SinusoidalOrder::sine_first},
                                              {"cosine-first", SinusoidalOrder::cosine_first}},
                                             o.order);
    spec.shift = o.shift, spec.scale = o.scale;
  }
  if (o.kind == "degree") {
    put_degrees(o, facts);
    return 0;
  }
  with_dtype(o.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (o.kind == "fourier") return put_fourier<T>(o, facts);
    if (o.kind == "video") return put_video<T>(o, facts);
    if (o.kind == "laplacian" || o.kind == "random-walk") return put_graph<T>(o, facts);
    facts["base"] = o.base;
    if (o.kind == "rotary") return put_rotary<T>(o, facts);
    if (o.kind == "xpos") return put_xpos<T>(o, facts);
    if (o.kind == "axial-rotary") return put_axial_rotary(o, facts);
    if (o.kind == "grid2d") return put_grid2d<T>(o, facts);
    if (o.kind == "grid") return put_grid<T>(o, facts);
    if (o.kind == "universal") return put_universal(o, spec, facts);
    put_sinusoidal<T>(o, spec, facts);
  });
  return 0;
}

}  // namespace

Names<SinusoidalRecipe> recipes() {
  return {{"interleaved", SinusoidalRecipe::interleaved},
          {"half-split", SinusoidalRecipe::half_split},
          {"tensor2tensor", SinusoidalRecipe::tensor2tensor}};
}

Command table_command() {
  Command command("table", table_help);
  auto o = std::make_shared<TableOptions>();
  command.required("KIND", &o->kind)
      .choices({"sinusoidal", "timestep", "universal", "rotary", "xpos", "axial-rotary",
                "grid2d", "grid", "video", "fourier", "laplacian", "random-walk", "degree"})
      .selects();
  command.option("--dim", &o->dim)
      .at_least(1)
      .required_for({"sinusoidal", "timestep", "universal", "rotary", "xpos", "axial-rotary",
                     "grid2d", "grid", "video", "laplacian", "random-walk"});
  command.option("--positions", &o->positions)
      .file()
      .required_for({"sinusoidal", "timestep", "universal", "rotary", "xpos"});
  command.option("--base", &o->base)
      .only_for({"sinusoidal", "timestep", "universal", "rotary", "xpos", "axial-rotary",
                 "grid2d", "grid"});
  command.option("--recipe", &o->recipe)
      .only_for(
          {"sinusoidal", "universal", "axial-rotary", "grid2d", "grid", "video", "fourier"});
  command.option("--pairing", &o->pairing)
      .choices({"halves", "adjacent"})
      .required_for({"rotary", "xpos"});
  command.option("--grid", &o->grid)
      .required_for({"axial-rotary", "grid2d", "grid", "video", "fourier"});
  command.option("--join", &o->join).choices({"concatenated", "summed"}).only_for({"grid"});
  command.option("--order", &o->order)
      .choices({"sine-first", "cosine-first"})
      .only_for({"timestep"});
  command.option("--shift", &o->shift).only_for({"timestep"});
  command.option("--scale", &o->scale).only_for({"timestep"});
  command.option("--step", &o->step).only_for({"universal"});
  command.option("--scale-base", &o->scale_base).only_for({"xpos"});
  command.option("--gamma", &o->gamma).only_for({"xpos"});
  command.option("--centre", &o->centre).only_for({"xpos"});
  command.option("--count", &o->count).at_least(1).required_for({"fourier"});
  command.option("--deviation", &o->deviation).only_for({"fourier"});
  command.option("--seed", &o->seed).at_least(0).only_for({"fourier"});
  command.option("--graph", &o->graph)
      .file()
      .required_for({"laplacian", "random-walk", "degree"});
  command.flag("--directed", &o->directed).only_for({"random-walk", "degree"});
  command.option("--laplacian", &o->laplacian)
      .choices({"combinatorial", "symmetric"})
      .only_for({"laplacian"});
  command.option("--angles", &o->angles)
      .choices({"exact", "float32"})
      .only_for({"rotary", "xpos"});
  command.option("--dtype", &o->dtype)
      .choices({"f32", "f16", "bf16", "f64"})
      .only_for({"sinusoidal", "timestep", "rotary", "xpos", "grid2d", "grid", "video",
                 "fourier", "laplacian", "random-walk"});
  command.option("-o", &o->output.path);
  command.flag("--json", &o->output.json);
  command.run = [o] { return run_table(*o); };
  return command;
}

}  // namespace gnomon::cli
