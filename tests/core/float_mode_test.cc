// The mode of floating-point arithmetic of the caller changes no result and stays as it is:
// rounding, denormal numbers flushed to zero, traps. Also on threads that started in it.
#include "src/core/float_mode.h"

#include <gtest/gtest.h>

#include <cfenv>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "c/placed.h"
#include "gnomon.h"
#include "gnomon/attention/attention.h"
#include "gnomon/bias/form.h"
#include "gnomon/context.h"
#include "gnomon/rotary/rotary.h"
#include "gnomon_context.h"
#include "testing.h"

namespace gnomon {
namespace float_mode_test {

using drawn::Placed;
using drawn::Type;

using Bits = std::vector<double>;

// A mode, which ends with the object.
class Mode {
 public:
  using Set = void (*)();
  explicit Mode(Set set) {
    std::fegetenv(&before_);
    set();
  }
  ~Mode() { std::fesetenv(&before_); }

 private:
  std::fenv_t before_;
};

#if defined(__x86_64__)
unsigned now() { return _mm_getcsr() & ~0x3Fu; }  // without flags
void flush() { _mm_setcsr(_mm_getcsr() | 0x8040); }
void trap() { _mm_setcsr(_mm_getcsr() & ~0x1F80u); }
#elif defined(__aarch64__)
std::uint64_t now() {
  std::uint64_t mode = 0;
  __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
  return mode;
}
void flush() { __asm__ volatile("msr fpcr, %0" : : "r"(now() | std::uint64_t{1} << 24)); }
void trap() {}  // few processors have traps
#else
int now() { return std::fegetround(); }
void flush() {}
void trap() {}
#endif

struct Named {
  const char* name;
  Mode::Set set;
};
const Named modes[] = {{"rounds upward", [] { std::fesetround(FE_UPWARD); }},
                       {"rounds downward", [] { std::fesetround(FE_DOWNWARD); }},
                       {"rounds toward zero", [] { std::fesetround(FE_TOWARDZERO); }},
                       {"flushes denormal numbers", flush},
                       {"traps", trap}};

void add(Bits& all, const Placed& one) {
  for (const double value : one.values()) all.push_back(value);
}

// Numbers of which some are denormal in each type.
Placed::Element numbers(Type type, int seed) {
  return [type, n = seed]() mutable {
    ++n;
    return n % 3 ? std::sin(n) : std::ceil(9 * std::sin(n)) * drawn::least_number(type);
  };
}

constexpr std::int64_t batch = 2, tokens = 300, heads = 4, size = 16;

// Makes the calls in a mode, and checks that it is as before afterwards.
void in_mode(Mode::Set set, const std::function<void()>& calls) {
  const Mode mode(set);
  const auto before = now();
  calls();
  EXPECT_EQ(now(), before);
}
void ok(gnomon_status status) { EXPECT_EQ(status, GNOMON_OK) << gnomon_error_message(); }

// Results of the C API, whose calls compute in the default mode as a whole. The arguments are
// made before, in the default mode.
Bits results_of_c(Mode::Set set) {
  Bits all;
  gnomon_rotary_spec spec{.size = sizeof spec,
                          .rotary_dim = size,
                          .pairing = GNOMON_HALVES,
                          .base = 500000,
                          .head_offset = 0};
  gnomon_frequencies* frequencies = nullptr;
  gnomon_rotary_table* table = nullptr;
  Placed inverse(Type::f64, {size / 2}), slopes(Type::f64, {heads}),
      ids(Type::i64, {tokens}, [n = 0.0]() mutable { return 7 * n++; }),
      normal(Type::f32, {1000}), bias(Type::f32, {heads, 9, 9});
  gnomon_layer_plan* plan = nullptr;
  gnomon_encoding* encoding = nullptr;
  char* json = nullptr;
  const char* const text =
      R"({"kind": "rotary", "rotary_dim": 6, "pairing": "halves", "base": 12345.678901234567})";
  in_mode(set, [&] {
    ok(gnomon_frequencies_create(&spec, &frequencies));
    ok(gnomon_frequencies_get(frequencies, inverse.get()));
    ok(gnomon_rotary_table_create(frequencies, ids.get(), &table));
    ok(gnomon_layer_plan_create(&plan));
    ok(gnomon_layer_plan_set_mask(plan, GNOMON_CAUSAL, -1, -1, -1));
    ok(gnomon_alibi_slopes(heads, 0, slopes.get()));
    ok(gnomon_layer_plan_set_slopes(plan, slopes.get()));
    ok(gnomon_layer_plan_bias(plan, 0, bias.get()));
    ok(gnomon_normal(5, normal.get()));
    ok(gnomon_encoding_from_json(text, &encoding));
    ok(gnomon_encoding_to_json(encoding, &json));
  });
  for (const Placed* one : {&inverse, &slopes, &normal, &bias}) add(all, *one);
  all.insert(all.end(), json, json + std::strlen(json));
  for (const Type type : {Type::f32, Type::f64, Type::f16, Type::bf16}) {
    Placed q(type, {batch, tokens, heads, size}, numbers(type, 1)),
        k(type, {batch, tokens, heads, size}, numbers(type, 2)), cos(type, {tokens, size / 2}),
        sin(type, {tokens, size / 2}), x(type, {batch, tokens, size}, numbers(type, 3)),
        added(Type::f32, {tokens, size}, numbers(Type::f32, 4)),
        out(type, {batch, tokens, heads, size}), sinusoidal(type, {tokens, size});
    gnomon_attention_input input{};
    input.size = sizeof input;
    input.q = q.get(), input.k = input.v = k.get();
    in_mode(set, [&] {
      ok(gnomon_rotate(q.get(), k.get(), table, GNOMON_FORWARD));
      ok(gnomon_cos_sin(ids.get(), frequencies, cos.get(), sin.get()));
      ok(gnomon_add_table(x.get(), added.get(), 0.3f));
      ok(gnomon_sinusoidal(ids.get(), GNOMON_INTERLEAVED, 0, sinusoidal.get()));
      ok(gnomon_attention(&input, plan, out.get(), nullptr));
    });
    for (const Placed* one : {&q, &k, &cos, &sin, &x, &out, &sinusoidal}) add(all, *one);
  }
  spec.base = -0.1234567890123456789;
  in_mode(set, [&] {
    gnomon_frequencies* none = nullptr;
    EXPECT_EQ(gnomon_frequencies_create(&spec, &none), GNOMON_INVALID_ARGUMENT);
  });
  const std::string message = gnomon_error_message();
  all.insert(all.end(), message.begin(), message.end());
  gnomon_free(json);
  gnomon_encoding_destroy(encoding);
  gnomon_layer_plan_destroy(plan);
  gnomon_rotary_table_destroy(table);
  gnomon_frequencies_destroy(frequencies);
  return all;
}

// Results of kernels, through C++ functions. Their plans are made in the default mode.
Bits results_of_kernels(Mode::Set set) {
  const RotaryTable table({.rotary_dim = size, .pairing = Pairing::adjacent},
                          testing::iota(0, tokens));
  const AttentionPlan plan{.mask = {.visibility = Visibility::causal},
                           .bias = SlopeBias{{0.5, 0.25, 0.125, 0.1}}};
  auto q = testing::random_tensor<float, 4>({batch, tokens, heads, size}, 1), k = q, out = q;
  for (std::size_t i = 0; i < k.values.size(); i += 3) k.values[i] *= 0x1p-140f;
  testing::Tensor<float, 3> bias({heads, 40, 40});
  in_mode(set, [&] {
    rotate(q.view(), k.view(), table);
    attention({q.view(), k.view(), k.view()}, plan, out.view());
    dense(plan.bias, 0, bias.view());
  });
  Bits all;
  for (const auto* values : {&q.values, &k.values, &out.values, &bias.values})
    all.insert(all.end(), values->begin(), values->end());
  return all;
}

void standard() {}

TEST(FloatMode, OfTheCallerChangesNoBitOfTheCApi) {
  const Bits expected = results_of_c(standard);
  for (const Named& one : modes) EXPECT_TRUE(results_of_c(one.set) == expected) << one.name;
}

TEST(FloatMode, OfTheCallerChangesNoBitOfKernels) {
  const Bits expected = results_of_kernels(standard);
  for (const Named& one : modes)
    EXPECT_TRUE(results_of_kernels(one.set) == expected) << one.name;
}

// Until the other threads have woken up.
void pause() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

// The threads of a pool have the mode of the thread that started them.
TEST(FloatMode, OfThreadsOfAPoolIsTheDefaultOne) {
  const Bits expected = results_of_kernels(standard);
  const auto mode_before = now();
  for (const Named& one : modes) {
    SCOPED_TRACE(one.name);
    Context context = Context::with_threads(3);
    const ContextScope scope(context);
    in_mode(one.set, [] { parallel_for(30, 1, [](std::int64_t, std::int64_t) { pause(); }); });
    std::vector<int> wrong(30);
    parallel_for(30, 1, [&](std::int64_t i, std::int64_t) {
      pause();
      wrong[static_cast<std::size_t>(i)] = now() != mode_before;
    });
    EXPECT_EQ(wrong, std::vector<int>(30));
    EXPECT_TRUE(results_of_kernels(standard) == expected);
  }
}

TEST(FloatMode, IsAsBeforeAfterADefaultMode) {
  for (const Named& one : modes) {
    const auto standard = now();
    const Mode mode(one.set);
    const auto before = now();
    {
      const internal::DefaultFloatMode inner;
      EXPECT_EQ(now(), standard) << one.name;
    }
    EXPECT_EQ(now(), before) << one.name;
  }
}

}  // namespace float_mode_test
}  // namespace gnomon
