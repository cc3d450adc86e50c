#include "apps/lab/data/task.h"
#include "apps/lab/tasks/image.h"
#include "apps/lab/tasks/make_model.h"
#include "apps/lab/tasks/settings_check.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "apps/lab/model/candidate.h"
#include "apps/lab/model/task_model.h"

namespace gnomon::lab {
namespace image_text_test {

using namespace image_text_examples;

Settings tiny() {
  Settings settings;
  settings.task = &find_task("image-text");
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

// Whether a caption is true: its text against the places of the shapes.
bool is_true(const Scene& scene, const std::string& text) {
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> place;
  for (std::size_t i = 0; i < scene.shapes.size(); ++i)
    place[std::string(image_examples::shapes[scene.shapes[i]])] = {scene.columns[i],
                                                                   scene.rows[i]};
  std::vector<std::string> names;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    if (place.contains(text.substr(at, end - at))) names.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  EXPECT_EQ(names.size(), objects) << text;
  bool all = true;
  for (std::size_t i = 0; i + 1 < names.size(); ++i) {
    const auto [x, y] = place.at(names[i]);
    const auto [next_x, next_y] = place.at(names[i + 1]);
    all = all && (text.find("left of") != std::string::npos ? x < next_x : y < next_y);
  }
  return all;
}

TEST(Scene, HasOneTrueCaption) {
  std::vector<int> right(captions);
  constexpr int count = 600;
  for (std::uint64_t i = 0; i < count; ++i) {
    const Scene one = scene(Part::train, 1, i, 8);
    std::set<std::string> texts;
    for (std::int64_t k = 0; k < captions; ++k) {
      texts.insert(caption_text(one, k));
      EXPECT_EQ(is_true(one, caption_text(one, k)), k == one.right) << caption_text(one, k);
    }
    EXPECT_EQ(texts.size(), captions);
    ++right[static_cast<std::size_t>(one.right)];
  }
  for (const int times : right) EXPECT_NEAR(times, count / 2.0, 4.5 * std::sqrt(count / 4.0));
}

TEST(Scene, AnEasyCaptionHasOneShapeThatIsNotInThePicture) {
  for (std::uint64_t i = 0; i < 50; ++i) {
    const Scene one = scene(Part::train, 1, i, 6);
    for (const auto& easy : one.easy) {
      int absent = 0;
      for (std::size_t w = 0; w < easy.size(); w += 2) {
        ASSERT_LT(easy[w], std::ssize(image_examples::shapes));
        absent += std::find(one.shapes.begin(), one.shapes.end(), easy[w]) == one.shapes.end();
      }
      EXPECT_EQ(absent, 1);
      EXPECT_EQ(easy[1], caption(one, 0)[1]);
    }
  }
}

TEST(Scene, TheCaptionsHaveTheSameWords) {
  for (std::uint64_t i = 0; i < 50; ++i) {
    const Scene one = scene(Part::test, 1, i, 10);
    std::set<std::vector<std::int64_t>> bags;
    for (std::int64_t k = 0; k < captions; ++k) {
      const auto words = caption(one, k);
      std::vector<std::int64_t> bag(words.begin(), words.end());
      std::sort(bag.begin(), bag.end());
      bags.insert(bag);
    }
    EXPECT_EQ(bags.size(), 1);
  }
}

// Exchanging patches gives another picture with the same patches.
TEST(Scene, EachShapeIsWithinItsPatch) {
  for (const std::int64_t side : {2, 6, 11})
    for (std::uint64_t i = 0; i < 60; ++i) {
      const Scene one = scene(Part::train, 3, i, side);
      std::vector<double> ink(objects);
      for (std::int64_t y = 0; y < 8 * side; ++y)
        for (std::int64_t x = 0; x < 8 * side; ++x) {
          const float value = one.pixels[static_cast<std::size_t>(y * 8 * side + x)];
          bool inside = false;
          for (std::size_t s = 0; s < objects; ++s)
            if (one.rows[s] == y / 8 && one.columns[s] == x / 8) inside = true, ink[s] += value;
          if (!inside) {
            EXPECT_LE(std::abs(value), 0.1f) << x << " " << y;
          }
        }
      for (const double pixels : ink) EXPECT_GT(pixels, 5);
      EXPECT_LT(*std::max_element(one.rows.begin(), one.rows.end()), side);
      EXPECT_NE(one.rows[0], one.rows[1]);
      EXPECT_NE(one.columns[0], one.columns[1]);
    }
}

TEST(SidesOf, GivesTheTextTheCounterpartOfAGrid) {
  const auto sides = [](const char* name) {
    const Sides found = sides_of(name);
    return found.picture + "," + found.text;
  };
  EXPECT_EQ(sides("rotary-axial"), "rotary-axial,rotary");
  EXPECT_EQ(sides("swin@resized"), "swin,t5");
  EXPECT_EQ(sides("rotary-axial@text"), "none,rotary");
  EXPECT_EQ(sides("sinusoidal-grid@image"), "sinusoidal-grid,none");
  EXPECT_EQ(sides("alibi"), "alibi,alibi");
}

// Without the order of the words, the captions of a picture have equal scores, whatever the
// weights: the loss is ln 2.
TEST(ImageTextTask, CannotTellCaptionsApartWithoutTheOrderOfWords) {
  const at::NoGradGuard no_grad;
  const Settings settings = tiny();
  const Corpus corpus = load_corpus(settings);
  const auto loss = [&](const char* name) {
    const auto model = make_model(settings, corpus, name, 1);
    // Initial biases of the attention have a deviation of 0.02, too small to see in the loss.
    for (const auto& item : model->module().named_parameters())
      item.value().mul_(item.key().starts_with("position") ? 20 : 2);
    return model->loss(Part::validation, 1, 1, {0, 6}).nats.item<double>() / 6;
  };
  for (const char* name : {"none", "rotary-axial@image", "learned@image"})
    EXPECT_NEAR(loss(name), std::log(2), 1e-4) << name;
  for (const char* name : {"rotary-axial", "rotary-axial@text", "learned@resized", "swin"})
    EXPECT_GT(std::abs(loss(name) - std::log(2)), 1e-3) << name;
}

TEST(ImageTextTask, TheLossOfRowsDoesNotDependOnOtherRows) {
  const at::NoGradGuard no_grad;
  const Settings settings = tiny();
  const Corpus corpus = load_corpus(settings);
  const auto model = make_model(settings, corpus, "rotary-axial", 1);
  for (at::Tensor& weight : model->module().parameters()) weight.mul_(2);
  const auto nats = [&](BatchRange rows) {
    return model->loss(Part::train, 1, 7, rows).nats.item<double>();
  };
  EXPECT_NEAR(nats({0, 6}), nats({0, 1}) + nats({1, 4}) + nats({4, 6}), 1e-3);
}

TEST(ImageTextTask, TestsLargerGridsAndShowsACaption) {
  const Settings settings = tiny();
  const Corpus corpus = load_corpus(settings);
  const auto model = make_model(settings, corpus, "rotary-axial", 1);
  const Evaluation found = *model->evaluate([] { return false; });
  ASSERT_EQ(found.stretches.size(), 2);  // 4, and 5 to 6
  for (const Stretch& one : found.stretches) {
    EXPECT_TRUE(one.applicable);
    EXPECT_EQ(one.examples, 8);
    EXPECT_DOUBLE_EQ(one.chance_score, 0.5);
    EXPECT_NEAR(one.bits, 1, 0.1);
  }
  EXPECT_FALSE(make_model(settings, corpus, "learned", 1)
                   ->evaluate([] { return false; })
                   ->stretches[1]
                   .applicable);
  EXPECT_FALSE(model->evaluate([] { return true; }));
  RunResult run;
  model->describe(run);
  ASSERT_EQ(run.samples.size(), 2);
  EXPECT_FALSE(run.samples[0].text.empty());
  EXPECT_EQ(run.samples[0].text.size(), run.samples[0].expected.size());
}

TEST(ImageTextTask, RefusesSettingsThatItDoesNotHave) {
  Settings settings = tiny();
  settings.learning_rate = 1e-3;
  EXPECT_NO_THROW(check_settings(settings));
  settings.encodings = {"rotary@image", "rotary@text", "learned@resized"};
  EXPECT_NO_THROW(check_settings(settings));
  settings.encodings = {"rotary@random"};
  EXPECT_THROW(check_settings(settings), std::invalid_argument);
  settings = tiny();
  settings.texts = {"x"};
  EXPECT_THROW(check_settings(settings), std::invalid_argument);
  settings = tiny();
  settings.train_length = 1;
  settings.eval_lengths = {1};
  EXPECT_THROW(check_settings(settings), std::invalid_argument);
}

}  // namespace image_text_test
}  // namespace gnomon::lab
