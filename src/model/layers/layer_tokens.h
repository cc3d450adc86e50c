// Resolved tokens of a forward pass: positions on all axes, and the mask.
#pragma once

#include <vector>

#include "gnomon/model/layer.h"
#include "gnomon/position/patches.h"
#include "src/model/encodings/entry.h"

namespace gnomon::model::internal {

class TokensOfLayer {
 public:
  // Throws std::invalid_argument if the tokens are inconsistent.
  TokensOfLayer(const ModelDescription& model, const LayerTokens& tokens);
  TokensOfLayer(const TokensOfLayer&) = delete;
  TokensOfLayer& operator=(const TokensOfLayer&) = delete;

  Call call() const;
  bool is_image() const { return tokens_.image.has_value(); }
  // The tokens of one window, if the layer partitions the image; otherwise call().
  Call call_of(const LayerAttention& attention) const;
  // Sets the mask, and the positions of queries and keys if rows do not define the mask.
  void put_mask(const LayerAttention& attention, LayerPlan& lowered) const;
  // The position of the first query, if positions are consecutive and without padding. Throws
  // std::invalid_argument if they are not: compressed keys are counted from position 0.
  std::int64_t first_position() const;
  Distances distances() const { return call().distances(); }
  std::int64_t length() const noexcept { return length_; }
  std::int64_t keys() const;  // S

 private:
  void place_image(const ModelDescription& model, const ImagePatches& image);

  const LayerTokens& tokens_;
  std::int64_t length_ = 0;
  std::vector<Positions> queries_ = {}, keys_ = {};  // if created here
  std::vector<std::int64_t> image_ = {};
  ImageTokens rule_ = {};
  Coordinates coordinates_ = {};
  std::span<const Positions> query_axes_ = {}, key_axes_ = {};
  mutable std::vector<Positions> window_ = {}, window_line_ = {};
};

// Throws std::invalid_argument with `unsupported` if the group is unsupported.
void refuse_unsupported(const ModelDescription& model, const LayerGroup& group);
// Throws std::invalid_argument if an indexer selects among the keys.
void refuse_selection(const ModelDescription& model, const LayerGroup& group,
                      const TokensOfLayer& tokens);
// Sets the mask and positions of a plan whose tables are reused.
void put_tokens(const LayerGroup& group, const TokensOfLayer& tokens, LayerPlan& lowered);
// put_tokens, and the rules and values of attention, for a plan of a group with the same
// mixture.
void put_group(const LayerGroup& group, const TokensOfLayer& tokens, Values values,
               LayerPlan& lowered);

// Returns the plan of a group. `reach`: a range that contains the distances of the tokens.
// `known`: an earlier plan of the group at the same length.
LayerPlan lower_group(const ModelDescription& model, const LayerGroup& group,
                      const TokensOfLayer& tokens, Values values,
                      std::optional<Distances> reach, const LayerPlan* known = nullptr);

}  // namespace gnomon::model::internal
