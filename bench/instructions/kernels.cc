// Runs one kernel a number of times, for an instruction counter. `tools/instructions.sh` lets
// callgrind count only inside `gnomon_counted`, so the set-up is not counted.
//
//   gnomon_instructions                     lists the kernels, with their elements per run
//   gnomon_instructions --compiler          prints the compiler
//   gnomon_instructions rotate_f32_halves 3
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <numeric>
#include <span>
#include <string_view>
#include <vector>

#include "gnomon/angles.h"
#include "gnomon/attention/attention.h"
#include "gnomon/bias/alibi.h"
#include "gnomon/bias/form.h"
#include "gnomon/bias/t5.h"
#include "gnomon/embedding/sinusoidal.h"
#include "gnomon/embedding/table.h"
#include "gnomon/rotary/cached_keys.h"
#include "gnomon/rotary/rotary.h"
#include "gnomon/view.h"

namespace gnomon {
namespace {

using Index = std::int64_t;
using Run = std::function<void()>;

struct Kernel {
  std::string_view name;
  Index elements;  // written by one run
  std::function<Run()> prepare;
};

// Starts on a cache line, so that the sizes of other arrays do not change what a kernel
// executes. Filled with numbers between -1 and 1.
template <typename T, std::size_t Rank>
class Array {
 public:
  explicit Array(std::array<std::ptrdiff_t, Rank> extents) : view_(nullptr, extents) {
    const auto size = static_cast<std::size_t>(view_.size());
    values_.reset(static_cast<T*>(::operator new(size * sizeof(T), line)));
    for (std::size_t i = 0; i < size; ++i)
      values_.get()[i] = static_cast<T>(static_cast<float>(i % 127) / 64 - 1);
    view_ = {values_.get(), extents};
  }
  View<T, Rank> view() const { return view_; }

