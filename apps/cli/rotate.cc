// `gnomon rotate`: rotates the queries or keys of a .npy file.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "apps/cli/arguments.h"
#include "apps/cli/command.h"
#include "apps/cli/model_file.h"
#include "apps/cli/output.h"
#include "apps/cli/tensors.h"
#include "gnomon/error.h"
#include "gnomon/io/npy.h"
#include "gnomon/rotary/rotary.h"

namespace gnomon::cli {
namespace {

constexpr const char* rotate_help =
    R"(Usage: gnomon rotate IN.npy --positions P --config PATH [options] -o OUT.npy
       gnomon rotate IN.npy --positions P --pairing NAME [options] -o OUT.npy

Rotates queries or keys, [T, H, D] or [B, T, H, D], by their positions (RoPE).
The element type is kept: f16, f32, f64, or bfloat16 stored as uint16.

  --positions P     0:1024, 0:1024:2, 5,9,131071, or an integer .npy [T]
  --config PATH     a released model: its folder, config.json or .gguf
  --layer L         its layer (0);  --length N  context length (as trained)
  --part NAME       its part, if it has several: encoder, decoder
  --assume-pairing P  its pairing, if its family is not known
  --pairing NAME    without --config: halves (Llama, GPT-NeoX by Hugging Face)
                    or adjacent (RoFormer, GPT-J, Llama by Meta)
  --dim R           elements of a head that rotate (all)
  --first N         the first of them (0)
  --base B          rope_theta (10000)
  --angles NAME     exact, or float32 to reproduce code that rounds the angle
  --backward        inverse rotation (gradient)
  -o OUT.npy

Example: gnomon rotate q.npy --positions 0:512 --config Qwen3-8B -o rotated.npy
)";

struct RotateOptions {
  std::string in, positions, pairing, angles = "exact", config, part, assume_pairing;
  Rotary rotary;
  std::optional<std::int64_t> dim, layer, length;
  bool backward = false;
  OutputOptions output;
};

template <typename T>
int rotate_array(const RotateOptions& o, const io::Array& in, const RotaryTable& table) {
  std::array<std::ptrdiff_t, 4> shape{1, 1, 1, 1};
  std::copy(in.shape().begin(), in.shape().end(),
            shape.begin() + static_cast<std::ptrdiff_t>(4 - in.rank()));
  Tensor<T, 4> x(shape);
  const std::span<const std::byte> bytes = in.bytes();
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<std::byte*>(x.values.data()));
  rotate(x.view, table, o.backward ? Direction::inverse : Direction::forward);
  if (in.rank() == 4)
    io::write_npy(o.output.path, x.array());
  else
    io::write_npy(o.output.path, io::Array::of(View<const T, 3>(x.view[0])));
  return 0;
}

RotaryFrequencies frequencies_of(RotateOptions& o, std::int64_t size) {
  if (o.config.empty()) {
    o.rotary.pairing = parse_pairing(o.pairing);
    o.rotary.rotary_dim = o.dim.value_or(size - o.rotary.head_offset);
    return lower(o.rotary);
  }
  const model::ModelDescription model = read_model(o.config, {}, o.part, o.assume_pairing);
  const std::int64_t layer = o.layer.value_or(0);
  const model::LayerGroup& group = model::group_of(model, layer, part_of_groups(model));
  const auto rotates = [](const model::Encoding& one) {
    return model::includes(model::info(one).enters, model::Place::queries_and_keys);
  };
  const auto& all = group.position;
  const auto rotation = std::find_if(all.begin(), all.end(), rotates);
  const std::int64_t length = o.length.value_or(std::max<std::int64_t>(model.length, 1));
  std::optional<RotaryFrequencies> rotary;
  if (std::count_if(all.begin(), all.end(), rotates) == 1)
    rotary = model::rotary_frequencies(*rotation, length);
  if (!rotary)
    refuse("rotate", fmt::format("layer {} must have one rotary encoding", layer),
           model::names(all));
  if (std::holds_alternative<AxialRotary>(*rotation))
    refuse("rotate", fmt::format("layer {} must be a text layer, not an image layer", layer),
           model::names(all));
  rotary->axes.clear();  // text: the position is the same on all axes
  return *std::move(rotary);
}

int run_rotate(RotateOptions& o) {
  check_ending(o.output, {".npy"});
  if (o.config.empty() && o.pairing.empty())
    refuse("rotate", "either --config or --pairing must be given", "neither");
  const io::Array in = io::read_npy(o.in);
  if (in.rank() != 3 && in.rank() != 4)
    refuse("rotate", "the input must be [T, H, D] or [B, T, H, D]", io::to_string(in.shape()));
  const RotaryTable table(frequencies_of(o, in.shape().back()), parse_positions(o.positions),
                          parse_angles(o.angles));
  switch (in.element()) {
    case io::Element::f32:
      return rotate_array<float>(o, in, table);
    case io::Element::f64:
      return rotate_array<double>(o, in, table);
    case io::Element::f16:
      return rotate_array<Half>(o, in, table);
    case io::Element::u16:
      return rotate_array<BFloat16>(o, in, table);
    default:
      refuse("rotate", "elements must be f32, f16, f64 or u16 (bfloat16)", name(in.element()));
  }
}

}  // namespace

Command rotate_command() {
  Command command("rotate", rotate_help);
  auto o = std::make_shared<RotateOptions>();
  command.required("IN", &o->in).file();
  command.required("--positions", &o->positions).file();
  command.option("--config", &o->config).file();
  command.option("--layer", &o->layer).at_least(0).only_with({"--config"});
  command.option("--part", &o->part).only_with({"--config"});
  command.option("--assume-pairing", &o->assume_pairing)
      .choices({"halves", "adjacent"})
      .only_with({"--config"});
  command.option("--length", &o->length).at_least(1).only_with({"--config"});
  command.option("--pairing", &o->pairing)
      .choices({"halves", "adjacent"})
      .not_with({"--config"});
  command.option("--dim", &o->dim).at_least(1).not_with({"--config"});
  command.option("--first", &o->rotary.head_offset).at_least(0).not_with({"--config"});
  command.option("--base", &o->rotary.base).not_with({"--config"});
  command.option("--angles", &o->angles).choices({"exact", "float32"});
  command.flag("--backward", &o->backward);
  command.required("-o", &o->output.path);
  command.run = [o] { return run_rotate(*o); };
  return command;
}

}  // namespace gnomon::cli
