#include "gnomon/rotary/axial.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "gnomon/position/patches.h"
#include "testing.h"

namespace gnomon {
namespace rotary_axial_test {

using testing::message_of;
using List = std::vector<double>;

// Element by element as in the models' code: y = x cos(angle) + other(x) sin(angle).
List rotate_half(const List& x) {  // cat(-x2, x1)
  List other;
  for (std::size_t i = x.size() / 2; i < x.size(); ++i) other.push_back(-x[i]);
  for (std::size_t i = 0; i < x.size() / 2; ++i) other.push_back(x[i]);
  return other;
}
List rotate_pairwise(const List& x) {  // stack(-x[1::2], x[0::2]).flatten
  List other;
  for (std::size_t i = 0; i < x.size(); i += 2) {
    other.push_back(-x[i + 1]);
    other.push_back(x[i]);
  }
  return other;
}
List cat(List a, const List& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
List twice(const List& a) { return cat(a, a); }  // cat(f, f), tile(2)
List repeat_interleave(const List& a) {
  List all;
  for (double value : a) all.insert(all.end(), {value, value});
  return all;
}
// position * base^(-2j/dim), j < dim / 2.
List angles(double position, std::int64_t dim, double base = 1e4) {
  List all;
  for (std::int64_t j = 0; j < dim / 2; ++j)
    all.push_back(position *
                  std::pow(base, -2.0 * static_cast<double>(j) / static_cast<double>(dim)));
  return all;
}

// Rotates random heads by the tables and compares them with a list of angles for each token.
void expect_rotated(const std::vector<RotaryTable>& tables, std::int64_t head_dim,
                    const std::function<List(std::int64_t)>& angles_of,
                    const std::function<List(const List&)>& other_of) {
  const std::int64_t tokens = tables[0].tokens();
  const auto before = testing::random_tensor<double, 3>({tokens, 2, head_dim});
  auto after = before;
  for (const RotaryTable& table : tables) rotate(after.view(), table);
  for (std::int64_t t = 0; t < tokens; ++t)
    for (std::int64_t h = 0; h < 2; ++h) {
      List x;
      for (std::int64_t d = 0; d < head_dim; ++d) x.push_back(before.view()(t, h, d));
      const List other = other_of(x), angle = angles_of(t);
      ASSERT_EQ(std::ssize(angle), head_dim);
      for (std::size_t d = 0; d < x.size(); ++d)
        ASSERT_NEAR(after.view()(t, h, std::ptrdiff_t(d)),
                    x[d] * std::cos(angle[d]) + other[d] * std::sin(angle[d]),
                    3 * 0x1p-24 * (std::fabs(x[d]) + std::fabs(other[d])))
            << t << " " << d;
    }
}

// Coordinates of cell t of a grid of this width, as double.
double row(std::int64_t t, std::int64_t width) { return static_cast<double>(t / width); }
double column(std::int64_t t, std::int64_t width) { return static_cast<double>(t % width); }

TEST(Axial, Pixtral) {
  const auto angles_of = [](std::int64_t t) {
    const List y = angles(row(t, 7), 64), x = angles(column(t, 7), 64);
    List mixed;
    for (std::size_t i = 0; i < 32; i += 2) mixed.push_back(y[i]);  // freqs[::2]
    for (std::size_t i = 1; i < 32; i += 2) mixed.push_back(x[i]);  // freqs[1::2]
    return twice(mixed);
  };
  expect_rotated({{lower(rotary::pixtral_vision(64)), grid(5, 7)}}, 64, angles_of, rotate_half);
}

TEST(Axial, QwenVisionInMergeBlockOrder) {
  // hpos.reshape(h/m, m, w/m, m).permute(0, 2, 1, 3).flatten(), the same for each frame.
  constexpr std::int64_t h = 4, w = 6, m = 2;
  std::vector<double> ys, xs;
  for (std::int64_t a = 0; a < h / m; ++a)
    for (std::int64_t c = 0; c < w / m; ++c)
      for (std::int64_t b = 0; b < m; ++b)
        for (std::int64_t d = 0; d < m; ++d) {
          const std::int64_t flat = ((a * m + b) * (w / m) + c) * m + d;
          ys.push_back(row(flat, w));
          xs.push_back(column(flat, w));
        }
  const auto angles_of = [&](std::int64_t t) {
    const auto at = std::size_t(t % (h * w));
    return twice(cat(angles(ys[at], 40), angles(xs[at], 40)));
  };
  expect_rotated({{lower(rotary::qwen_vl_vision(80)), merge_blocks(h, w, m, 3)}}, 80, angles_of,
                 rotate_half);
}

TEST(Axial, Llama4VisionCountsFromOneAndLeavesTheClassToken) {
  constexpr std::int64_t side = 5;
  const auto angles_of = [](std::int64_t t) {
    if (t == side * side) return List(88, 0.0);
    return repeat_interleave(
        cat(angles(column(t, side) + 1, 44), angles(row(t, side) + 1, 44)));
  };
  expect_rotated({{lower(rotary::llama4_vision(88)), llama4_patches(side)}}, 88, angles_of,
                 rotate_pairwise);
}

TEST(Axial, Dinov3RotatesPatchCentresAndLeavesThePrefix) {
  constexpr std::int64_t h = 3, w = 4, prefix = 5;
  const auto angles_of = [](std::int64_t t) {
    if (t < prefix) return List(64, 0.0);
    const double y = (row(t - prefix, w) + 0.5) / h * 2 - 1;
    const double x = (column(t - prefix, w) + 0.5) / w * 2 - 1;
    return twice(cat(angles(2 * M_PI * y, 32, 100), angles(2 * M_PI * x, 32, 100)));
  };
  const Coordinates centres = patch_centres(h, w, prefix);
  const RotaryTable table(lower(rotary::dinov3_vision(64)), centres.view());
  expect_rotated({table}, 64, angles_of, rotate_half);

  auto q = testing::random_tensor<float, 3>({prefix + h * w, 2, 64});
  const auto before = q;
  rotate(q.view(), table);
  for (std::int64_t t = 0; t < prefix; ++t)  // bit-identical
    for (std::int64_t d = 0; d < 64; ++d) EXPECT_EQ(q.view()(t, 1, d), before.view()(t, 1, d));
}

TEST(Axial, ColumnFirstAndPairwise) {
  const auto angles_of = [](std::int64_t t) {
    return repeat_interleave(cat(angles(column(t, 9), 32), angles(row(t, 9), 32)));
  };
  for (const AxialRotary& spec : {rotary::sam2_memory(64), rotary::hunyuan_dit(64)})
    expect_rotated({{lower(spec), grid(4, 9)}}, 64, angles_of, rotate_pairwise);
}

TEST(Axial, HunyuanCropsAreContinuous) {
  const Crop crop{.top = 4, .left = 0, .bottom = 28, .right = 32};
  const auto angles_of = [](std::int64_t t) {
    const double y = 4 + (28.0 * 5 / 6 - 4) * row(t, 4) / 5;  // linspace(4, 28 * 5 / 6, 6)
    const double x = 24.0 * column(t, 4) / 3;                 // linspace(0, 32 * 3 / 4, 4)
    return repeat_interleave(cat(angles(x, 44), angles(y, 44)));
  };
  expect_rotated({{lower(rotary::hunyuan_dit(88)), crop_cells(6, 4, crop).view()}}, 88,
                 angles_of, rotate_pairwise);
}

TEST(Axial, Gemma4RotatesTwoHalvesEachByItself) {
  // Elements 0..35 by x and 36..71 by y, rotate_half within each.
  const auto angles_of = [](std::int64_t t) {
    return cat(twice(angles(column(t, 5), 36, 100)), twice(angles(row(t, 5), 36, 100)));
  };
  const auto other_of = [](const List& x) {
    return cat(rotate_half(List(x.begin(), x.begin() + 36)),
               rotate_half(List(x.begin() + 36, x.end())));
  };
  const auto [left, right] = rotary::gemma4_vision(72);
  expect_rotated({{left, grid(3, 5)}, {right, grid(3, 5)}}, 72, angles_of, other_of);
}

TEST(Axial, LuminaTakesItsAxesInTurn) {
  const auto angles_of = [](std::int64_t t) {
    const List y = angles(row(t, 6), 36), x = angles(column(t, 6), 36);
    List mixed;
    for (std::size_t j = 0; j < y.size(); ++j) mixed.insert(mixed.end(), {y[j], x[j]});
    return repeat_interleave(mixed);
  };
  expect_rotated({{lower(rotary::lumina(72)), grid(4, 6)}}, 72, angles_of, rotate_pairwise);
}

// [t | y | x] with the given sizes, for the cells of a video.
List video_angles(double t, double y, double x, std::int64_t dt, std::int64_t dy,
                  std::int64_t dx) {
  return repeat_interleave(cat(cat(angles(t, dt), angles(y, dy)), angles(x, dx)));
}

TEST(Axial, VideosOnThreeAxes) {
  const std::int64_t h = 3, w = 4;
  const Grid cells = grid(2, h, w);
  const auto with = [&](std::int64_t dt, std::int64_t dy, std::int64_t dx) {
    return [=](std::int64_t t) {
      return video_angles(row(t, h * w), row(t % (h * w), w), column(t, w), dt, dy, dx);
    };
  };
  expect_rotated({{lower(rotary::flux()), cells}}, 128, with(16, 56, 56), rotate_pairwise);
  expect_rotated({{lower(rotary::wan(128)), cells}}, 128, with(44, 42, 42), rotate_pairwise);
  expect_rotated({{lower(rotary::cogvideox(64)), cells}}, 64, with(16, 24, 24),
                 rotate_pairwise);
  expect_rotated({{lower(rotary::axial({6, 2, 4}, Pairing::adjacent)), cells}}, 12,
                 with(6, 2, 4), rotate_pairwise);
}

TEST(Axial, QwenImageIsCentredAndItsTextStartsBeyond) {
  // neg[-(5 - 5 // 2):] and then pos[:5 // 2], where neg is ... -3 -2 -1 and pos 0 1 2 ...
  const List ys{-3, -2, -1, 0, 1}, xs{-2, -1, 0, 1};
  const auto angles_of = [&](std::int64_t t) {
    return video_angles(2, ys[std::size_t(t / 4)], xs[std::size_t(t % 4)], 16, 56, 56);
  };
  expect_rotated({{lower(rotary::qwen_image()), centred_grid(1, 5, 4, 2)}}, 128, angles_of,
                 rotate_pairwise);

  const Positions text = consecutive(3, centred_text_start(5, 4));
  const std::vector<Positions> axes{text, text, text};
  const auto text_angles = [](std::int64_t t) {
    const double p = 2 + static_cast<double>(t);
    return video_angles(p, p, p, 16, 56, 56);
  };
  expect_rotated({{lower(rotary::qwen_image()), axes}}, 128, text_angles, rotate_pairwise);
}

// <R x, y> = <x, R' y>, on a slice of the head.
TEST(Axial, BackwardIsTheTranspose) {
  AxialRotary spec = rotary::lumina(16);
  spec.head_offset = 3;
  const RotaryTable table(lower(spec), grid(3, 5));
  const auto x = testing::random_tensor<double, 3>({15, 2, 20}, 1);
  const auto y = testing::random_tensor<double, 3>({15, 2, 20}, 2);
  auto forward = x, backward = y;
  rotate(forward.view(), table);
  rotate(backward.view(), table, Direction::inverse);
  double left = 0, right = 0;
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    left += forward.values[i] * y.values[i];
    right += x.values[i] * backward.values[i];
  }
  EXPECT_NEAR(left, right, 1e-12);
}

TEST(Axial, RefusesWhatItCannotMean) {
  const auto refusal = [](const AxialRotary& spec) { return message_of([&] { lower(spec); }); };
  const AxialRotary fine = rotary::axial({4, 8}, Pairing::halves);
  AxialRotary spec = fine;
  spec.parts.clear();
  EXPECT_EQ(refusal(spec), "[axial] there must be at least one part, got 0");
  spec = fine;
  spec.pairing = {};
  EXPECT_EQ(refusal(spec), "[rotary] pairing must be halves (1) or adjacent (2), got 0");
  spec = fine;
  spec.order = {};
  EXPECT_EQ(refusal(spec), "[axial] order must be blocks (1) or interleaved (2), got 0");
  spec = fine;
  spec.order = AxialOrder::interleaved;
  EXPECT_EQ(refusal(spec),
            "[axial] interleaved parts must all have one rotary_dim, 4 elements, got 8");
  spec = fine;
  spec.parts[1].rotary_dim = 5;
  EXPECT_EQ(refusal(spec), "[axial] rotary_dim of a part must be even, got 5");
  spec.parts[1].rotary_dim = 0;
  EXPECT_EQ(refusal(spec), "[axial] rotary_dim of a part must be at least 2, got 0");
  spec = fine;
  spec.parts[1].axis = -1;
  EXPECT_EQ(refusal(spec), "[axial] axis must not be negative, got -1");
  spec = fine;
  spec.parts[0].inv_freq = {1};
  EXPECT_EQ(refusal(spec),
            "[axial] inv_freq must be empty or have one element for each of 2 pairs, got 1");
  EXPECT_EQ(message_of([] { rotary::pixtral_vision(6); }),
            "[axial] head_dim must be a multiple of 4, got 6");
  EXPECT_EQ(message_of([] { rotary::wan(4); }),
            "[axial] the head_dim of Wan must be even and at least 6, got 4");
  EXPECT_EQ(message_of([] { rotary::cogvideox(24); }),
            "[axial] the head_dim of CogVideoX must be a multiple of 16, got 24");
  // A grid with two axes for frequencies with three.
  EXPECT_EQ(message_of([] { RotaryTable(lower(rotary::flux()), grid(2, 2)); }),
            "[rotary] axes must be 0 to 1, got 2");
}

}  // namespace rotary_axial_test
}  // namespace gnomon
