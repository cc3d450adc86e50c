#include "apps/lab/tasks/image.h"
#include "apps/lab/tasks/make_model.h"
#include "apps/lab/tasks/settings_check.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <set>

#include "apps/lab/data/task.h"
#include "apps/lab/model/candidate.h"
#include "gnomon/embedding/grid.h"
#include "gnomon/position/positions.h"

namespace gnomon::lab {
namespace image_test {

using namespace image_examples;

Settings tiny() {
  Settings settings;
  settings.task = &find_task("image");
  settings.encodings = {"none"};
  settings.train_length = 4;
  settings.eval_lengths = {4, 6};
  settings.layers = 2;
  settings.width = 16;
  settings.heads = 2;
  settings.steps = 4;
  settings.batch = 6;
  settings.eval_segments = 1;
  return settings;
}
constexpr EncoderSizes sizes{2, 16, 2};

libtorch::PositionScheme trained(const char* name, std::int64_t side, Tables tables) {
  return libtorch::PositionScheme(grid_scheme(name, sizes, side, tables), seeded_generator(5));
}

at::Tensor table_of(libtorch::PositionScheme scheme, std::int64_t side) {
  const at::NoGradGuard no_grad;
  return scheme->embed(at::zeros({1, side * side, 16}))[0];
}

TEST(DigitPicture, HasBothDigitsInAllClassesEquallyOften) {
  std::vector<int> left(digits), right(digits);
  constexpr int count = 3000;
  std::set<std::vector<float>> different;
  for (std::uint64_t i = 0; i < count; ++i) {
    const DigitPicture one = digit_picture(Part::train, 1, i, 8);
    ++left[static_cast<std::size_t>(one.left)], ++right[static_cast<std::size_t>(one.right)];
    different.insert(one.pixels);
  }
  EXPECT_EQ(different.size(), count);
  const double expected = count / 10.0, deviation = std::sqrt(count * 0.1 * 0.9);
  for (std::size_t d = 0; d < digits; ++d) {
    EXPECT_NEAR(left[d], expected, 4.5 * deviation);
    EXPECT_NEAR(right[d], expected, 4.5 * deviation);
  }
}

TEST(DigitPicture, HasDigitsOfTheSameSizeAtMorePlaces) {
  for (const std::int64_t side : {24, 48}) {
    std::int64_t least = side, most = 0, tall = 0, places = 0;
    for (std::uint64_t i = 0; i < 200; ++i) {
      const DigitPicture one = digit_picture(Part::test, 1, i, side);
      // The rows with ink in the left half. Noise has an amplitude of 0.2 at most.
      const at::Tensor ink = at::tensor(one.pixels).view({side, side}).narrow(1, 0, side / 2);
      const at::Tensor rows = ink.gt(0.5).any(1).nonzero().flatten();
      const std::int64_t top = rows.min().item<std::int64_t>(),
                         height = rows.max().item<std::int64_t>() + 1 - top;
      least = std::min(least, height), most = std::max(most, height);
      tall += height > 20, places = std::max(places, top);
      EXPECT_EQ(one.left, digit_picture(Part::test, 1, i, 96).left);
    }
    EXPECT_GE(least, 10) << side;
    EXPECT_EQ(tall, 0) << side;
    EXPECT_GT(places, side - 20) << side;
  }
}

TEST(PicturesAsText, HaveADotForEachPixelAndALineForFourRows) {
  std::vector<float> one(8 * 8, 0), two(8 * 8, 0);
  one[0] = two[63] = 1;
  // Two pictures beside each other, the third below.
  EXPECT_EQ(image_examples::as_text({one, two, one}, 8),
            "⠁⠀⠀⠀⠀⠀⠀⠀⠀⠀\n⠀⠀⠀⠀⠀⠀⠀⠀⠀⢀\n⠁⠀⠀⠀\n⠀⠀⠀⠀\n");
}

TEST(Patches, AreReadRowByRow) {
  const at::Tensor pixels = at::rand({2, 12, 12}, seeded_generator(1)),
                   patches = patches_of(pixels, 4);
  ASSERT_EQ(patches.sizes(), (std::vector<std::int64_t>{2, 9, 16}));
  for (std::int64_t y = 0; y < 12; ++y)
    for (std::int64_t x = 0; x < 12; ++x)
      EXPECT_EQ(patches[1][y / 4 * 3 + x / 4][y % 4 * 4 + x % 4].item<float>(),
                pixels[1][y][x].item<float>());
}

// Without position a picture is a bag of patches. So its result is the same with the halves
// exchanged, and the right label of two different digits is a guess.
TEST(EncoderOfPatches, SeesNoPlacesWithoutPosition) {
  const at::NoGradGuard no_grad;
  const std::int64_t side = 4;
  const at::Tensor x = at::randn({2, side * side, 16}, seeded_generator(1));
  const at::Tensor exchanged =
      x.view({2, side, 2, 2, 16}).flip(2).reshape({2, side * side, 16});
  const auto difference = [&](const char* name) {
    at::Generator weights = seeded_generator(2);
    Bidirectional encoder(sizes, CrossAttention::none, Init::fan_in, weights);
    for (at::Tensor& weight : encoder->parameters())
      if (weight.dim() == 2) weight.mul_(3);
    libtorch::PositionScheme position = trained(name, side, Tables::fixed);
    for (at::Tensor& parameter : position->parameters()) parameter.mul_(10);
    return (encoder->encode(x, position).mean(1) - encoder->encode(exchanged, position).mean(1))
        .abs()
        .max()
        .item<double>();
  };
  EXPECT_LT(difference("none"), 1e-4);
  for (const char* name : {"learned", "sinusoidal-grid", "detr", "rotary-axial", "swin",
                           "swin-v2", "axial", "decomposed", "rotary", "t5"})
    EXPECT_GT(difference(name), 1e-3) << name;
}

TEST(EncoderOfPatches, SeesAMemoryAsASet) {
  const at::NoGradGuard no_grad;
  at::Generator weights = seeded_generator(2);
  Bidirectional encoder(sizes, CrossAttention::memory, Init::fan_in, weights);
  for (at::Tensor& weight : encoder->parameters())
    if (weight.dim() == 2) weight.mul_(3);
  const libtorch::PositionScheme position = trained("rotary", 2, Tables::fixed);
  // Three rows of four tokens for each of two memories of nine.
  const at::Tensor x = at::randn({6, 4, 16}, seeded_generator(3)),
                   memory = at::randn({2, 9, 16}, seeded_generator(4));
  const auto read = [&](const at::Tensor& queries, const at::Tensor& about) {
    return encoder->encode(queries, position, {}, about);
  };
  const at::Tensor both = read(x, memory);
  EXPECT_TRUE(both.allclose(read(x, memory.flip(1)), 1e-4, 1e-4));
  EXPECT_FALSE(both.allclose(read(x, memory.flip(0)), 1e-2, 1e-2));
  // The second memory belongs to rows 3 to 5.
  const at::Tensor alone = read(x.slice(0, 3, 6), memory.slice(0, 1, 2));
  EXPECT_TRUE(both.slice(0, 3, 6).allclose(alone, 1e-4, 1e-4));
}

TEST(AtSide, FormulasContinueOnALargerGrid) {
  const libtorch::PositionScheme small = trained("sinusoidal-grid", 4, Tables::fixed);
  const auto large = at_side(small, 4, 6, Tables::fixed);
  ASSERT_TRUE(large);
  at::Tensor expected = at::empty({36, 16});
  fill(grid_mae(16), grid(6, 6), View<float, 2>(expected.data_ptr<float>(), {36, 16}));
  EXPECT_TRUE(table_of(*large, 6).equal(expected));
  EXPECT_EQ(at_side(small, 4, 4, Tables::fixed)->get(), small.get());
}

// PyTorch's interpolation is the oracle.
TEST(AtSide, ResizesALearnedTableAndThatOfSwinBicubically) {
  const at::NoGradGuard no_grad;
  const auto larger = [](const at::Tensor& table, std::int64_t from, std::int64_t to) {
    return at::upsample_bicubic2d(table.t().reshape({1, table.size(1), from, from}), {to, to},
                                  /*align_corners=*/false)
        .reshape({table.size(1), to * to})
        .t();
  };
  const libtorch::PositionScheme learned = trained("learned", 4, Tables::resized);
  EXPECT_TRUE(table_of(*at_side(learned, 4, 7, Tables::resized), 7)
                  .allclose(larger(learned->parameters()[0], 4, 7), 0, 1e-5));
  const libtorch::PositionScheme swin = trained("swin", 4, Tables::resized);
  const libtorch::PositionScheme other = *at_side(swin, 4, 6, Tables::resized);
  ASSERT_EQ(other->parameters().size(), 2);  // a table in each layer
  for (std::size_t layer = 0; layer < 2; ++layer)
    EXPECT_TRUE(
        other->parameters()[layer].allclose(larger(swin->parameters()[layer], 7, 11), 0, 1e-5));
}

TEST(AtSide, ResizesAxialTablesLinearly) {
  const at::NoGradGuard no_grad;
  const libtorch::PositionScheme small = trained("axial-summed", 4, Tables::resized);
  const auto larger = [&](std::size_t axis) {
    return at::upsample_linear1d(small->parameters()[axis].t().unsqueeze(0), {6}, false)[0].t();
  };
  const at::Tensor rows = larger(0), columns = larger(1),
                   table = table_of(*at_side(small, 4, 6, Tables::resized), 6);
  for (std::int64_t y = 0; y < 6; ++y)
    for (std::int64_t x = 0; x < 6; ++x)
      EXPECT_TRUE(table[y * 6 + x].allclose(rows[y] + columns[x], 0, 1e-5));
}

TEST(AtSide, ATableEndsWhereItEndedInTraining) {
  for (const char* name : {"learned", "swin", "axial", "decomposed"})
    EXPECT_FALSE(at_side(trained(name, 4, Tables::fixed), 4, 5, Tables::fixed)) << name;
  for (const char* name : {"none", "rotary", "rotary-axial", "t5", "swin-v2", "detr", "layout"})
    EXPECT_TRUE(at_side(trained(name, 4, Tables::fixed), 4, 5, Tables::fixed)) << name;
  EXPECT_THROW(grid_scheme("rotary", sizes, 4, Tables::resized), std::invalid_argument);
  EXPECT_THROW(grid_scheme("beit", sizes, 4, Tables::fixed), std::invalid_argument);
}

// All encodings of the list either take part or say why not, also at the larger grid.
TEST(ImageTask, EveryEncodingTrainsOrIsLeftOut) {
  const Settings settings = tiny();
  const Corpus corpus = load_corpus(settings);
  int used = 0;
  for (const model::EncodingInfo& one : model::encodings()) {
    const std::string name(one.name);
    if (const auto reason = unusable(name, settings, corpus)) {
      EXPECT_FALSE(reason->empty());
      continue;
    }
    ++used;
    const at::NoGradGuard no_grad;
    const auto found = make_model(settings, corpus, name, 1)->evaluate([] { return false; });
    ASSERT_EQ(found->stretches.size(), 2) << name;
    EXPECT_TRUE(found->stretches[0].applicable) << name;
  }
  EXPECT_GE(used, 40);
}

TEST(ImageTask, AStretchHasTheTrainingGridOrLargerOnes) {
  Settings settings = tiny();
  settings.train_length = 8;
  settings.eval_lengths = {8, 11, 16};
  const std::vector<Stretch> found = grid_stretches(settings);
  std::vector<std::vector<std::int64_t>> limits;
  for (const Stretch& one : found) limits.push_back({one.from, one.to, one.up_to});
  EXPECT_EQ(limits, (std::vector<std::vector<std::int64_t>>{
                        {8, 8, 8}, {9, 11, 11}, {12, 15, 16}, {16, 16, 16}}));
}

TEST(ImageTask, TheLossOfRowsDoesNotDependOnOtherRows) {
  const at::NoGradGuard no_grad;
  const Settings settings = tiny();
  const Corpus corpus = load_corpus(settings);
  const auto model = make_model(settings, corpus, "rotary-axial", 1);
  for (const Part part : {Part::train, Part::validation}) {
    const auto nats = [&](BatchRange rows) {
      return model->loss(part, 1, 7, rows).nats.item<double>();
    };
    const double all = nats({0, 6});
    EXPECT_NEAR(all, nats({0, 1}) + nats({1, 4}) + nats({4, 6}), 1e-4);
    EXPECT_NEAR(all / 6, std::log(10), 0.1);  // untrained: a guess among ten
    EXPECT_NE(all, model->loss(part, 1, 8, {0, 6}).nats.item<double>());
  }
}

TEST(ImageTask, TestsLargerGridsAndShowsPictures) {
  const Settings settings = tiny();
  const Corpus corpus = load_corpus(settings);
  const auto evaluated = [&](const char* name) {
    return *make_model(settings, corpus, name, 1)->evaluate([] { return false; });
  };
  const Evaluation fixed = evaluated("learned"), resized = evaluated("learned@resized");
  EXPECT_TRUE(fixed.stretches[0].applicable);
  EXPECT_FALSE(fixed.stretches[1].applicable);
  EXPECT_EQ(fixed.stretches[0], resized.stretches[0]);  // the same training
  for (const Stretch& one : resized.stretches) {
    EXPECT_TRUE(one.applicable);
    EXPECT_EQ(one.examples, 8);
    EXPECT_DOUBLE_EQ(one.chance_score, 0.1);
  }
  RunResult run;
  make_model(settings, corpus, "learned@resized", 1)->describe(run);
  ASSERT_EQ(run.samples.size(), 2);
  EXPECT_EQ(run.samples[0].expected, run.samples[1].expected);
  EXPECT_EQ(run.samples[1].context, 6);
  EXPECT_EQ(std::ssize(run.samples[0].expected), 7);  // "4 1 7 0"
}

TEST(Graded, SharesTheAnswerAmongEqualLogits) {
  const Graded found =
      graded(at::tensor({1.f, 0.f, 1.f, 0.f, 0.f, 2.f, 0.f, 3.f, 0.f}).view({3, 3}),
             at::tensor({2, 2, 0}, at::kLong));
  EXPECT_EQ(found.right, (std::vector<double>{0.5, 1, 0}));
  EXPECT_NEAR(
      found.nats,
      std::log(2 + std::exp(-1)) + std::log(1 + 2 * std::exp(-2)) + std::log(2 + std::exp(3)),
      1e-5);
}

TEST(ImageTask, RefusesSettingsThatItDoesNotHave) {
  Settings settings = tiny();
  settings.learning_rate = 1e-3;
  EXPECT_NO_THROW(check_settings(settings));
  settings.encodings = {"rotary@random"};
  EXPECT_THROW(check_settings(settings), std::invalid_argument);
  settings.encodings = {"learned@resized"};
  EXPECT_NO_THROW(check_settings(settings));
  settings.eval_lengths = {4, 65};
  EXPECT_THROW(check_settings(settings), std::invalid_argument);
  settings = tiny();
  settings.task = &find_task("copy");
  settings.encodings = {"learned@resized"};
  EXPECT_THROW(check_settings(settings), std::invalid_argument);
  EXPECT_THROW(find_candidate("rotary@"), std::invalid_argument);
}

}  // namespace image_test
}  // namespace gnomon::lab
