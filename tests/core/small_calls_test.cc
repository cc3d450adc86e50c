// Calls on fewer than 4096 elements start no thread (docs/threads.md).
#include <gtest/gtest.h>

#include <vector>

#include "gnomon/angles.h"
#include "gnomon/embedding/sinusoidal.h"
#include "gnomon/embedding/table.h"
#include "gnomon/parallel.h"
#include "gnomon/rotary/cached_keys.h"
#include "gnomon/rotary/decoding.h"
#include "gnomon/rotary/int8_keys.h"
#include "gnomon/rotary/rotary.h"
#include "testing.h"

namespace gnomon {
namespace small_calls_test {

using testing::random_tensor;
using testing::Tensor;

constexpr std::int64_t small = 4096;  // elements

// Counts the loops that start threads, and runs them on the calling thread.
class Loops {
 public:
  Loops() {
    set_executor(
        {.run =
             [](void* self, std::int64_t count, void (*task)(void*, std::int64_t), void* data) {
               ++static_cast<Loops*>(self)->count_;
               for (std::int64_t i = 0; i < count; ++i) task(data, i);
             },
         .context = this,
         .threads = 8});
    set_threads(8);  // on one core, tests before this one leave a limit of 1
  }
  ~Loops() {
    set_executor({});
    set_threads(before_);
  }
  int count() const { return count_; }

 private:
  int count_ = 0;
  int before_ = threads();
};

// Shapes [T, H, D] of fewer than `small` elements.
std::vector<std::array<std::ptrdiff_t, 3>> shapes() {
  return {{1, 1, 4094}, {1, 31, 128}, {31, 1, 128}, {3, 10, 128}, {127, 4, 8}, {2047, 1, 2}};
}

template <typename T>
void check_rotary() {
  for (const auto& shape : shapes()) {
    const auto [tokens, heads, size] = shape;
    const RotaryFrequencies frequencies =
        lower(Rotary{.rotary_dim = size, .pairing = Pairing::halves});
    const RotaryTable table(frequencies, consecutive(tokens).ids);
    auto x = random_tensor<T, 3>(shape);
    Tensor<T, 3> slot(shape);
    Tensor<std::int8_t, 3> bytes(shape);
    Tensor<float, 2> scales({tokens, heads});
    const Loops loops;
    rotate(x.view(), table);
    rotate(x.view(), table, Direction::inverse, slot.view());
    rotate_append(x.view(), table, slot.view());
    copy_append(x.view(), slot.view());
    rotate_append(x.view(), table, bytes.view(), scales.view());
    copy_append(x.view(), bytes.view(), scales.view());
    shift_keys(x.view(), frequencies, 1);
    EXPECT_EQ(loops.count(), 0) << tokens << " " << heads << " " << size;
  }
}

TEST(SmallCalls, OfRotaryStartNoThread) {
  check_rotary<float>();
  check_rotary<Half>();
  check_rotary<BFloat16>();
}

template <typename T>
void check_tables() {
  for (const auto& [tokens, heads, size] : shapes()) {
    const std::int64_t width = heads * size;
    const auto positions = consecutive(tokens).ids;
    Tensor<T, 2> table({tokens, width});
    Tensor<float, 2> added({tokens, width});
    auto x = random_tensor<T, 3>({1, tokens, width});
    const std::int64_t pairs = width / 2;
    const auto frequencies =
        inverse_frequencies({.rotary_dim = 2 * pairs, .pairing = Pairing::halves});
    Tensor<T, 2> cosines({tokens, pairs}), sines({tokens, pairs});
    const Loops loops;
    for (const Angles angles : {Angles::exact, Angles::float32})
      fill_cos_sin(std::span<const std::int64_t>(positions),
                   std::span<const double>(frequencies), cosines.view(), sines.view(), angles);
    fill(Sinusoidal{.width = width, .recipe = SinusoidalRecipe::interleaved},
         std::span<const std::int64_t>(positions), table.view());
    add_table(x.view(), added.view());
    EXPECT_EQ(loops.count(), 0) << tokens << " " << width;
  }
}

TEST(SmallCalls, OfTablesStartNoThread) {
  check_tables<float>();
  check_tables<BFloat16>();
}

// The count above is of something.
TEST(SmallCalls, LargeCallsStartThreads) {
  const RotaryTable table({.rotary_dim = 128, .pairing = Pairing::halves},
                          consecutive(64 * small / 128).ids);
  auto x = random_tensor<float, 3>({64 * small / 128, 1, 128});
  const Loops loops;
  rotate(x.view(), table);
  EXPECT_EQ(loops.count(), 1);
}

}  // namespace small_calls_test
}  // namespace gnomon