 private:
  static constexpr std::align_val_t line{64};
  struct Free {
    void operator()(T* values) const { ::operator delete(values, line); }
  };
  std::unique_ptr<T, Free> values_;
  View<T, Rank> view_;
};

template <typename T, std::size_t Rank>
std::shared_ptr<Array<T, Rank>> array(std::array<std::ptrdiff_t, Rank> extents) {
  return std::make_shared<Array<T, Rank>>(extents);
}

std::vector<Index> consecutive(Index first, Index count) {
  std::vector<Index> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

constexpr Index tokens = 16, query_heads = 32, key_heads = 8;
constexpr Index rotated(Index size) { return (query_heads + key_heads) * size; }

enum class Layout { bthd = 1, bhtd };

template <typename T>
View<T, 4> laid_out(const Array<T, 4>& x, Layout layout) {
  if (layout == Layout::bthd) return x.view();
  const auto [batch, count, heads, size] = x.view().extents();
  return {x.view().data(), {batch, count, heads, size}, {0, size, count * size, 1}};
}

struct Rotated {
  Pairing pairing = Pairing::halves;
  Index tokens = gnomon::tokens, size = 128;
  Layout layout = Layout::bthd;

  RotaryTable table() const {
    return RotaryTable(Rotary{.rotary_dim = size, .pairing = pairing}, consecutive(0, tokens));
  }
};

template <typename T>
Run turns(const Rotated& how, Direction direction = Direction::forward) {
  auto q = array<T, 4>({1, how.tokens, query_heads, how.size});
  auto k = array<T, 4>({1, how.tokens, key_heads, how.size});
  return [q, k, direction, table = how.table(), layout = how.layout] {
    rotate(laid_out(*q, layout), laid_out(*k, layout), table, direction);
  };
}

Run out_of_place() {
  auto x = array<float, 4>({1, tokens, query_heads, 128});
  auto out = array<float, 4>({1, tokens, query_heads, 128});
  return [=, table = Rotated{}.table()] {
    rotate(x->view(), table, Direction::forward, out->view());
  };
}

Run append() {
  auto k = array<float, 4>({1, tokens, key_heads, 128});
  auto slot = array<Half, 4>({1, tokens, key_heads, 128});
  return [=, table = Rotated{}.table()] { rotate_append(k->view(), table, slot->view()); };
}

Run cos_sin(Index positions) {
  auto values = array<float, 3>({2, positions, 64});
  const auto inv_freq = inverse_frequencies({.rotary_dim = 128, .pairing = Pairing::halves});
  return [=, at = consecutive(1000, positions)] {
    fill_cos_sin(std::span<const Index>(at), std::span<const double>(inv_freq),
                 values->view()[0], values->view()[1]);
  };
}

Run sinusoidal() {
  auto out = array<float, 2>({256, 128});
  return [=, at = consecutive(0, 256)] {
    fill({.width = 128, .recipe = SinusoidalRecipe::interleaved}, std::span<const Index>(at),
         out->view());
  };
}

template <typename T>
Run table_added() {
  auto x = array<T, 3>({2, 64, 256});
  auto table = array<float, 2>({64, 256});
  return [=] { add_table(x->view(), View<const float, 2>(table->view())); };
}

Run t5_strip() {
  auto table = array<float, 2>({32, 16});
  return [=] {
    lower(T5Bias{.heads = 16, .direction = T5Direction::bidirectional}, table->view(), -255,
          511);
  };
}

Run bias_added(const BiasForm& form) {
  auto scores = array<float, 3>({8, 64, 64});
  return [=] { add_bias(scores->view(), form, 0); };
}

struct Attended {
  std::shared_ptr<Array<float, 4>> q = array<float, 4>({1, 64, 4, 64}),
                                   k = array<float, 4>({1, 64, 2, 64}),
                                   v = array<float, 4>({1, 64, 2, 64}),
                                   out = array<float, 4>({1, 64, 4, 64});
  std::shared_ptr<Array<float, 3>> lse = array<float, 3>({1, 4, 64});
  AttentionPlan plan = {.mask = {.visibility = Visibility::causal}};

  void forward() const {
    attention({q->view(), k->view(), v->view()}, plan, out->view(), lse->view());
  }
};

Run attended() {
  return [given = Attended()] { given.forward(); };
}

Run attended_backward() {
  Attended given;
  given.forward();
  auto out_grad = array<float, 4>(given.q->view().extents()),
       q_grad = array<float, 4>(given.q->view().extents());
  auto k_grad = array<float, 4>(given.k->view().extents()),
       v_grad = array<float, 4>(given.k->view().extents());
  return [=] {
    attention_backward({given.q->view(), given.k->view(), given.v->view()}, given.plan,
                       given.out->view(), given.lse->view(), out_grad->view(),
                       {.q = q_grad->view(), .k = k_grad->view(), .v = v_grad->view()});
  };
}

std::vector<Kernel> kernels() {
  constexpr Pairing adjacent = Pairing::adjacent;
  constexpr Index all = tokens * rotated(128);
  return {
      {"rotate_f32_halves", all, [] { return turns<float>({}); }},
      {"rotate_f32_adjacent", all, [] { return turns<float>({adjacent}); }},
      {"rotate_f64_halves", all, [] { return turns<double>({}); }},
      {"rotate_f16_halves", all, [] { return turns<Half>({}); }},
      {"rotate_f16_adjacent", all, [] { return turns<Half>({adjacent}); }},
      {"rotate_bf16_halves", all, [] { return turns<BFloat16>({}); }},
      {"rotate_bf16_adjacent", all, [] { return turns<BFloat16>({adjacent}); }},
      {"rotate_f32_one_token", rotated(128), [] { return turns<float>({.tokens = 1}); }},
      {"rotate_f32_bhtd", all, [] { return turns<float>({.layout = Layout::bhtd}); }},
      {"rotate_f32_size_80", tokens * rotated(80), [] { return turns<float>({.size = 80}); }},
      {"rotate_f32_out_of_place", tokens * query_heads * 128, out_of_place},
      {"rotate_backward_f32", all, [] { return turns<float>({}, Direction::inverse); }},
      {"rotate_append_f32_f16", tokens * key_heads * 128, append},
      {"cos_sin_512_positions", 512 * 64 * 2, [] { return cos_sin(512); }},
      {"cos_sin_one_position", 64 * 2, [] { return cos_sin(1); }},
      {"sinusoidal_fill", 256 * 128, sinusoidal},
      {"add_table_f32", 2 * 64 * 256, table_added<float>},
      {"add_table_bf16", 2 * 64 * 256, table_added<BFloat16>},
      {"alibi_strip", 32 * 512,
       [] { return Run([] { lower(Alibi{.heads = 32}, -511, 512); }); }},
      {"t5_strip", 16 * 511, t5_strip},
      {"add_bias_slopes", 8 * 64 * 64, [] { return bias_added(lower(Alibi{.heads = 8})); }},
      {"add_bias_strip", 8 * 64 * 64,
       [] { return bias_added(lower(Alibi{.heads = 8}, -63, 127)); }},
      {"attention_forward", 64 * 4 * 64, attended},
      {"attention_backward", 64 * (4 + 2 + 2) * 64, attended_backward},
  };
}

const Kernel& find(const std::vector<Kernel>& all, std::string_view name) {
  for (const Kernel& kernel : all)
    if (kernel.name == name) return kernel;
  std::fprintf(stderr, "no kernel %s\n", name.data());
  std::exit(1);
}

}  // namespace
}  // namespace gnomon

extern "C" [[gnu::noinline]] void gnomon_counted(const gnomon::Run& run, int times) {
  for (int left = times; left > 0; --left) run();
}

int main(int count, char** arguments) {
  const auto all = gnomon::kernels();
  const std::string_view first = count > 1 ? arguments[1] : "";
  if (first == "--compiler") {
    std::puts(GNOMON_COMPILER);
  } else if (count == 3) {
    const gnomon::Run run = gnomon::find(all, first).prepare();
    run();  // not counted: the choice of the instruction set, the first pages of scratch
    gnomon_counted(run, std::atoi(arguments[2]));
  } else {
    for (const auto& kernel : all)
      std::printf("%s\t%lld\n", kernel.name.data(), static_cast<long long>(kernel.elements));
  }
}
