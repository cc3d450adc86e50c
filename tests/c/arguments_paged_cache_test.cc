// Drawn arguments for every function of gnomon_paged_cache.h. Each returns a status.
#include <gtest/gtest.h>

#include "c/declared.h"
#include "c/drawn.h"
#include "gnomon_paged_cache.h"

namespace gnomon {
namespace arguments_paged_cache_test {

using drawn::Handles;
using drawn::Kind;
using std::int64_t;

class Attack : public drawn::Caller {
 public:
  using Caller::Caller;
  void call() {
    begin();
    const auto which = static_cast<int>(draw.below(14));
    which < 4 ? make(which) : use(which);
  }

 private:
  void make(int which);
  void use(int which);
  int64_t number() { return draw.one_in(20) ? draw.number() : draw.below(4); }

  Handles<gnomon_frequencies> frequencies_{gnomon_frequencies_destroy};
  Handles<gnomon_rotary_table> tables_{gnomon_rotary_table_destroy};
  Handles<gnomon_paged_kv_cache> caches_{gnomon_paged_kv_cache_destroy};
};

void Attack::make(int which) {
  gnomon_frequencies* frequencies = nullptr;
  gnomon_rotary_table* table = nullptr;
  gnomon_paged_kv_cache* cache = nullptr;
  const int64_t h = 1 + draw.below(2), d = draw.of<int64_t>({2, 4});
  switch (which) {
    case 0: {
      const gnomon_rotary_spec one{.size = sizeof one,
                                   .rotary_dim = d,
                                   .pairing = static_cast<int32_t>(1 + draw.below(2)),
                                   .base = 0,
                                   .head_offset = 0};
      count("frequencies_create", gnomon_frequencies_create(&one, out(frequencies)));
      return frequencies_.add(draw, frequencies);
    }
    case 1:
      count("rotary_table_create",
            gnomon_rotary_table_create(frequencies_.one(draw),
                                       tensor(Kind::i64, {draw.below(3)}), out(table)));
      return tables_.add(draw, table);
    default: {
      gnomon_paged_kv_cache_spec spec{};
      spec.size = draw.size_of<gnomon_paged_kv_cache_spec>();
      spec.blocks = draw.one_in(20) ? draw.size() : 1 + draw.below(6);
      spec.block_size = draw.one_in(20) ? draw.size() : draw.below(4);
      spec.heads = draw.one_in(20) ? draw.size() : h;
      spec.head_dim = draw.one_in(20) ? draw.size() : d;
      spec.value_dim = draw.below(3);
      spec.axes = draw.one_in(20) ? draw.size() : 1;
      spec.type = draw.one_in(10) ? draw.code() : static_cast<int32_t>(1 + draw.below(5));
      const bool scales = draw.one_in(10) || spec.type == GNOMON_CACHE_E4M3;
      if (scales) spec.key_scales = tensor(Kind::f32, {h});
      if (scales && spec.value_dim > 0) spec.value_scales = tensor(Kind::f32, {1});
      count("paged_kv_cache_create",
            gnomon_paged_kv_cache_create(draw.one_in(60) ? nullptr : &spec,
                                         draw.one_in(2) ? nullptr : frequencies_.one(draw),
                                         out(cache)));
      return caches_.add(draw, cache);
    }
  }
}

void Attack::use(int which) {
  const int64_t t = draw.below(4), h = 1 + draw.below(2), d = draw.of<int64_t>({2, 4}),
                dv = draw.below(3), n = draw.below(3);
  gnomon_paged_kv_cache* const cache = caches_.one(draw);
  int64_t result = 0, room = 0;
  int64_t* const to = draw.one_in(60) ? nullptr : &result;
  switch (which) {
    case 4:
      return count("paged_kv_cache_start", gnomon_paged_kv_cache_start(cache, to));
    case 5:
      return count(
          "paged_kv_cache_fork",
          gnomon_paged_kv_cache_fork(cache, number(), draw.one_in(2) ? -1 : number(), to));
    case 6:
      return count("paged_kv_cache_truncate",
                   gnomon_paged_kv_cache_truncate(cache, number(), number()));
    case 7:
      return count("paged_kv_cache_end", gnomon_paged_kv_cache_end(cache, number()));
    case 8:
      EXPECT_GE(gnomon_paged_kv_cache_free_blocks(cache), 0);
      count("paged_kv_cache_free_blocks");
      return count(
          "paged_kv_cache_tokens",
          gnomon_paged_kv_cache_tokens(cache, number(), to, draw.one_in(2) ? nullptr : &room));
    case 9: {
      gnomon_tensor all[4];
      return count("paged_kv_cache_tensors",
                   gnomon_paged_kv_cache_tensors(cache, &all[0], &all[1], &all[2],
                                                 draw.one_in(2) ? nullptr : &all[3]));
    }
    case 10: {
      gnomon_tensor blocks, lengths;
      return count("paged_kv_cache_block_table",
                   gnomon_paged_kv_cache_block_table(cache, tensor(Kind::i64, {n}), &blocks,
                                                     draw.one_in(2) ? nullptr : &lengths));
    }
    case 11:
      if (draw.one_in(4))
        return count("paged_kv_cache_change_frequencies",
                     gnomon_paged_kv_cache_change_frequencies(cache, frequencies_.one(draw)));
      [[fallthrough]];
    case 12: {
      const bool one = draw.one_in(2);
      const int64_t rows = one ? n : t;
      return count("paged_kv_cache_append",
                   gnomon_paged_kv_cache_append(
                       cache, tensor(draw.one_in(4) ? Kind::any : Kind::f32, {rows, h, d}),
                       dv == 0 ? nullptr : tensor(Kind::f32, {rows, h, dv}),
                       tensor(Kind::i64, {n}), one ? nullptr : tensor(Kind::i64, {n + 1}),
                       maybe(Kind::i64, {rows}), draw.one_in(2) ? nullptr : tables_.one(draw)));
    }
    default: {
      const int64_t p = 1 + draw.below(3), s = 1 + draw.below(3);
      gnomon_paged_cache pages{};
      pages.size = draw.size_of<gnomon_paged_cache>();
      const Kind kind = draw.one_in(2) ? Kind::f32 : Kind::any;
      pages.keys = tensor(kind, {p, s, h, d});
      if (dv > 0) pages.values = tensor(kind, {p, s, h, dv});
      if (draw.one_in(2)) {
        pages.slots = tensor(Kind::i64, {t});
      } else {
        pages.block_table = tensor(Kind::i32, {n, 2});
        pages.entries = tensor(Kind::i64, {t});
        pages.sequences = maybe(Kind::i32, {t});
      }
      if (draw.one_in(4))
        pages.key_scales =
            draw.one_in(2) ? tensor(Kind::f32, {p, s, h}) : tensor(Kind::f32, {h});
      if (draw.one_in(4)) pages.value_scales = tensor(Kind::f32, {p, s, h});
      return count("paged_append",
                   gnomon_paged_append(tensor(Kind::f32, {t, h, d}),
                                       dv == 0 ? nullptr : tensor(Kind::f32, {t, h, dv}),
                                       draw.one_in(2) ? nullptr : tables_.one(draw),
                                       draw.one_in(60) ? nullptr : &pages));
    }
  }
}

TEST(PagedCacheArguments, OfEveryFunctionGiveAStatus) {
  drawn::attack<Attack>(20, testing::declared_functions("gnomon_paged_cache.h"));
}

}  // namespace arguments_paged_cache_test
}  // namespace gnomon
