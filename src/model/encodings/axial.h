// Entry of axial learned tables. Text is read as the rows of a page.
#pragma once

#include <string>
#include <vector>

#include "gnomon/embedding/axial.h"
#include "src/model/encodings/entry.h"

namespace gnomon::model {

template <>
inline constexpr Spelling<AxisJoin> spellings<AxisJoin>[] = {
    {AxisJoin::concatenated, "concatenated"}, {AxisJoin::summed, "summed"}};

template <>
struct Entry<AxialLearned> : EntryOf<AxialLearned> {
  static constexpr EncodingInfo infos[] = {
      {"axial", "Axial learned tables", "axial learned", Place::embeddings, Sharing::all_layers,
       "a trained vector for each row and for each column of a page, concatenated",
       "[ table_0[p / b] | table_1[p % b] ]", "Kitaev et al. 2020, arXiv:2001.04451",
       "embedding/axial.md", "Reformer",
       [](const Shape& s) -> Encoding {
         return AxialLearned{.join = AxisJoin::concatenated,
                             .rows = {page_size(s.length).height, page_size(s.length).width},
                             .widths = {s.width / 2, s.width - s.width / 2}};
       }},
      {"axial-summed", "Axial learned tables (summed)", "", Place::embeddings,
       Sharing::all_layers,
       "a trained vector for each row and for each column of a page, summed",
       "table_0[p / b] + table_1[p % b]", "Ho et al. 2019, arXiv:1912.12180",
       "embedding/axial.md", "", [](const Shape& s) -> Encoding {
         return AxialLearned{.join = AxisJoin::summed,
                             .rows = {page_size(s.length).height, page_size(s.length).width},
                             .widths = {s.width, s.width}};
       }}};
  static constexpr Properties properties = {
      .reversal = Effect::some, .shift = Effect::some, .linearity = Linearity::linear};
  static void fields(AxialLearned& s, auto&& v) {
    v("join", s.join), v("rows", s.rows), v("widths", s.widths);
  }
  static std::vector<Parameter> parameters(const AxialLearned& s) {
    gnomon::width(s);  // throws if the spec is out of its bounds
    std::vector<Parameter> all;
    for (std::size_t a = 0; a < s.rows.size(); ++a) {
      all.push_back({"axis" + std::to_string(a), s.rows[a], s.widths[a], table_deviation});
      if (s.join == AxisJoin::summed) continue;
      all.back().path = "weights." + std::to_string(a);  // Reformer
      all.back().shape.assign(s.rows.size(), 1);
      all.back().shape[a] = s.rows[a];
      all.back().shape.push_back(s.widths[a]);
    }
    return all;
  }
  static std::optional<std::int64_t> capacity(const AxialLearned& s) {
    return gnomon::capacity(s);
  }
  // Two tables of equal widths are those of an image, others are Reformer's.
  static bool rows_and_columns(const AxialLearned& s) {
    return s.join == AxisJoin::summed || s.widths.empty() ||
           s.widths.front() == s.widths.back();
  }
  static const char* kind(const AxialLearned& s) {
    return rows_and_columns(s) ? "rows_and_columns" : "learned";
  }
  static constexpr CheckpointName row_and_column_tensors[] = {
      {"axis0", "row_embedder.weight|row_embeddings.weight"},
      {"axis1", "column_embedder.weight|column_embeddings.weight"},
      {"axis0", "position_embedding_table", TensorLayout::second_half},
      {"axis1", "position_embedding_table", TensorLayout::first_half}};
  static constexpr CheckpointName reformer_tensors[] = {
      {"axis0", "position_embeddings.weights.0"}, {"axis1", "position_embeddings.weights.1"}};
  static std::span<const CheckpointName> tensors(const AxialLearned& s) {
    if (rows_and_columns(s)) return row_and_column_tensors;
    return reformer_tensors;
  }
  // Cell numbers of the tokens, row by row, if they have a position on each axis.
  static std::vector<std::int64_t> cells(const AxialLearned& s, const Call& call) {
    const auto axes = call.query_axes();
    std::vector<std::int64_t> ids = axes[0].ids;
    if (axes.size() == s.rows.size())
      for (std::size_t a = 1; a < axes.size(); ++a)
        for (std::size_t t = 0; t < ids.size(); ++t)
          ids[t] = ids[t] * s.rows[a] + axes[a].ids[t];
    return ids;
  }
  static void lower(const AxialLearned& s, const Call& call, Values values,
                    LayerPlan& lowered) {
    lowered.table = gnomon::lower(s, values, cells(s, call));
  }
  static void backward(const AxialLearned& s, const Call& call, Values,
                       const LayerGradient& grad, Gradients grads) {
    fill_backward<float>(s, grad.table, call.query_positions().ids, grads);
  }
};

}  // namespace gnomon::model
