// Entry of the return probabilities of random walks. Text is read as a path graph of the
// training length.
#pragma once

#include <vector>

#include "gnomon/embedding/projection.h"
#include "gnomon/model/text_readings.h"
#include "src/model/encodings/entry.h"

namespace gnomon::model {

template <>
struct Entry<PathRandomWalk> : EntryOf<PathRandomWalk> {
  static constexpr EncodingInfo infos[] = {
      {"random-walk", "Random walks", "RWPE, RWSE", Place::embeddings, Sharing::all_layers,
       "return probabilities of walks on the path graph of the tokens, projected by a trained "
       "matrix",
       "feature(i, k) = (P^k)(i, i), P = D^-1 A, k = 1 to K",
       "Dwivedi et al. 2021, arXiv:2110.07875", "embedding/random_walk.md",
       "LSPE, GraphGPS, GRIT", [](const Shape& s) -> Encoding {
         return PathRandomWalk{.nodes = s.length, .width = s.width, .walk = {.steps = 16}};
       }}};
  static constexpr Properties properties = {
      .reversal = Effect::some, .shift = Effect::some, .linearity = Linearity::linear};
  static void fields(PathRandomWalk& s, auto&& v) {
    v("nodes", s.nodes), v("width", s.width), v("steps", s.walk.steps);
  }
  static std::vector<Parameter> parameters(const PathRandomWalk& s) {
    return {{"weight", s.walk.steps, s.width, table_deviation}};
  }
  static std::optional<std::int64_t> capacity(const PathRandomWalk& s) { return s.nodes; }

  static void lower(const PathRandomWalk& s, const Call& call, Values values,
                    LayerPlan& lowered) {
    const std::vector<double> features = path_features(s, call.query_positions().ids);
    lowered.table = projected({features.data(), {call.queries(), s.walk.steps}}, values[0]);
  }
  static void backward(const PathRandomWalk& s, const Call& call, Values,
                       const LayerGradient& grad, Gradients grads) {
    const std::vector<double> features = path_features(s, call.query_positions().ids);
    project_backward<float>({features.data(), {call.queries(), s.walk.steps}}, grad.table,
                            grads[0]);
  }
};

}  // namespace gnomon::model
