// Entry of Laplacian eigenvectors. Text is read as a path graph of the training length.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "gnomon/embedding/projection.h"
#include "gnomon/model/text_readings.h"
#include "src/model/encodings/entry.h"

namespace gnomon::model {

template <>
inline constexpr Spelling<LaplacianKind> spellings<LaplacianKind>[] = {
    {LaplacianKind::combinatorial, "combinatorial"}, {LaplacianKind::symmetric, "symmetric"}};
template <>
inline constexpr Spelling<LaplacianZeros> spellings<LaplacianZeros>[] = {
    {LaplacianZeros::skip_one, "skip_one"}, {LaplacianZeros::skip_all, "skip_all"}};
template <>
inline constexpr Spelling<LaplacianSigns> spellings<LaplacianSigns>[] = {
    {LaplacianSigns::fixed, "fixed"},
    {LaplacianSigns::random, "random"},
    {LaplacianSigns::absolute, "absolute"}};

template <>
struct Entry<PathLaplacian> : EntryOf<PathLaplacian> {
  static constexpr EncodingInfo infos[] = {
      {"laplacian", "Laplacian eigenvectors", "LapPE", Place::embeddings, Sharing::all_layers,
       "the lowest eigenvectors of the path graph of the tokens, projected by a trained matrix",
       "L = D - A\n"
       "L v_k = lambda_k v_k",
       "Dwivedi and Bresson 2020, arXiv:2012.09699", "embedding/laplacian.md",
       "SAN, GraphGPS, TokenGT", [](const Shape& s) -> Encoding {
         return PathLaplacian{
             .nodes = s.length,
             .width = s.width,
             .laplacian = {.vectors = std::clamp<std::int64_t>(s.length - 1, 1, 32),
                           .kind = LaplacianKind::combinatorial,
                           .zeros = LaplacianZeros::skip_one,
                           .signs = LaplacianSigns::fixed}};
       }}};
  static constexpr Properties properties = {
      .reversal = Effect::some, .shift = Effect::some, .linearity = Linearity::linear};
  static void fields(PathLaplacian& s, auto&& v) {
    v("nodes", s.nodes), v("width", s.width), v("vectors", s.laplacian.vectors);
    v("laplacian", s.laplacian.kind), v("zeros", s.laplacian.zeros);
    v("signs", s.laplacian.signs);
  }
  // A row of K eigenvectors has the norm (K / nodes)^1/2.
  static std::vector<Parameter> parameters(const PathLaplacian& s) {
    const double size = std::sqrt(static_cast<double>(s.laplacian.vectors) /
                                  static_cast<double>(std::max<std::int64_t>(s.nodes, 1)));
    return {{"weight", s.laplacian.vectors, s.width, table_deviation / size}};
  }
  static std::optional<std::int64_t> capacity(const PathLaplacian& s) { return s.nodes; }

  static void lower(const PathLaplacian& s, const Call& call, Values values,
                    LayerPlan& lowered) {
    const std::vector<double> features = path_features(s, call.query_positions().ids);
    lowered.table =
        projected({features.data(), {call.queries(), s.laplacian.vectors}}, values[0]);
  }
  static void backward(const PathLaplacian& s, const Call& call, Values,
                       const LayerGradient& grad, Gradients grads) {
    const std::vector<double> features = path_features(s, call.query_positions().ids);
    project_backward<float>({features.data(), {call.queries(), s.laplacian.vectors}},
                            grad.table, grads[0]);
  }
};

}  // namespace gnomon::model
