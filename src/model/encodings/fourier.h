// Entry of the Fourier features of Perceiver, NeRF and Tancik on a line.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "gnomon/embedding/projection.h"
#include "gnomon/model/text_readings.h"
#include "src/model/encodings/entry.h"

namespace gnomon::model {

template <>
inline constexpr Spelling<FourierBands> spellings<FourierBands>[] = {
    {FourierBands::perceiver, "perceiver"},
    {FourierBands::nerf, "nerf"},
    {FourierBands::gaussian, "gaussian"}};
template <>
inline constexpr Spelling<FourierInput> spellings<FourierInput>[] = {
    {FourierInput::first, "first"}, {FourierInput::left_out, "left_out"}};
template <>
inline constexpr Spelling<FourierUnit> spellings<FourierUnit>[] = {
    {FourierUnit::half_turn, "half_turn"}, {FourierUnit::radian, "radian"}};

template <>
struct Entry<FourierLine> : EntryOf<FourierLine> {
  // Coordinates go from -1 to 1 in length - 1 steps, so half a turn per token is (length - 1) /
  // 2 half turns per unit.
  static std::int64_t length(const Shape& s) { return std::max<std::int64_t>(2, s.length); }

  static constexpr EncodingInfo infos[] = {
      {"fourier", "Fourier features (Perceiver)", "Fourier features, Perceiver",
       Place::embeddings, Sharing::all_layers,
       "sines and cosines at evenly spaced frequencies, projected by a trained matrix",
       "p | sin pi p_a f_i | cos pi p_a f_i\n"
       "f = n numbers at equal steps from 1 to resolution_a / 2",
       "Jaegle et al. 2021, arXiv:2103.03206", "embedding/fourier.md",
       "Perceiver, Perceiver IO",
       [](const Shape& s) -> Encoding {
         const double resolution = static_cast<double>(length(s));
         return FourierLine{
             .fourier = fourier_perceiver({&resolution, 1},
                                          std::clamp<std::int64_t>(length(s) / 2, 1, 64)),
             .length = length(s),
             .width = s.width};
       }},
      {"nerf", "Fourier features (NeRF)", "", Place::embeddings, Sharing::all_layers,
       "sines and cosines at frequencies that double, projected by a trained matrix",
       "p | sin p, cos p, sin 2p, cos 2p, ...", "Mildenhall et al. 2020, arXiv:2003.08934",
       "embedding/fourier.md", "NeRF",
       [](const Shape& s) -> Encoding {
         Fourier nerf =
             fourier_nerf(1, std::bit_width(static_cast<std::uint64_t>(length(s) - 1)));
         nerf.unit = FourierUnit::half_turn;
         return FourierLine{.fourier = nerf, .length = length(s), .width = s.width};
       }},
      {"fourier-gaussian", "Fourier features (random)", "random Fourier features",
       Place::embeddings, Sharing::all_layers,
       "sines and cosines at fixed random frequencies, projected by a trained matrix",
       "sin 2 pi B p | cos 2 pi B p\n"
       "B [n, A] of normal numbers, fixed",
       "Tancik et al. 2020, arXiv:2006.10739", "embedding/fourier.md",
       "SAM (its point prompts)", [](const Shape& s) -> Encoding {
         return FourierLine{
             .fourier = fourier_gaussian(1, std::max<std::int64_t>(1, s.width / 2),
                                         static_cast<double>(length(s)) / 12),
             .length = length(s),
             .width = s.width};
       }}};
  static constexpr Properties properties = {
      .reversal = Effect::some, .shift = Effect::some, .linearity = Linearity::linear};
  static void fields(FourierLine& s, auto&& v) {
    v("bands", s.fourier.bands), v("axes", s.fourier.axes), v("count", s.fourier.count),
        v("input", s.fourier.input);
    v("resolution", s.fourier.resolution), v("unit", s.fourier.unit);
    v("deviation", s.fourier.deviation), v("seed", s.fourier.seed);
    v("length", s.length), v("width", s.width), v("grid", s.grid);
  }
  // Deviation of PyTorch's linear layers, uniform up to 1 / sqrt(inputs). Initial rows of the
  // table then have a deviation of 0.4; those of a sinusoid have 0.7.
  static std::vector<Parameter> parameters(const FourierLine& s) {
    if (s.width == 0) return {};
    const std::int64_t count = features(s.fourier);
    return {{"weights", count, s.width, 1 / std::sqrt(3 * static_cast<double>(count))}};
  }
  static std::optional<std::int64_t> capacity(const FourierLine& s) { return cells(s.grid); }
  static View<const double, 2> rows(const FourierLine& s, const std::vector<double>& filled) {
    const std::int64_t count = features(s.fourier);
    return {filled.data(), {static_cast<std::int64_t>(filled.size()) / count, count}};
  }
  static void lower(const FourierLine& s, const Call& call, Values values, LayerPlan& lowered) {
    const auto filled = line_features(s, call.query_positions().ids);
    if (s.width == 0)
      lowered.table = EmbeddingTable{call.queries(), features(s.fourier),
                                     std::vector<float>(filled.begin(), filled.end())};
    else
      lowered.table = projected(rows(s, filled), values[0]);
  }
  static void backward(const FourierLine& s, const Call& call, Values,
                       const LayerGradient& grad, Gradients grads) {
    const auto filled = line_features(s, call.query_positions().ids);
    project_backward<float>(rows(s, filled), grad.table, grads[0]);
  }
};

}  // namespace gnomon::model
