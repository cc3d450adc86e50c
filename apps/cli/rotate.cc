// `gnomon rotate`: queries or keys in a .npy file, turned.
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

constexpr const char* help =
    R"(Usage: gnomon rotate IN.npy --positions P --config PATH [options] -o OUT.npy
       gnomon rotate IN.npy --positions P --pairing NAME [options] -o OUT.npy

Turns queries or keys [T, H, D], or [B, T, H, D], by their positions (RoPE).
Float 16, 32 and 64 are kept; uint16 is read and written as bfloat16.

  --positions P     0:1024, 0:1024:2, 5,9,131071, or an integer .npy [T]
  --config PATH     as a released model turns: its folder, config.json or .gguf
  --layer L         of which layer (0);  --length N  declared (the trained one)
  --part NAME       of which part, where it has several: encoder, decoder
  --pairing NAME    by hand: halves (Llama, GPT-NeoX in Hugging Face's files)
                    or adjacent (RoFormer, GPT-J, Llama as released by Meta)
  --dim R           elements of a head that turn (all)
  --first N         the first of them (0)
  --base B          rope_theta (10000)
  --angles NAME     exact, or float32 to follow code that rounds the angle
  --backward        the gradient: turns back
  -o OUT.npy

Example: gnomon rotate q.npy --positions 0:512 --config Qwen3-8B -o turned.npy
)";

struct Options {
  std::string in, positions, pairing, angles = "exact", config, part;
  Rotary rotary;
  std::optional<std::int64_t> layer, length;
  bool by_hand = false;  // --dim, --base or --first
  bool backward = false;
  OutputOptions output;
};

template <typename T>
int turn(const Options& o, const io::Array& in, const RotaryTable& table) {
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

RotarySchedule schedule_of(Options& o, std::int64_t size) {
  if (o.config.empty()) {
    o.rotary.pairing = parse_pairing(o.pairing);
    if (o.rotary.dim == 0) o.rotary.dim = size - o.rotary.first;
    return schedule(o.rotary);
  }
  const model::ModelDescription model = read_model(o.config, "as-written", o.part);
  const std::int64_t layer = o.layer.value_or(0);
  // The part is named where the groups that are left are of one.
  const auto of_first = [&](const model::LayerGroup& one) {
    return one.part == model.groups.front().part;
  };
  const bool one_part = std::all_of(model.groups.begin(), model.groups.end(), of_first);
  const model::LayerGroup& group = model::group_of(
      model, layer, one_part && !model.groups.empty() ? model.groups.front().part : "");
  const auto rotates = [](const model::Encoding& one) {
    return model::includes(model::info(one).enters, model::Place::queries_and_keys);
  };
  const auto& all = group.position;
  const auto rotation = std::find_if(all.begin(), all.end(), rotates);
  const std::int64_t length = o.length.value_or(std::max<std::int64_t>(model.length, 1));
  std::optional<RotarySchedule> rotary;
  if (std::count_if(all.begin(), all.end(), rotates) == 1)
    rotary = model::rotary_schedule(*rotation, length);
  if (!rotary)
    refuse("rotate", fmt::format("layer {} must have one rotary encoding", layer),
           model::names(all));
  if (std::holds_alternative<AxialRotary>(*rotation))
    refuse("rotate", fmt::format("layer {} must be of text, not of an image", layer),
           model::names(all));
  rotary->axes.clear();  // text: its position is the same on all axes
  return *std::move(rotary);
}

int run(Options& o) {
  check_ending(o.output, {".npy"});
  if (o.config.empty() == o.pairing.empty())
    refuse("rotate", "needs either --config or --pairing",
           o.config.empty() ? "neither" : "both");
  if (!o.config.empty() && o.by_hand)
    refuse("rotate", "--dim, --first and --base must not be given with --config", o.config);
  if (o.config.empty() && (o.layer || o.length || !o.part.empty()))
    refuse("rotate", "--layer, --part and --length need --config", "none");
  const io::Array in = io::read_npy(o.in);
  if (in.rank() != 3 && in.rank() != 4)
    refuse("rotate", "the input must be [T, H, D] or [B, T, H, D]", io::to_string(in.shape()));
  const RotaryTable table(schedule_of(o, in.shape().back()), parse_positions(o.positions),
                          parse_angles(o.angles));
  switch (in.element()) {
    case io::Element::f32:
      return turn<float>(o, in, table);
    case io::Element::f64:
      return turn<double>(o, in, table);
    case io::Element::f16:
      return turn<Half>(o, in, table);
    case io::Element::u16:
      return turn<BFloat16>(o, in, table);
    default:
      refuse("rotate", "elements must be f32, f16, f64 or (bfloat16 as) u16",
             name(in.element()));
  }
}

}  // namespace

Command add_rotate(CLI::App& program) {
  CLI::App* app = add_app(program, "rotate", help);
  auto o = std::make_shared<Options>();
  app->add_option("IN", o->in)->required();
  app->add_option("--positions", o->positions)->required();
  app->add_option("--config", o->config);
  app->add_option("--layer", o->layer);
  app->add_option("--part", o->part);
  app->add_option("--length", o->length);
  app->add_option("--pairing", o->pairing);
  for (CLI::Option* option :
       {app->add_option("--dim", o->rotary.dim), app->add_option("--first", o->rotary.first),
        app->add_option("--base", o->rotary.base)})
    option->each([o](const std::string&) { o->by_hand = true; });
  app->add_option("--angles", o->angles);
  app->add_flag("--backward", o->backward);
  app->add_option("-o", o->output.path)->required();
  return {app, help, [o] { return run(*o); }};
}

}  // namespace gnomon::cli
