// The list, and how each encoding lowers. To add one: its line in `list`, its overloads of
// `parameters_of`, `lower_into` and `backward_into` (those that differ from "nothing"), and its
// fields in encoding_json.cc.
#include "gnomon/model/encoding.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "gnomon/error.h"

namespace gnomon::model {
namespace {

using Values = std::span<const View<const float, 2>>;
using Gradients = std::span<const View<float, 2>>;

// clang-format off
constexpr EncodingInfo list[] = {
    {"none", "No position (NoPE)", Place::nowhere,
     "nothing is added; a causal mask alone tells some order",
     "Haviv et al. 2022, arXiv:2203.16634", "model/none.md",
     [](const Shape&) -> Encoding { return NoPosition{}; }},
    {"sinusoidal", "Sinusoidal", Place::embeddings,
     "sines and cosines of the position at geometric wavelengths",
     "Vaswani et al. 2017, arXiv:1706.03762", "embedding/sinusoidal.md",
     [](const Shape& s) -> Encoding {
       return Sinusoidal{.dim = s.width, .recipe = SinusoidalRecipe::interleaved};
     }},
    {"learned", "Learned table", Place::embeddings,
     "one trained vector per position; ends with its table",
     "Gehring et al. 2017, arXiv:1705.03122", "embedding/learned.md",
     [](const Shape& s) -> Encoding { return learned_plain(s.length, s.width); }},
    {"rotary", "Rotary (RoPE)", Place::queries_and_keys,
     "pairs of elements turn by an angle that grows with the position",
     "Su et al. 2021, arXiv:2104.09864", "rotary/rotary.md",
     [](const Shape& s) -> Encoding {
       return Rotary{.dim = s.width / s.heads, .pairing = Pairing::halves};
     }},
    {"rotary-scaled", "Rotary, scaled", Place::queries_and_keys,
     "rotary whose slow pairs turn slower, to reach past the trained length (YaRN)",
     "Peng et al. 2023, arXiv:2309.00071", "rotary/scaling.md",
     [](const Shape& s) -> Encoding {
       return ScaledRotary{
           .rotary = {.dim = s.width / s.heads, .pairing = Pairing::halves},
           .scaling = YarnScaling{.factor = 4, .original_length = s.length},
           .length = 4 * s.length};
     }},
    {"xpos", "xPos", Place::queries_and_keys,
     "rotary whose scores fall with distance, the fast pairs' first",
     "Sun et al. 2022, arXiv:2212.10554", "rotary/xpos.md",
     [](const Shape& s) -> Encoding {
       return XPos{
           .dim = s.width / s.heads, .pairing = Pairing::halves, .centre = s.length / 2};
     }},
    {"alibi", "ALiBi", Place::scores,
     "a penalty proportional to distance, with a slope for each head",
     "Press et al. 2021, arXiv:2108.12409", "bias/alibi.md",
     [](const Shape& s) -> Encoding { return Alibi{.heads = s.heads}; }},
    {"t5", "T5 bias", Place::scores,
     "a trained number for each head and each bucket of distances",
     "Raffel et al. 2019, arXiv:1910.10683", "bias/t5.md",
     [](const Shape& s) -> Encoding {
       return T5Bias{.heads = s.heads, .direction = T5Direction::causal};
     }},
    {"clipped", "Clipped table", Place::scores,
     "a trained number for each head and each distance up to a limit",
     "Shaw et al. 2018, arXiv:1803.02155", "bias/clipped.md",
     [](const Shape& s) -> Encoding {
       return ClippedBias{.heads = s.heads, .before = s.length - 1, .after = 0};
     }},
    {"swin", "Swin bias", Place::scores,
     "a trained number for each head and each offset of two cells of a window",
     "Liu et al. 2021, arXiv:2103.14030", "bias/swin.md",
     [](const Shape& s) -> Encoding {  // a window that is nearly square
       const auto width = static_cast<std::int64_t>(std::sqrt(static_cast<double>(s.length)));
       const std::int64_t columns = std::max<std::int64_t>(1, width);
       return Swin{.heads = s.heads, .height = (s.length + columns - 1) / columns,
                   .width = columns};
     }},
    {"fire", "FIRE", Place::scores,
     "a small trained network of the distance, in proportion to how far there is to look back",
     "Li et al. 2023, arXiv:2310.04418", "bias/fire.md",
     [](const Shape& s) -> Encoding {  // the paper: 512 of 2048 positions
       return Fire{.heads = s.heads, .threshold = static_cast<double>(s.length) / 4};
     }},
};
// clang-format on
static_assert(std::size(list) == std::variant_size_v<Encoding>,
              "one line in the list for each alternative of Encoding, in the same order");

constexpr double table_deviation = 0.02;  // GPT-2's initial deviation of its position table

// Most encodings have no parameters and an end to nothing.
template <typename Spec>
std::vector<Parameter> parameters_of(const Spec&) {
  return {};
}
std::vector<Parameter> parameters_of(const Learned& learned) {
  return {{"table", learned.rows, learned.dim, table_deviation}};
}
std::vector<Parameter> parameters_of(const T5Bias& t5) {
  return {{"buckets", t5.buckets, t5.heads, table_deviation}};
}
std::vector<Parameter> parameters_of(const ClippedBias& clipped) {
  return {{"table", clipped.heads, clipped.before + 1 + clipped.after, table_deviation}};
}

std::vector<Parameter> parameters_of(const Swin& swin) {
  return {{"table", offsets(swin), swin.heads, table_deviation}};
}
// The deviations of PyTorch's linear layers, uniform up to 1 / sqrt(inputs); the paper's c.
std::vector<Parameter> parameters_of(const Fire& fire) {
  const double first = 1 / std::sqrt(3.0);
  const double second = first / std::sqrt(static_cast<double>(fire.hidden));
  return {{"w1", fire.hidden, 1, first},
          {"b1", fire.hidden, 1, first},
          {"w2", fire.heads, fire.hidden, second},
          {"b2", fire.heads, 1, second},
          {"c", 1, 1, 0, 0.1},
          {"multiplier", 1, 1, 0, 1}};
}

// All distances between a key and a query of the window.
struct Distances {
  std::int64_t first, count;
};
Distances distances(const Window& window) {
  const std::int64_t furthest = std::max<std::int64_t>(window.keys - 1, 0);
  return {-furthest, furthest + std::max<std::int64_t>(window.queries, 1)};
}

void lower_into(const NoPosition&, const Window&, Values, Lowered&) {}

void lower_into(const Sinusoidal& sinusoidal, const Window& window, Values, Lowered& lowered) {
  lowered.table =
      sinusoidal_table(sinusoidal, consecutive(window.queries, window.offset()).ids);
}

void lower_into(const Learned& learned, const Window& window, Values values, Lowered& lowered) {
  const auto rows = learned_rows(learned, consecutive(window.queries, window.offset()));
  EmbeddingTable table{window.queries, learned.dim, {}};
  table.values.resize(static_cast<std::size_t>(window.queries * learned.dim));
  for (std::int64_t t = 0; t < window.queries; ++t)
    for (std::int64_t c = 0; c < learned.dim; ++c)
      table.values[static_cast<std::size_t>(t * learned.dim + c)] =
          values[0](rows[static_cast<std::size_t>(t)], c);
  lowered.table = std::move(table);
}
void backward_into(const Learned& learned, const Window& window, Values,
                   const LoweredGradient& grad, Gradients grads) {
  const auto rows = learned_rows(learned, consecutive(window.queries, window.offset()));
  for (std::int64_t t = 0; t < window.queries; ++t)
    for (std::int64_t c = 0; c < learned.dim; ++c)
      grads[0](rows[static_cast<std::size_t>(t)], c) += grad.table(t, c);
}

void lower_into(const Rotary& rotary, const Window& window, Values, Lowered& lowered) {
  lowered.query_rotary.emplace(rotary, consecutive(window.queries, window.offset()));
  lowered.key_rotary.emplace(rotary, consecutive(window.keys));
}

// Positions of text: the same on all axes, so one will do.
void lower_into(const ScaledRotary& scaled, const Window& window, Values, Lowered& lowered) {
  RotarySchedule turns = schedule(scaled);
  turns.axes.clear();
  lowered.query_rotary.emplace(turns, consecutive(window.queries, window.offset()));
  lowered.key_rotary.emplace(std::move(turns), consecutive(window.keys));
}

void lower_into(const XPos& xpos, const Window& window, Values, Lowered& lowered) {
  lowered.query_rotary.emplace(query_schedule(xpos),
                               consecutive(window.queries, window.offset()));
  lowered.key_rotary.emplace(key_schedule(xpos), consecutive(window.keys));
}

void lower_into(const Alibi& alibi, const Window&, Values, Lowered& lowered) {
  lowered.bias = gnomon::lower(alibi);
}

// A trained table that is spread over distances.
template <typename Spec>
  requires requires(const Spec& spec, Values values) { strip(spec, values[0], 0, 1); }
void lower_into(const Spec& spec, const Window& window, Values values, Lowered& lowered) {
  const auto [first, count] = distances(window);
  lowered.bias = strip(spec, values[0], first, count);
}
template <typename Spec>
  requires requires(const Spec& spec, Values values) { strip(spec, values[0], 0, 1); }
void backward_into(const Spec& spec, const Window& window, Values, const LoweredGradient& grad,
                   Gradients grads) {
  const auto [first, count] = distances(window);
  strip_backward(spec, grad.bias.values, first, count, grads[0]);
}

void lower_into(const Swin& swin, const Window&, Values values, Lowered& lowered) {
  lowered.bias = gnomon::lower(swin, values[0]);
}
void backward_into(const Swin& swin, const Window&, Values, const LoweredGradient& grad,
                   Gradients grads) {
  gnomon::lower_backward(swin, grad.bias.values, grads[0]);
}

template <typename T>
FireParameters<T> fire_parameters(std::span<const View<T, 2>> all) {
  const auto rows = [&](std::size_t i) {
    return View<T, 1>(all[i].data(), {all[i].extent(0)}, {all[i].stride(0)});
  };
  return {rows(0), rows(1), all[2], rows(3), rows(4), rows(5)};
}
void lower_into(const Fire& fire, const Window&, Values values, Lowered& lowered) {
  lowered.bias = gnomon::lower(fire, fire_parameters(values));
}
void backward_into(const Fire& fire, const Window&, Values values, const LoweredGradient& grad,
                   Gradients grads) {
  gnomon::lower_backward(fire, fire_parameters(values), grad.bias.values,
                         fire_parameters(grads));
}

template <typename Spec>
concept trained =
    requires(const Spec& spec, const Window& window, Values values, const LoweredGradient& grad,
             Gradients grads) { backward_into(spec, window, values, grad, grads); };

void check_window(const Encoding& encoding, const Window& window) {
  if (window.queries < 0) refuse("encoding", "queries must not be negative", window.queries);
  if (window.keys < window.queries)
    refuse("encoding", "keys must be at least the queries " + std::to_string(window.queries),
           window.keys);
  if (const auto most = capacity(encoding); most && window.keys > *most)
    refuse(info(encoding).name,
           "positions must be below its " + std::to_string(*most) + " rows", window.keys - 1);
}

template <typename Matrices>
void check_shapes(const Encoding& encoding, const Matrices& matrices) {
  const auto wanted = parameters(encoding);
  if (matrices.size() != wanted.size())
    refuse(info(encoding).name,
           "needs " + std::to_string(wanted.size()) + " parameter matrices",
           static_cast<std::int64_t>(matrices.size()));
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (matrices[i].extent(0) != wanted[i].rows || matrices[i].extent(1) != wanted[i].columns)
      refuse(info(encoding).name,
             wanted[i].name + " must be " + std::to_string(wanted[i].rows) + " x " +
                 std::to_string(wanted[i].columns),
             std::to_string(matrices[i].extent(0)) + " x " +
                 std::to_string(matrices[i].extent(1)));
}

}  // namespace

std::string_view name(Place place) noexcept {
  switch (place) {
    case Place::nowhere:
      return "nowhere";
    case Place::embeddings:
      return "embeddings";
    case Place::queries_and_keys:
      return "queries and keys";
    case Place::scores:
      return "scores";
  }
  return "?";
}

std::span<const EncodingInfo> encodings() { return list; }

const EncodingInfo& find_encoding(std::string_view name) {
  std::string names;
  for (const EncodingInfo& one : list) {
    if (one.name == name) return one;
    names += (names.empty() ? "" : ", ") + std::string(one.name);
  }
  refuse("encoding", "name must be one of " + names, name);
}

const EncodingInfo& info(const Encoding& encoding) { return list[encoding.index()]; }

std::vector<Parameter> parameters(const Encoding& encoding) {
  return std::visit([](const auto& spec) { return parameters_of(spec); }, encoding);
}

std::optional<std::int64_t> capacity(const Encoding& encoding) {
  if (const auto* learned = std::get_if<Learned>(&encoding)) return gnomon::capacity(*learned);
  if (const auto* swin = std::get_if<Swin>(&encoding)) return tokens(*swin);
  return std::nullopt;
}

Lowered lower(const Encoding& encoding, const Window& window, Values values) {
  check_window(encoding, window);
  check_shapes(encoding, values);
  Lowered lowered;
  std::visit([&](const auto& spec) { lower_into(spec, window, values, lowered); }, encoding);
  return lowered;
}

void lower_backward(const Encoding& encoding, const Window& window, Values values,
                    const LoweredGradient& lowered, Gradients grads) {
  check_window(encoding, window);
  check_shapes(encoding, values);
  check_shapes(encoding, grads);
  std::visit(
      [&](const auto& spec) {
        if constexpr (trained<std::remove_cvref_t<decltype(spec)>>)
          backward_into(spec, window, values, lowered, grads);
      },
      encoding);
}

}  // namespace gnomon::model
