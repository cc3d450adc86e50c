// Entry of the degree table. Text is read as a path graph of the training length.
#pragma once

#include <vector>

#include "gnomon/model/text_readings.h"
#include "src/model/encodings/entry.h"

namespace gnomon::model {

template <>
inline constexpr Spelling<DegreeBeyond> spellings<DegreeBeyond>[] = {
    {DegreeBeyond::capped, "capped"}, {DegreeBeyond::refused, "refused"}};

template <>
struct Entry<PathDegree> : EntryOf<PathDegree> {
  static constexpr EncodingInfo infos[] = {
      {"degree", "Vectors by degree", "", Place::embeddings, Sharing::all_layers,
       "a trained vector for each degree of a node; a text has the degrees 1 (its ends) and 2",
       "x[n] += in[in-degree of n + 1] + out[out-degree of n + 1]",
       "Ying et al. 2021, arXiv:2106.05234", "embedding/degree.md", "Graphormer",
       [](const Shape& s) -> Encoding {
         return PathDegree{
             .nodes = s.length,
             .degree = {.rows = 4, .width = s.width, .beyond = DegreeBeyond::refused}};
       }}};
  static constexpr Properties properties = {
      .reversal = Effect::some, .shift = Effect::some, .linearity = Linearity::linear};
  static void fields(PathDegree& s, auto&& v) {
    v("nodes", s.nodes), v("rows", s.degree.rows), v("width", s.degree.width);
    v("beyond", s.degree.beyond);
  }
  static std::vector<Parameter> parameters(const PathDegree& s) {
    return {{"in_degrees", s.degree.rows, s.degree.width, table_deviation, 0,
             "in_degree_encoder.weight"},
            {"out_degrees", s.degree.rows, s.degree.width, table_deviation, 0,
             "out_degree_encoder.weight"}};
  }
  static std::optional<std::int64_t> capacity(const PathDegree& s) { return s.nodes; }

  static void lower(const PathDegree& s, const Call& call, Values values, LayerPlan& lowered) {
    const DegreeRows rows = path_degree_rows(s, call.query_positions().ids);
    lowered.table = gnomon::lower(s.degree, rows, values[0], values[1]);
  }
  static void backward(const PathDegree& s, const Call& call, Values, const LayerGradient& grad,
                       Gradients grads) {
    const DegreeRows rows = path_degree_rows(s, call.query_positions().ids);
    gnomon::lower_backward(s.degree, rows, grad.table, grads[0], grads[1]);
  }
};

}  // namespace gnomon::model
