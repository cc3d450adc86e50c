// The tokens of a forward pass, resolved: positions on all axes, and who sees whom.
#pragma once

#include <vector>

#include "gnomon/model/layer.h"
#include "gnomon/position/patches.h"
#include "src/model/entry.h"

namespace gnomon::model::internal {

class TokensOfLayer {
 public:
  // Throws std::invalid_argument when the tokens do not fit each other.
  TokensOfLayer(const ModelDescription& model, const LayerTokens& tokens);
  TokensOfLayer(const TokensOfLayer&) = delete;
  TokensOfLayer& operator=(const TokensOfLayer&) = delete;

  Call call() const;
  // The tokens of one window of an image; of tokens that are no image themselves.
  bool is_image() const { return tokens_.image.has_value(); }
  Call call_of(const LayerAttention& attention) const;
  // The mask and, where rows are not enough, the positions of queries and keys.
  void put_mask(const LayerAttention& attention, LayerPlan& lowered) const;
  Distances distances() const { return call().distances(); }
  std::int64_t length() const noexcept { return length_; }

 private:
  void place_image(const ModelDescription& model, const ImagePatches& image);

  const LayerTokens& tokens_;
  std::int64_t length_ = 0;
  std::vector<Positions> queries_ = {}, keys_ = {};  // where they are made here
  std::vector<std::int64_t> image_ = {};
  ImageTokens rule_ = {};
  Coordinates coordinates_ = {};
  std::span<const Positions> query_axes_ = {}, key_axes_ = {};
  mutable std::vector<Positions> window_ = {}, window_line_ = {};
};

// Throws std::invalid_argument that names what the group does.
void refuse_unsupported(const ModelDescription& model, const LayerGroup& group);
// What changes from pass to pass in a plan whose tables stay: mask and positions.
void put_tokens(const LayerGroup& group, const TokensOfLayer& tokens, LayerPlan& lowered);
// That, and the rules and values of attention: of a plan made for a group with this mixture.
void put_group(const LayerGroup& group, const TokensOfLayer& tokens, Values values,
               LayerPlan& lowered);

// Plan of a group; `reach`: wider distances than those of the tokens; `known`: an earlier plan
// of the group at the same length.
LayerPlan lower_group(const ModelDescription& model, const LayerGroup& group,
                      const TokensOfLayer& tokens, Values values,
                      std::optional<Distances> reach, const LayerPlan* known = nullptr);

}  // namespace gnomon::model::internal
