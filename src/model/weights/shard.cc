#include "gnomon/model/shard.h"

#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "gnomon/error.h"

namespace gnomon::model {
namespace {

// The number of heads in the spec. Null: the encoding does not depend on it.
template <typename Spec>
std::int64_t* heads_of(Spec& spec) {
  if constexpr (requires { spec.t5.heads; })
    return &spec.t5.heads;
  else if constexpr (requires { spec.heads; })
    return &spec.heads;
  else
    return nullptr;
}

void check_range(const EncodingInfo& info, std::int64_t all, std::int64_t head_offset,
                 std::int64_t heads) {
  const std::string operation = "shard of " + std::string(info.name);
  if (head_offset < 0 || head_offset >= all)
    refuse(operation, "head_offset must be from 0 to heads - 1, " + std::to_string(all - 1),
           head_offset);
  if (heads < 1 || heads > all - head_offset)
    refuse(
        operation,
        "heads must be from 1 to the rest of the heads, " + std::to_string(all - head_offset),
        heads);
}

// The rows or columns of the shard. A parameter of heads has them head by head.
struct Range {
  std::int64_t begin, end;
};
Range range(std::int64_t whole, std::int64_t part, std::int64_t head_offset,
            std::int64_t heads) {
  if (whole == part) return {0, whole};
  const std::int64_t begin = head_offset * (part / heads);
  return {begin, begin + part};
}

}  // namespace

Shard shard(const Encoding& whole, std::int64_t head_offset, std::int64_t heads) {
  if (heads < 1) refuse("shard", "heads must be at least 1", heads);
  Encoding part = whole;
  std::visit(
      [&]<typename Spec>(Spec& spec) {
        std::int64_t* all = heads_of(spec);
        if (!all) return;
        if constexpr (std::is_same_v<Spec, Shaw> || std::is_same_v<Spec, Cope> ||
                      std::is_same_v<Spec, RotaryContextual>)
          if (spec.heads == 1) return;  // shared by all heads
        check_range(info(whole), *all, head_offset, heads);
        if constexpr (std::is_same_v<Spec, Alibi>) {
          if (spec.head_offset != 0 || spec.local_heads != 0)
            refuse("shard of alibi", "the encoding must be of the whole model", to_json(whole));
          spec.head_offset = head_offset;
          spec.local_heads = heads;
        } else {
          if (!properties(whole).divisible && heads != *all)
            refuse("shard of " + std::string(info(whole).name), "heads must be all heads",
                   heads);
          *all = heads;
          if constexpr (requires { spec.first_head; }) spec.first_head += head_offset;
        }
      },
      part);
  Shard result{{part}, {}};
  const std::vector<Parameter> all = parameters(whole), own = parameters(part);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Range rows = range(all[i].rows, own[i].rows, head_offset, heads);
    const Range columns = range(all[i].columns, own[i].columns, head_offset, heads);
    result.ranges.push_back({rows.begin, rows.end, columns.begin, columns.end,
                             all[i].rows == own[i].rows && all[i].columns == own[i].columns});
  }
  return result;
}

Shard shard(const Mixture& whole, std::int64_t head_offset, std::int64_t heads) {
  Shard all;
  for (const Encoding& one : whole) {
    Shard part = shard(one, head_offset, heads);
    all.mixture.push_back(std::move(part.mixture[0]));
    all.ranges.insert(all.ranges.end(), part.ranges.begin(), part.ranges.end());
  }
  return all;
}

}  // namespace gnomon::model
