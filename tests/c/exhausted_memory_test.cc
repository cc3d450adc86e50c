// Every function of gnomon.h in gnomon::core when memory is exhausted: a status, never the end
// of the process, and after GNOMON_OUT_OF_MEMORY each object is as before the call.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "c/exhaustion.h"
#include "gnomon_context.h"
#include "gnomon_ragged.h"

namespace gnomon {
namespace c_exhausted_memory_test {

using drawn::Placed;
using drawn::Type;
using std::int64_t;
using namespace exhaustion;

class ExhaustedMemoryOfC : public Exhaustion {};

// Whether a function belongs to the second test, of the plan of a layer.
bool is_of_layer(const std::string& name) {
  for (const char* part : {"plan", "attention", "prepare", "terms", "add_position", "alibi"})
    if (name.find(part) != std::string::npos) return true;
  return false;
}

void run_here(void*, int64_t count, gnomon_task task, void* data) {
  for (int64_t i = 0; i < count; ++i) task(data, i);
}

TEST_F(ExhaustedMemoryOfC, RotationsAndTables) {
  const auto one = frequencies();
  const gnomon_rotary_spec spec{.size = sizeof spec,
                                .rotary_dim = size,
                                .pairing = GNOMON_HALVES,
                                .base = 0,
                                .head_offset = 0};
  Placed inverse(Type::f64, {size / 2}, numbers()), of_axes(Type::i32, {size / 2});
  call("frequencies_get", [&] { return gnomon_frequencies_get(one.get(), inverse.get()); });
  quiet("frequencies_count", [&] { gnomon_frequencies_count(one.get()); });
  make<gnomon_frequencies>(
      "frequencies_from",
      [&](gnomon_frequencies** out) {
        return gnomon_frequencies_from(&spec, inverse.get(), of_axes.get(), 1, out);
      },
      gnomon_frequencies_destroy);
  const auto rows = table(one.get(), tokens);
  Placed cos(Type::f32, {1, tokens, size / 2}), sin(Type::f32, {1, tokens, size / 2});
  call("rotary_table_get",
       [&] { return gnomon_rotary_table_get(rows.get(), cos.get(), sin.get()); });
  Placed positions(Type::i64, {tokens}, counting()), c(Type::f16, {tokens, size / 2}),
      s(Type::f16, {tokens, size / 2});
  call("cos_sin", [&] { return gnomon_cos_sin(positions.get(), one.get(), c.get(), s.get()); });
  Placed q(Type::bf16, {batch, tokens, heads, size}, numbers()),
      k(Type::bf16, {batch, tokens, key_heads, size}, numbers()),
      to(Type::bf16, {batch, tokens, heads, size}),
      slot(Type::i8, {batch, tokens, key_heads, size}),
      scales(Type::f32, {batch, tokens, key_heads});
  in_place("rotate", {&q, &k},
           [&] { return gnomon_rotate(q.get(), k.get(), rows.get(), GNOMON_FORWARD); });
  call("rotate_to",
       [&] { return gnomon_rotate_to(q.get(), rows.get(), GNOMON_INVERSE, to.get()); });
  in_place("rotate_at", {&q, &k},
           [&] { return gnomon_rotate_at(q.get(), k.get(), positions.get(), one.get()); });
  call("append", [&] { return gnomon_append(k.get(), rows.get(), slot.get(), scales.get()); });
  in_place("shift_keys", {&k}, [&] { return gnomon_shift_keys(k.get(), one.get(), 7); });
  constexpr int64_t width = heads * size;
  Placed x(Type::bf16, {batch, tokens, width}, numbers()), added(Type::f32, {tokens, width}),
      ids(Type::i64, {batch, tokens});
  call("sinusoidal",
       [&] { return gnomon_sinusoidal(positions.get(), GNOMON_HALF_SPLIT, 0, added.get()); });
  in_place("add_table", {&x}, [&] { return gnomon_add_table(x.get(), added.get(), 1); });
  in_place("add_rows", {&x}, [&] { return gnomon_add_rows(x.get(), added.get(), ids.get()); });
  in_place("add_rows_backward", {&added},
           [&] { return gnomon_add_rows_backward(x.get(), ids.get(), added.get()); });
  Placed starts(Type::i64, {3}, [n = 0.0]() mutable { return 20 * n++; }),
      row_ids(Type::i64, {1, 40});
  call("ragged_positions", [&] {
    return gnomon_ragged_positions(starts.get(), nullptr, nullptr, row_ids.get(), nullptr);
  });
  call("set_threads", [] { return gnomon_set_threads(2); });
  quiet("threads", [] { gnomon_threads(); });
  call("set_executor", [] { return gnomon_set_executor(run_here, nullptr, 3); });
  gnomon_set_executor(nullptr, nullptr, 0);
  quiet("error_message", [] { gnomon_error_message(); });
  quiet("version", [] { gnomon_version(); });
  quiet("version_number", [] { gnomon_version_number(); });
  quiet("isa", [] { gnomon_isa(); });
  // The message may be lost, the status may not.
  gnomon_frequencies* none = nullptr;
  call(
      "frequencies_create", [&] { return gnomon_frequencies_create(nullptr, &none); },
      [&] { return none == nullptr; }, {}, GNOMON_INVALID_ARGUMENT);

  const auto contexts = [&](const char* name, const auto& function) {
    return make<gnomon_context>(name, function, gnomon_context_destroy);
  };
  const auto pool = contexts(
      "context_create", [](gnomon_context** out) { return gnomon_context_create(2, out); });
  const auto own = contexts("context_create_on", [](gnomon_context** out) {
    return gnomon_context_create_on(run_here, nullptr, 2, out);
  });
  for (gnomon_context* context : {pool.get(), own.get()}) {
    quiet("context_use", [&] { gnomon_context_use(context); });
    in_place("rotate", {&q, &k},
             [&] { return gnomon_rotate(q.get(), k.get(), rows.get(), GNOMON_FORWARD); });
    quiet("context_kept_bytes", [&] { gnomon_context_kept_bytes(context); });
    quiet("context_release", [&] { gnomon_context_release(context); });
  }
  quiet("context_destroy", [] {
    gnomon_context_use(nullptr);
    gnomon_context_destroy(nullptr);
  });
  quiet("free", [] { gnomon_free(nullptr); });
  quiet("frequencies_destroy", [] { gnomon_frequencies_destroy(nullptr); });
  quiet("rotary_table_destroy", [] { gnomon_rotary_table_destroy(nullptr); });
  for (const std::string& name : testing::declared_functions("gnomon.h"))
    if (!is_of_layer(name)) expect(name);
  for (const std::string& name : testing::declared_functions("gnomon_context.h")) expect(name);
}

TEST_F(ExhaustedMemoryOfC, LayersAndAttention) {
  const auto one = frequencies();
  const auto rows = table(one.get(), tokens);
  const auto owned = make<gnomon_layer_plan>("layer_plan_create", gnomon_layer_plan_create,
                                             gnomon_layer_plan_destroy);
  gnomon_layer_plan* const plan = owned.get();
  constexpr int64_t most = 2 * tokens - 1;
  Placed q(Type::f32, {batch, tokens, heads, size}, numbers()),
      k(Type::f32, {batch, tokens, key_heads, size}, numbers()),
      v(Type::f32, {batch, tokens, key_heads, size}, numbers()),
      out(Type::f32, {batch, tokens, heads, size}), lse(Type::f32, {batch, heads, tokens}),
      q_grad(Type::f32, {batch, tokens, heads, size}),
      k_grad(Type::f32, {batch, tokens, key_heads, size}),
      v_grad(Type::f32, {batch, tokens, key_heads, size}),
      gates(Type::f32, {batch, heads, tokens}, numbers()), sinks(Type::f64, {heads}, numbers()),
      slopes(Type::f64, {heads}, numbers()), strip(Type::f64, {heads, most}, numbers()),
      dense(Type::f32, {batch, heads, tokens, tokens}, numbers()),
      bias(Type::f32, {heads, tokens, tokens}), ids(Type::i64, {1, tokens}, counting()),
      packs(Type::i32, {1, tokens}), x(Type::f32, {batch, tokens, heads * size}, numbers());
  gnomon_attention_input input{};
  input.size = sizeof input;
  input.q = q.get(), input.k = k.get(), input.v = v.get();
  // The output of attention shows the whole plan.
  const auto observe = [&]() -> std::vector<double> {
    if (gnomon_attention(&input, plan, out.get(), lse.get()) != GNOMON_OK)
      return {static_cast<double>(std::string(gnomon_error_message()).size())};
    return out.values();
  };
  // A call that sets a part of the plan. first: sets it to something else.
  const auto set = [&](const char* name, const std::function<gnomon_status()>& function,
                       const std::function<gnomon_status()>& first) {
    const auto prepare = [&] { EXPECT_EQ(first(), GNOMON_OK) << gnomon_error_message(); };
    prepare();
    const std::vector<double> before = observe();
    call(name, function, [&] { return observe() == before; }, prepare);
  };
  const auto mask = [&] { return gnomon_layer_plan_set_mask(plan, GNOMON_CAUSAL, -1, -1, -1); };
  const auto no_bias = [&] { return gnomon_layer_plan_set_slopes(plan, slopes.get()); };
  set("layer_plan_set_mask", mask,
      [&] { return gnomon_layer_plan_set_mask(plan, GNOMON_BIDIRECTIONAL, 0, 3, 3); });
  set(
      "layer_plan_set_softmax",
      [&] { return gnomon_layer_plan_set_softmax(plan, 0.2, 20, sinks.get()); },
      [&] { return gnomon_layer_plan_set_softmax(plan, NAN, 0, nullptr); });
  set(
      "layer_plan_round_weights", [&] { return gnomon_layer_plan_round_weights(plan, 0); },
      [&] { return gnomon_layer_plan_round_weights(plan, 1); });
  set(
      "layer_plan_set_rotary",
      [&] { return gnomon_layer_plan_set_rotary(plan, rows.get(), rows.get()); },
      [&] { return gnomon_layer_plan_set_rotary(plan, nullptr, nullptr); });
  set(
      "layer_plan_set_strip",
      [&] { return gnomon_layer_plan_set_strip(plan, strip.get(), 1 - tokens); }, no_bias);
  set(
      "layer_plan_set_dense", [&] { return gnomon_layer_plan_set_dense(plan, dense.get()); },
      no_bias);
  set("layer_plan_set_slopes", no_bias,
      [&] { return gnomon_layer_plan_set_strip(plan, strip.get(), 1 - tokens); });
  Placed twice(Type::i64, {1, tokens}, [n = 0.0]() mutable { return 2 * n++; });
  set(
      "layer_plan_set_positions",
      [&] {
        return gnomon_layer_plan_set_positions(plan, ids.get(), packs.get(), ids.get(),
                                               packs.get());
      },
      [&] {
        return gnomon_layer_plan_set_positions(plan, twice.get(), packs.get(), ids.get(),
                                               packs.get());
      });
  call("alibi_slopes", [&] { return gnomon_alibi_slopes(heads, 0, slopes.get()); });
  call("layer_plan_bias", [&] { return gnomon_layer_plan_bias(plan, 0, bias.get()); });
  const auto attend = [&] {
    call("attention", [&] { return gnomon_attention(&input, plan, out.get(), lse.get()); });
  };
  attend();
  Placed weights(Type::f64, {batch, heads, tokens, tokens});
  call("attention_weights",
       [&] { return gnomon_attention_weights(&input, plan, weights.get(), nullptr); });
  const auto gradient = make<gnomon_plan_gradient>(
      "plan_gradient_create", gnomon_plan_gradient_create, gnomon_plan_gradient_destroy);
  Placed sinks_grad(Type::f64, {heads}), bias_grad(Type::f64, {heads});
  gnomon_attention_gradient to{};
  to.size = sizeof to;
  to.q = q_grad.get(), to.k = k_grad.get(), to.v = v_grad.get();
  to.plan = gradient.get(), to.sinks = sinks_grad.get();
  call("attention_backward", [&] {
    return gnomon_attention_backward(&input, plan, out.get(), lse.get(), out.get(), &to);
  });
  call("plan_gradient_bias",
       [&] { return gnomon_plan_gradient_bias(gradient.get(), bias_grad.get()); });

  // A plan that has moved its rotation cannot be set back.
  gnomon_layer_plan* moved = nullptr;
  const auto renew = [&] {
    gnomon_layer_plan_destroy(moved), moved = nullptr;
    gnomon_layer_plan_create(&moved);
    gnomon_layer_plan_set_mask(moved, GNOMON_CAUSAL, -1, -1, -1);
    EXPECT_EQ(gnomon_layer_plan_set_rotary(moved, rows.get(), rows.get()), GNOMON_OK);
  };
  renew();
  const auto rotated = [&] {
    EXPECT_EQ(gnomon_attention(&input, moved, out.get(), nullptr), GNOMON_OK);
    return out.values();
  };
  const std::vector<double> of_rotated = rotated();
  call(
      "layer_plan_rotate_in_prepare",
      [&] { return gnomon_layer_plan_rotate_in_prepare(moved); },
      [&] { return rotated() == of_rotated; }, renew);
  gnomon_layer_plan_destroy(moved);
  const auto again = make<gnomon_layer_plan>("layer_plan_create", gnomon_layer_plan_create,
                                             gnomon_layer_plan_destroy);
  gnomon_layer_plan_set_rotary(again.get(), rows.get(), rows.get());
  gnomon_layer_plan_rotate_in_prepare(again.get());
  in_place("prepare", {&q, &k, &v},
           [&] { return gnomon_prepare(q.get(), k.get(), v.get(), again.get()); });
  in_place("prepare_with", {&q, &k, &v}, [&] {
    return gnomon_prepare_with(q.get(), k.get(), v.get(), again.get(), nullptr);
  });
  in_place("prepare_input", {&x},
           [&] { return gnomon_prepare_input(x.get(), again.get(), heads); });
  in_place("add_position", {&x}, [&] { return gnomon_add_position(x.get(), again.get()); });
  const auto terms =
      make<gnomon_terms>("terms_create", gnomon_terms_create, gnomon_terms_destroy);
  EXPECT_EQ(gnomon_layer_plan_set_slopes(plan, slopes.get()), GNOMON_OK);
  input.terms = terms.get();
  Placed ones(Type::f32, {batch, heads, tokens}, [] { return 1.0; });
  set(
      "terms_set", [&] { return gnomon_terms_set(terms.get(), "gates", gates.get()); },
      [&] { return gnomon_terms_set(terms.get(), "gates", ones.get()); });
  attend();

  const auto ragged_plan = make<gnomon_layer_plan>(
      "layer_plan_create", gnomon_layer_plan_create, gnomon_layer_plan_destroy);
  gnomon_layer_plan_set_mask(ragged_plan.get(), GNOMON_CAUSAL, -1, -1, -1);
  input.terms = nullptr;
  Placed lengths(Type::i64, {batch}, [n = 100.0]() mutable { return n++; });
  gnomon_ragged_batch ragged{};
  ragged.size = sizeof ragged;
  ragged.query_lengths = ragged.key_lengths = lengths.get();
  call("attention_ragged", [&] {
    return gnomon_attention_ragged(&input, &ragged, ragged_plan.get(), out.get(), lse.get());
  });
  quiet("layer_plan_destroy", [] { gnomon_layer_plan_destroy(nullptr); });
  quiet("plan_gradient_destroy", [] { gnomon_plan_gradient_destroy(nullptr); });
  quiet("terms_destroy", [] { gnomon_terms_destroy(nullptr); });
  for (const std::string& name : testing::declared_functions("gnomon.h"))
    if (is_of_layer(name)) expect(name);
  expect("gnomon_attention_ragged");
}

}  // namespace c_exhausted_memory_test
}  // namespace gnomon
