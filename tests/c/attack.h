// Drawn calls of every function of gnomon::core that returns a status or a number.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "c/drawn.h"
#include "gnomon_context.h"

namespace gnomon {
namespace drawn {

class Attack : public Caller {
 public:
  using Caller::Caller;
  void call() {
    begin();
    const auto which = static_cast<int>(draw.below(38));
    if (which > 29) return others(which);
    which < 14 ? rotate(which) : layer(which);
  }

 private:
  gnomon_rotary_spec spec() {
    return {.size = draw.size_of<gnomon_rotary_spec>(),
            .rotary_dim = draw.one_in(4) ? draw.size() : 2 * (1 + draw.below(2)),
            .pairing = draw.code(),
            .base = draw.one_in(4) ? draw.real() : 0,
            .head_offset = draw.one_in(6) ? draw.number() : 0};
  }
  void rotate(int which);
  void layer(int which);
  void others(int which);

  std::list<Drawn> kept_;  // dense biases, which plans borrow
  Handles<gnomon_frequencies> frequencies_{gnomon_frequencies_destroy};
  Handles<gnomon_rotary_table> tables_{gnomon_rotary_table_destroy};
  Handles<gnomon_layer_plan> plans_{gnomon_layer_plan_destroy};
  Handles<gnomon_plan_gradient> gradients_{gnomon_plan_gradient_destroy};
  Handles<gnomon_terms> terms_{gnomon_terms_destroy};
  Handles<gnomon_context> contexts_{gnomon_context_destroy};
};

inline void Attack::rotate(int which) {
  const int64_t b = draw.below(3), t = draw.below(4), h = draw.below(3),
                d = draw.of<int64_t>({2, 4, 8}), c = draw.below(6);
  gnomon_frequencies* frequencies = nullptr;
  gnomon_rotary_table* table = nullptr;
  switch (which) {
    case 0: {
      const gnomon_rotary_spec one = spec();
      count("frequencies_create",
            gnomon_frequencies_create(draw.one_in(60) ? nullptr : &one, out(frequencies)));
      return frequencies_.add(draw, frequencies);
    }
    case 1: {
      const gnomon_rotary_spec one = spec();
      const int64_t pairs = one.rotary_dim > 0 && one.rotary_dim < 9 ? one.rotary_dim / 2 : 1;
      count("frequencies_from",
            gnomon_frequencies_from(&one, tensor(Kind::f64, {pairs}), maybe(Kind::i32, {pairs}),
                                    draw.one_in(4) ? draw.real() : 1, out(frequencies)));
      return frequencies_.add(draw, frequencies);
    }
    case 2:
      return count("frequencies_get",
                   gnomon_frequencies_get(frequencies_.one(draw),
                                          tensor(Kind::f64, {1 + draw.below(2)})));
    case 3: {
      const std::vector<std::vector<int64_t>> shapes = {{t}, {b, t}, {2, b, t}};
      count("rotary_table_create",
            gnomon_rotary_table_create(frequencies_.one(draw),
                                       tensor(Kind::i64, draw.of(shapes)), out(table)));
      return tables_.add(draw, table);
    }
    case 4: {
      const int64_t pairs = 1 + draw.below(2);
      return count("rotary_table_get",
                   gnomon_rotary_table_get(tables_.one(draw), tensor(Kind::f32, {1, t, pairs}),
                                           tensor(Kind::f32, {1, t, pairs})));
    }
    case 5: {
      const int64_t pairs = 1 + draw.below(2);
      return count("cos_sin", gnomon_cos_sin(tensor(Kind::i64, {t}), frequencies_.one(draw),
                                             tensor(Kind::f32, {t, pairs}),
                                             tensor(Kind::f32, {t, pairs})));
    }
    case 6:
      return count("rotate", gnomon_rotate(tensor(Kind::any, {b, t, h, d}),
                                           maybe(Kind::any, {b, t, h, d}), tables_.one(draw),
                                           draw.code()));
    case 7:
      return count("rotate_to",
                   gnomon_rotate_to(tensor(Kind::f32, {b, t, h, d}), tables_.one(draw),
                                    draw.code(), tensor(Kind::f32, {b, t, h, d})));
    case 8:
      return count(
          "rotate_at",
          gnomon_rotate_at(tensor(Kind::f32, {b, t, h, d}), maybe(Kind::f32, {b, t, h, d}),
                           tensor(Kind::i64, {t}), frequencies_.one(draw)));
    case 9:
      return count("append",
                   gnomon_append(tensor(Kind::f32, {b, t, h, d}),
                                 draw.one_in(3) ? nullptr : tables_.one(draw),
                                 tensor(Kind::any, {b, t, h, d}), maybe(Kind::f32, {b, t, h})));
    case 10:
      return count("shift_keys", gnomon_shift_keys(tensor(Kind::any, {b, t, h, d}),
                                                   frequencies_.one(draw), draw.number()));
    case 11:
      return count("sinusoidal", gnomon_sinusoidal(tensor(Kind::i64, {t}), draw.code(),
                                                   draw.one_in(4) ? draw.real() : 0,
                                                   tensor(Kind::f32, {t, c})));
    case 12:
      if (draw.one_in(2))
        return count("add_table",
                     gnomon_add_table(tensor(Kind::any, {b, t, c}), tensor(Kind::f32, {t, c}),
                                      static_cast<float>(draw.below(3))));
      return count("add_rows",
                   gnomon_add_rows(tensor(Kind::any, {b, t, c}), tensor(Kind::f32, {7, c}),
                                   tensor(Kind::i64, {b, t})));
    default:
      return count("add_rows_backward", gnomon_add_rows_backward(tensor(Kind::any, {b, t, c}),
                                                                 tensor(Kind::i64, {b, t}),
                                                                 tensor(Kind::f32, {7, c})));
  }
}

inline void Attack::layer(int which) {
  const int64_t b = draw.below(3), t = draw.below(5), s = draw.below(6), hk = draw.below(3),
                h = hk * (1 + draw.below(2)), d = draw.of<int64_t>({1, 2, 4, 8}),
                dv = 1 + draw.below(4);
  gnomon_layer_plan* plan = nullptr;
  gnomon_plan_gradient* gradient = nullptr;
  gnomon_attention_input input{draw.size_of<gnomon_attention_input>(),
                               tensor(Kind::f32, {b, t, h, d}),
                               tensor(draw.one_in(4) ? Kind::any : Kind::f32, {b, s, hk, d}),
                               tensor(draw.one_in(4) ? Kind::any : Kind::f32, {b, s, hk, dv}),
                               draw.one_in(6) ? tensor(Kind::f32, {b, s, hk}) : nullptr,
                               draw.one_in(6) ? tensor(Kind::f32, {b, s, hk}) : nullptr,
                               draw.one_in(6) ? tensor(Kind::f32, {b, h, t}) : nullptr,
                               draw.one_in(8) ? terms_.one(draw) : nullptr};
  switch (which) {
    case 14:
      count("layer_plan_create", gnomon_layer_plan_create(out(plan)));
      if (plan && !draw.one_in(8)) {
        const auto offset = draw.of<int64_t>({-1, -1, 0, 2});
        gnomon_layer_plan_set_mask(plan, draw.one_in(2) ? GNOMON_CAUSAL : GNOMON_BIDIRECTIONAL,
                                   offset, -1, -1);
      }
      return plans_.add(draw, plan);
    case 15:
      return count("layer_plan_set_mask",
                   gnomon_layer_plan_set_mask(plans_.one(draw), draw.code(),
                                              draw.one_in(3) ? draw.number() : draw.below(3),
                                              draw.one_in(3) ? draw.number() : -1,
                                              draw.one_in(3) ? draw.number() : -1));
    case 16:
      return count(
          "layer_plan_set_softmax",
          gnomon_layer_plan_set_softmax(plans_.one(draw), draw.one_in(4) ? draw.real() : NAN,
                                        draw.one_in(4) ? draw.real() : 0,
                                        draw.one_in(4) ? tensor(Kind::f64, {h}) : nullptr));
    case 17:
      if (draw.one_in(6))
        return count("layer_plan_rotate_in_prepare",
                     gnomon_layer_plan_rotate_in_prepare(plans_.one(draw)));
      return count("layer_plan_set_rotary",
                   gnomon_layer_plan_set_rotary(plans_.one(draw),
                                                draw.one_in(3) ? tables_.one(draw) : nullptr,
                                                draw.one_in(3) ? tables_.one(draw) : nullptr));
    case 18:
      return count("layer_plan_set_slopes",
                   gnomon_layer_plan_set_slopes(plans_.one(draw), tensor(Kind::f64, {h})));
    case 19:
      return count(
          "layer_plan_set_strip",
          gnomon_layer_plan_set_strip(plans_.one(draw), tensor(Kind::f64, {h, draw.below(20)}),
                                      draw.one_in(3) ? draw.number() : -draw.below(12)));
    case 20: {
      const gnomon_tensor* const dense =
          &kept_.emplace_back(draw, Kind::f32, std::vector<int64_t>{b, h, t, s}).tensor;
      return count("layer_plan_set_dense",
                   gnomon_layer_plan_set_dense(plans_.one(draw), dense));
    }
    case 21:
      return count("layer_plan_set_positions",
                   gnomon_layer_plan_set_positions(
                       plans_.one(draw), tensor(Kind::i64, {1, t}), maybe(Kind::i32, {1, t}),
                       tensor(Kind::i64, {1, s}), maybe(Kind::i32, {1, s})));
    case 22:
      if (draw.one_in(2))
        return count("alibi_slopes",
                     gnomon_alibi_slopes(draw.number(), draw.number(), tensor(Kind::f64, {h})));
      return count("layer_plan_bias", gnomon_layer_plan_bias(plans_.one(draw), draw.number(),
                                                             tensor(Kind::f32, {h, t, s})));
    case 23:
      if (draw.one_in(3))
        return count("add_position",
                     gnomon_add_position(tensor(Kind::any, {b, t, d}), plans_.one(draw)));
      if (draw.one_in(2))
        return count("prepare_input", gnomon_prepare_input(tensor(Kind::any, {b, t, d}),
                                                           plans_.one(draw), draw.number()));
      return count(
          "prepare",
          gnomon_prepare(tensor(Kind::any, {b, t, h, d}), maybe(Kind::any, {b, s, hk, d}),
                         maybe(Kind::any, {b, s, hk, dv}), plans_.one(draw)));
    case 24:
    case 25:
      if (draw.one_in(4))
        return count("attention_weights",
                     gnomon_attention_weights(draw.one_in(60) ? nullptr : &input,
                                              plans_.one(draw), maybe(Kind::f32, {b, h, t, s}),
                                              maybe(Kind::f64, {b, h, t, s})));
      if (draw.one_in(3)) {
        const auto rarely = [&](Kind kind, const std::vector<int64_t>& shape) {
          return draw.one_in(5) ? tensor(kind, shape) : nullptr;
        };
        const gnomon_ragged_batch batch{draw.size_of<gnomon_ragged_batch>(),
                                        rarely(Kind::i64, {b + 1}),
                                        rarely(Kind::i64, {b}),
                                        rarely(Kind::i64, {b + 1}),
                                        rarely(Kind::i64, {b}),
                                        rarely(Kind::i64, {b}),
                                        rarely(Kind::i32, {b, s})};
        gnomon_layer_plan* plain = nullptr;  // most others have what a ragged batch excludes
        if (draw.one_in(2)) gnomon_layer_plan_create(&plain);
        if (plain) gnomon_layer_plan_set_mask(plain, GNOMON_CAUSAL, -1, -1, -1);
        count("attention_ragged", gnomon_attention_ragged(draw.one_in(60) ? nullptr : &input,
                                                          draw.one_in(60) ? nullptr : &batch,
                                                          plain ? plain : plans_.one(draw),
                                                          tensor(Kind::f32, {b, t, h, dv}),
                                                          maybe(Kind::f32, {b, h, t})));
        return gnomon_layer_plan_destroy(plain);
      }
      if (draw.one_in(6))
        return count("ragged_positions",
                     gnomon_ragged_positions(maybe(Kind::i64, {b + 1}), maybe(Kind::i64, {b}),
                                             maybe(Kind::i64, {b}), tensor(Kind::i64, {b, t}),
                                             maybe(Kind::i32, {b, t})));
      return count(
          "attention",
          gnomon_attention(draw.one_in(60) ? nullptr : &input, plans_.one(draw),
                           tensor(Kind::f32, {b, t, h, dv}), maybe(Kind::f32, {b, h, t})));
    case 26:
      if (draw.one_in(2)) {
        count("plan_gradient_create", gnomon_plan_gradient_create(out(gradient)));
        return gradients_.add(draw, gradient);
      }
      return count("plan_gradient_bias",
                   gnomon_plan_gradient_bias(
                       gradients_.one(draw),
                       draw.one_in(2) ? tensor(Kind::f64, {h}) : tensor(Kind::f64, {h, s})));
    case 28: {
      const auto run = [](void*, int64_t all, gnomon_task task, void* data) {
        for (int64_t i = 0; i < all; ++i) task(data, i);
      };
      count("set_executor",
            gnomon_set_executor(draw.one_in(2) ? run : gnomon_run{}, nullptr, draw.code()));
      return;
    }
    case 29:
      count("set_threads", gnomon_set_threads(draw.code()));
      EXPECT_GE(gnomon_threads(), 1);
      return;
    default: {
      const gnomon_attention_gradient to{
          draw.size_of<gnomon_attention_gradient>(),
          tensor(Kind::f32, {b, t, h, d}),
          tensor(Kind::f32, {b, s, hk, d}),
          tensor(Kind::f32, {b, s, hk, dv}),
          gradients_.one(draw),
          draw.one_in(4) ? tensor(Kind::f32, {b, h, t, s}) : nullptr,
          draw.one_in(6) ? tensor(Kind::f32, {b, h, t}) : nullptr,
          draw.one_in(6) ? tensor(Kind::f64, {h}) : nullptr};
      return count("attention_backward",
                   gnomon_attention_backward(
                       &input, plans_.one(draw), tensor(Kind::f32, {b, t, h, dv}),
                       tensor(Kind::f32, {b, h, t}), tensor(Kind::f32, {b, t, h, dv}),
                       draw.one_in(60) ? nullptr : &to));
    }
  }
}

inline void Attack::others(int which) {
  gnomon_terms* terms = nullptr;
  gnomon_context* context = nullptr;
  const int64_t b = draw.below(3), t = draw.below(5), h = 1 + draw.below(2);
  const auto run = [](void*, int64_t all, gnomon_task task, void* data) {
    for (int64_t i = 0; i < all; ++i) task(data, i);
  };
  switch (which) {
    case 30:
      count("terms_create", gnomon_terms_create(out(terms)));
      return terms_.add(draw, terms);
    case 31:
    case 32: {
      const std::vector<std::vector<int64_t>> shapes = {{b, h, t}, {b, t, h, 2}};
      return count("terms_set",
                   gnomon_terms_set(terms_.one(draw),
                                    draw.of<const char*>({"gates", "log_gates", "angles",
                                                          "edge_keys", "no such", nullptr}),
                                    tensor(Kind::f32, draw.of(shapes))));
    }
    case 33:
      return count("prepare_with",
                   gnomon_prepare_with(
                       tensor(Kind::any, {b, t, h, 4}), maybe(Kind::any, {b, t, h, 4}), nullptr,
                       plans_.one(draw), draw.one_in(2) ? nullptr : terms_.one(draw)));
    case 34:
      return count("layer_plan_round_weights",
                   gnomon_layer_plan_round_weights(plans_.one(draw), draw.code()));
    case 35:
      if (draw.one_in(2))
        count("context_create", gnomon_context_create(draw.code(), out(context)));
      else
        count("context_create_on",
              gnomon_context_create_on(draw.one_in(8) ? gnomon_run{} : run, nullptr,
                                       draw.code(), out(context)));
      return contexts_.add(draw, context);
    case 36:
      gnomon_context_use(contexts_.one(draw));
      gnomon_context_kept_bytes(contexts_.one(draw));
      if (draw.one_in(4)) gnomon_context_release(contexts_.one(draw));
      for (const char* name : {"context_use", "context_kept_bytes", "context_release"})
        count(name);
      return;
    default:
      EXPECT_GE(gnomon_frequencies_count(frequencies_.one(draw)), 0);
      EXPECT_GT(gnomon_version_number(), 0);
      EXPECT_NE(*gnomon_version(), 0);
      EXPECT_NE(*gnomon_isa(), 0);
      EXPECT_GE(gnomon_threads(), 1);
      for (const char* name :
           {"frequencies_count", "version_number", "version", "isa", "threads"})
        count(name);
  }
}

}  // namespace drawn
}  // namespace gnomon
