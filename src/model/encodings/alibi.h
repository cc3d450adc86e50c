// ALiBi among the encodings.
#pragma once

#include <memory>
#include <vector>

#include "gnomon/bias/alibi.h"
#include "src/model/encodings/entry.h"

namespace gnomon::model {

template <>
inline constexpr Spelling<AlibiRounding> spellings<AlibiRounding>[] = {
    {AlibiRounding::none, "none"}, {AlibiRounding::bfloat16, "bfloat16"}};

template <>
struct Entry<Alibi> : EntryOf<Alibi> {
  static constexpr EncodingInfo infos[] = {
      {"alibi", "ALiBi", "attention with linear biases", Place::scores, Sharing::all_layers,
       "a penalty proportional to the distance, with one slope per head",
       "score(h, query, key) += -slope[h] |key - query|", "Press et al. 2021, arXiv:2108.12409",
       "bias/alibi.md", "BLOOM, MPT, Falcon-RW, Baichuan-13B, JinaBERT",
       [](const Shape& s) -> Encoding { return Alibi{.heads = s.heads}; }}};
  static constexpr Properties properties = {
      .reversal = Effect::none, .shift = Effect::none, .decay = Decay::monotonic};
  static void fields(Alibi& s, auto&& v) {
    v("heads", s.heads), v("max_bias", s.max_bias);
    v("head_offset", s.head_offset), v("local_heads", s.local_heads);
    v("bias_scale", s.bias_scale), v("rounding", s.rounding);
  }
  static void derived(const Alibi& s, auto&& v) { v("slopes", slopes(s)); }
  static void lower(const Alibi& s, const Call& call, Values, LayerPlan& lowered) {
    if (s.rounding == AlibiRounding::none) {
      lowered.bias = gnomon::lower(s);
      return;
    }
    // The bias depends only on the key: all queries share a row. [B, H, 1, S]
    const Positions& keys = call.key_positions();
    const auto values = std::make_shared<std::vector<float>>();
    std::int64_t heads = 0;
    for (std::int64_t b = 0; b < keys.batch; ++b) {
      const std::vector<float> row = key_biases(s, keys.row(b));
      heads = keys.tokens > 0 ? std::ssize(row) / keys.tokens : 0;
      values->insert(values->end(), row.begin(), row.end());
    }
    const std::int64_t queries = call.query_positions().tokens, tokens = keys.tokens;
    lowered.bias = DenseBias{
        {values->data(), {keys.batch, heads, queries, tokens}, {heads * tokens, tokens, 0, 1}}};
    lowered.dense = values;
  }
};

}  // namespace gnomon::model
