// Keys of a cache: stored rotated (append), moved by some positions (shift), rotated by other
// frequencies (rerotate).
#include "gnomon/rotary/cached_keys.h"

#include <fmt/format.h>

#include "bench/kernels/kernels.h"
#include "bench/kernels/turned_heads.h"
#include "gnomon/rotary/int8_keys.h"

namespace gnomon::bench {
namespace {

using std::int64_t;

enum class Append { rotated = 1, copied };

// Stores new keys (rotated) or values (copied) in a cache, optionally with another type.
template <typename T, typename U>
Kernel append_kernel(int64_t tokens, Append how = Append::rotated) {
  const Rotation c{.tokens = tokens};
  const auto table = std::make_shared<RotaryTable>(c.rotary(), consecutive(tokens).ids);
  const auto k = random_block<T, 4>({1, tokens, key_heads, c.size});
  const auto slot = zeros<U, 4>({1, tokens, key_heads, c.size});
  const auto scales = zeros<float, 3>({1, tokens, key_heads});
  constexpr bool bytes8 = std::is_same_v<U, std::int8_t>;
  const int64_t read = k->view.size() * static_cast<int64_t>(sizeof(T));
  const int64_t written =
      k->view.size() * static_cast<int64_t>(sizeof(U)) + (bytes8 ? scales->view.size() * 4 : 0);
  const auto append = [=] {
    if constexpr (bytes8) {
      if (how == Append::copied) return copy_append(k->view, slot->view, scales->view);
      rotate_append(k->view, *table, slot->view, scales->view);
    } else {
      if (how == Append::copied) return copy_append(k->view, slot->view);
      rotate_append(k->view, *table, slot->view);
    }
  };
  const auto type = [&] {
    if constexpr (bytes8)
      return "int8";
    else
      return name(dtype_of<U>);
  }();
  return {"append",
          fmt::format("{}{} to {} [{}, {}, {}]", how == Append::copied ? "copy of " : "",
                      name(dtype_of<T>), type, tokens, key_heads, c.size),
          Roof::memory,
          static_cast<double>(read + written),
          append,
          [=] { return copying(read, written); },
          [=] {
            append();
            Element stored;
            if constexpr (bytes8)
              stored = [&](int64_t t, int64_t h, int64_t d) {
                return double{scales->view(0, t, h)} * slot->view(0, t, h, d);
              };
            else
              stored = elements(slot->view);
            const auto no_position = [](int64_t) { return 0.0; };
            return worst_turn(
                c, key_heads, elements(k->view), stored,
                how == Append::copied ? std::function<double(int64_t)>(no_position) : nullptr);
          }};
}

enum class Move { shift = 1, rerotate };

// Moves keys in place. Runs alternate in direction.
template <typename T>
Kernel move_kernel(int64_t tokens, Move move) {
  const Rotation c{.tokens = tokens};
  const RotaryFrequencies plain = lower(c.rotary());
  RotaryFrequencies halved = plain;
  for (double& f : halved.inv_freq) f *= 0.5;
  const Positions positions = consecutive(tokens);
  const auto k = random_block<T, 4>({1, tokens, key_heads, c.size});
  const auto moved = [=](View<T, 4> keys, Direction direction) {
    const bool forward = direction == Direction::forward;
    if (move == Move::shift)
      shift_keys(keys, plain, forward ? -1 : 1);
    else
      rerotate_keys(keys, forward ? plain : halved, forward ? halved : plain, positions);
  };
  const int64_t bytes = k->view.size() * static_cast<int64_t>(sizeof(T));
  const char* const kind = move == Move::shift ? "shift" : "rerotate";
  return {kind,
          fmt::format("{} [{}, {}, {}]", name(dtype_of<T>), tokens, key_heads, c.size),
          Roof::memory,
          static_cast<double>(bytes),
          [=, direction = Direction::forward]() mutable {
            moved(k->view, direction);
            direction =
                direction == Direction::forward ? Direction::inverse : Direction::forward;
          },
          [=] { return touching(bytes); },
          [=] {
            const auto before = random_block<T, 4>(k->view.extents()),
                       after = random_block<T, 4>(k->view.extents());
            moved(after->view, Direction::forward);
            return worst_turn(
                c, key_heads, elements(before->view), elements(after->view), [&](int64_t t) {
                  return move == Move::shift ? -1.0 : -0.5 * static_cast<double>(t);
                });
          }};
}

}  // namespace

std::vector<KernelMaker> cached_key_kernels(std::optional<int64_t> only) {
  std::vector<KernelMaker> all;
  for (const int64_t tokens : lengths(only, key_heads * 128 * 4)) {
    const auto append = [&](auto make) { all.push_back({"append", make}); };
    append([=] { return append_kernel<float, float>(tokens); });
    append([=] { return append_kernel<float, Half>(tokens); });
    append([=] { return append_kernel<float, BFloat16>(tokens); });
    append([=] { return append_kernel<BFloat16, BFloat16>(tokens); });
    append([=] { return append_kernel<float, std::int8_t>(tokens); });
    append([=] { return append_kernel<BFloat16, std::int8_t>(tokens); });
    append([=] { return append_kernel<float, float>(tokens, Append::copied); });
    append([=] { return append_kernel<float, BFloat16>(tokens, Append::copied); });
    append([=] { return append_kernel<BFloat16, BFloat16>(tokens, Append::copied); });
    append([=] { return append_kernel<float, std::int8_t>(tokens, Append::copied); });
    append([=] { return append_kernel<BFloat16, std::int8_t>(tokens, Append::copied); });
  }
  const int64_t tokens = only.value_or(8192);
  for (const auto& [name, move] :
       {std::pair{"shift", Move::shift}, {"rerotate", Move::rerotate}}) {
    all.push_back({name, [=, move = move] { return move_kernel<float>(tokens, move); }});
    all.push_back({name, [=, move = move] { return move_kernel<Half>(tokens, move); }});
    all.push_back({name, [=, move = move] { return move_kernel<BFloat16>(tokens, move); }});
  }
  return all;
}

std::vector<CountedKernel> counted_cached_keys() {
  constexpr int64_t all = 16 * key_heads * 128;
  const auto append = []<typename T, typename U>(const char* name, T, U, Append how) {
    return CountedKernel{name, all, [how] { return append_kernel<T, U>(16, how); }};
  };
  return {
      append("rotate_append_f32_f16", float(), Half(), Append::rotated),
      append("rotate_append_f32_f32", float(), float(), Append::rotated),
      append("rotate_append_f32_int8", float(), std::int8_t(), Append::rotated),
      append("rotate_append_bf16_int8", BFloat16(), std::int8_t(), Append::rotated),
      append("copy_append_bf16_int8", BFloat16(), std::int8_t(), Append::copied),
  };
}

}  // namespace gnomon::bench
