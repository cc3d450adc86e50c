// Entry of the cross-modal table for text and image patches. A line of tokens is text only.
#pragma once

#include <algorithm>

#include "gnomon/embedding/cross_modal.h"
#include "src/model/encodings/entry.h"
#include "src/model/encodings/grid.h"

namespace gnomon::model {

template <>
inline constexpr Spelling<TextIndex> spellings<TextIndex>[] = {
    {TextIndex::text, "text"}, {TextIndex::sequence, "sequence"}};
template <>
inline constexpr Spelling<ImageType> spellings<ImageType>[] = {
    {ImageType::one, "one"}, {ImageType::by_number, "by_number"}};

template <>
struct Entry<CrossModal> : EntryOf<CrossModal> {
  static constexpr EncodingInfo infos[] = {
      {"cross-modal", "Text and image patches", "ViLT", Place::embeddings, Sharing::all_layers,
       "sinusoids: of the index for text, of row and column for patches; a vector for each "
       "kind",
       "row of a text token: sinusoid(index) + types[0]\n"
       "row of a patch: sinusoids(y, x) + types[type of its image]",
       "Kim et al. 2021, arXiv:2102.03334", "embedding/cross_modal.md",
       "ViLT (its positions are trained, too)",
       [](const Shape& s) -> Encoding { return cross_modal_usual(s.width); }}};
  static constexpr Properties properties = {
      .reversal = Effect::some, .shift = Effect::some, .linearity = Linearity::linear};
  static void fields(CrossModal& s, auto&& v) {
    v("text", s.text), v("patches", s.patches), v("types", s.types);
    v("index", s.index), v("image_type", s.image_type);
  }
  static std::vector<Parameter> parameters(const CrossModal& s) {
    return {
        {"types", s.types, s.text.width, table_deviation, 0, "token_type_embeddings.weight"}};
  }
  static CrossModalTokens tokens(const Call& call) {
    CrossModalTokens tokens;
    tokens.indices = call.query_positions().ids;
    tokens.types.assign(tokens.indices.size(), 0);
    tokens.patches.axes = 2;
    return tokens;
  }
  static void lower(const CrossModal& s, const Call& call, Values values, LayerPlan& lowered) {
    lowered.table = gnomon::lower(s, tokens(call), values[0]);
  }
  static void backward(const CrossModal& s, const Call& call, Values, const LayerGradient& grad,
                       Gradients grads) {
    gnomon::lower_backward(s, tokens(call), grad.table, grads[0]);
  }
};

}  // namespace gnomon::model
