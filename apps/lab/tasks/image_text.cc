#include "apps/lab/tasks/image.h"

#include <algorithm>
#include <numeric>

#include "apps/lab/data/lists.h"
#include "apps/lab/data/numbers.h"
#include "apps/lab/model/candidate.h"
#include "gnomon/error.h"

namespace gnomon::lab::image_text_examples {
namespace {

using namespace image_examples;

constexpr std::int64_t patch_side = 8;  // pixels: a shape is in one patch
constexpr std::int64_t shape_count = std::size(shapes),
                       vocabulary_size = shape_count + std::ssize(relations);
constexpr std::uint64_t scene_key = 0x7363656e65, test_seed = 1;

// Different numbers from 0 to count - 1, every choice equally likely.
std::array<std::int64_t, objects> different_ones(std::int64_t count, Draws& draws) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  shuffle(all, objects, draws);
  std::array<std::int64_t, objects> chosen{};
  std::copy_n(all.begin(), objects, chosen.begin());
  return chosen;
}

struct Batch {
  at::Tensor pixels;    // [B, P, P]
  at::Tensor captions;  // [B K, W]
  at::Tensor right;     // [B]
};
// Training gets easy captions.
Batch batch_of(const std::vector<Scene>& scenes, std::int64_t side, Part part) {
  const std::int64_t pixels = side * patch_side;
  std::vector<at::Tensor> pictures;
  std::vector<std::int64_t> numbers;
  const auto add = [&](const auto& some) {
    numbers.insert(numbers.end(), some.begin(), some.end());
  };
  for (const Scene& one : scenes) {
    pictures.push_back(at::tensor(one.pixels).view({pixels, pixels}));
    for (std::int64_t k = 0; k < captions; ++k) add(caption(one, k));
    if (part == Part::train) std::ranges::for_each(one.easy, add);
  }
  return {at::stack(pictures), at::tensor(numbers, at::kLong).view({-1, words}),
          at::tensor(mapped(scenes, &Scene::right), at::kLong)};
}

// An encoder of the picture, and an encoder of a caption that attends to the patches. Each has
// half of the layers. A caption has one score, computed from the mean over its words.
struct Network : torch::nn::Module {
  Network(const Settings& settings, const Sides& sides, Tables tables, std::uint64_t seed) {
    at::Generator shared = seeded_generator(2 * seed);
    EncoderSizes picture_sizes{std::max<std::int64_t>(1, settings.layers / 2), settings.width,
                               settings.heads};
    EncoderSizes text_sizes = picture_sizes;
    text_sizes.layers = std::max<std::int64_t>(1, settings.layers - picture_sizes.layers);
    patches = register_module("patches", patch_embedding(patch_side, settings.width, shared));
    word =
        register_module("words", drawn_embedding(vocabulary_size, settings.width, 1, shared));
    picture = register_module(
        "picture", Bidirectional(picture_sizes, CrossAttention::none, Init::fan_in, shared));
    text = register_module(
        "text", Bidirectional(text_sizes, CrossAttention::memory, Init::fan_in, shared));
    head = register_module("head",
                           drawn_linear(settings.width, 1, Block::weight_deviation, shared));
    at::Generator own = seeded_generator(2 * seed + 1);
    position = register_module(
        "position",
        libtorch::PositionScheme(
            grid_scheme(sides.picture, picture_sizes, settings.train_length, tables), own));
    const model::Shape line{settings.width, settings.heads, words, Visibility::bidirectional};
    text_position = register_module(
        "position_text", libtorch::PositionScheme(
                             model::parse_scheme(sides.text, line, text_sizes.layers), own));
  }
  // Returns the scores of the captions, [B, K].
  at::Tensor forward(const Batch& batch, const libtorch::PositionScheme& grid) {
    const at::Device device = head->weight.device();
    const at::Tensor pixels = batch.pixels.to(device);
    const at::Tensor memory = picture->encode(patches(patches_of(pixels, patch_side)), grid);
    const at::Tensor read =
        text->encode(word(batch.captions.to(device)), text_position, {}, memory);
    return head(read.mean(1)).view({batch.pixels.size(0), -1});
  }

  torch::nn::Linear patches{nullptr}, head{nullptr};
  torch::nn::Embedding word{nullptr};
  Bidirectional picture{nullptr}, text{nullptr};
  libtorch::PositionScheme position{nullptr}, text_position{nullptr};
};

class ImageTextModel final : public TaskModel {
 public:
  ImageTextModel(const Settings& settings, const Corpus&, const std::string& encoding,
                 std::int64_t seed)
      : TaskModel(settings),
        tables_(find_candidate(encoding).suffix == "resized" ? Tables::resized : Tables::fixed),
        network_(std::make_shared<Network>(settings, sides_of(encoding), tables_,
                                           static_cast<std::uint64_t>(seed))) {
    network_->to(torch::Device(settings.device));
  }

  torch::nn::Module& module() override { return *network_; }
  Json specification() const override {
    return {{"picture", json_of_scheme(network_->position->scheme())},
            {"text", json_of_scheme(network_->text_position->scheme())}};
  }

  LossSum loss(Part part, std::uint64_t seed, std::uint64_t step, BatchRange rows) override {
    std::vector<Scene> scenes;
    for (std::int64_t row = rows.begin; row < rows.end; ++row)
      scenes.push_back(scene(part, seed, mixed(step) + static_cast<std::uint64_t>(row),
                             settings_.train_length));
    const Batch batch = batch_of(scenes, settings_.train_length, part);
    const at::Tensor scores = network_->forward(batch, network_->position);
    return {
        at::cross_entropy_loss(scores, batch.right.to(scores.device()), {}, at::Reduction::Sum),
        rows.end - rows.begin};
  }

  std::optional<Evaluation> evaluate(const std::function<bool()>& stop) override {
    const at::NoGradGuard no_grad;
    return test_grids(
        settings_, network_->position, tables_, test_factor * settings_.eval_segments,
        1.0 / captions,
        [&](std::int64_t first, std::int64_t count, std::int64_t side,
            const libtorch::PositionScheme& grid) {
          const Batch batch = tests(first, count, side);
          return graded(network_->forward(batch, grid), batch.right);
        },
        stop);
  }

  void describe(RunResult& result) override {
    const at::NoGradGuard no_grad;
    for (const std::int64_t side : {settings_.train_length, settings_.longest()}) {
      const auto grid = at_side(network_->position, settings_.train_length, side, tables_);
      if (!grid) continue;
      const Scene shown = scene(Part::test, test_seed, 0, side);
      const std::int64_t chosen = network_->forward(batch_of({shown}, side, Part::test), *grid)
                                      .argmax(1)
                                      .item<std::int64_t>();
      result.samples.push_back({.context = side,
                                .prompt = as_text({shown.pixels}, side * patch_side),
                                .text = caption_text(shown, chosen),
                                .expected = caption_text(shown, shown.right)});
    }
  }

 private:
  static Batch tests(std::int64_t first, std::int64_t count, std::int64_t side) {
    std::vector<Scene> scenes;
    for (std::int64_t i = first; i < first + count; ++i)
      scenes.push_back(scene(Part::test, test_seed, static_cast<std::uint64_t>(i), side));
    return batch_of(scenes, side, Part::test);
  }

  Tables tables_;
  std::shared_ptr<Network> network_;
};

Corpus load(const Settings&) {
  Corpus corpus;
  corpus.source = "pictures of two shapes and two captions each, made by the program";
  corpus.split = "every picture is drawn anew";
  return corpus;
}

TaskDefaults defaults() {
  return {4,
          32,
          3,
          {2},
          "none,learned@resized,sinusoidal-grid,rotary-axial,rotary-axial@image,"
          "rotary-axial@text",
          4,
          64};
}

void check(const Settings& settings) {
  if (!settings.texts.empty())
    refuse("lab", "--task image-text must have no TEXT", settings.texts[0]);
  if (settings.train_length < objects)
    refuse("lab", "grids of --task image-text must have at least 2 patches a side",
           settings.train_length);
  if (settings.longest() > 64)
    refuse("lab", "grids of --task image-text must have at most 64 patches a side",
           settings.longest());
}

}  // namespace

Scene scene(Part part, std::uint64_t seed, std::uint64_t number, std::int64_t side) {
  Draws draws{scene_key, part, seed, number};
  Scene one;
  one.relation = draws.below(std::ssize(relations));
  one.shapes = different_ones(shape_count, draws);
  std::sort(one.shapes.begin(), one.shapes.end());
  one.rows = different_ones(side, draws);
  one.columns = different_ones(side, draws);
  const auto& places = one.relation == 0 ? one.columns : one.rows;
  one.right = places[0] < places[1] ? 0 : 1;
  const std::int64_t pixels = side * patch_side;
  Canvas canvas(pixels, static_cast<double>(pixels));
  for (std::size_t i = 0; i < one.shapes.size(); ++i) {
    // Ink ends before the edges of the patch.
    const double size = uniform(5, 6, draws), thickness = uniform(0.9, 1.4, draws),
                 reach = (patch_side - size) / 2 - thickness / 2 - 0.5,
                 left = static_cast<double>(one.columns[i] * patch_side) +
                        (patch_side - size) / 2 + uniform(-reach, reach, draws),
                 top = static_cast<double>(one.rows[i] * patch_side) + (patch_side - size) / 2 +
                       uniform(-reach, reach, draws);
    const Glyph lines = moved(shape_glyph(one.shapes[i]), [&](Point p) {
      return Point{left + size * p.x, top + size * p.y};
    });
    canvas.draw(lines, thickness, 0, static_cast<double>(pixels));
  }
  canvas.add_noise(0.1, draws);
  one.pixels = canvas.values();
  for (auto& words : one.easy) {
    words = caption(one, draws.below(captions));
    std::int64_t other;
    do {
      other = draws.below(shape_count);
    } while (contains(one.shapes, other));
    nth(words, 2 * draws.below(objects)) = other;
  }
  return one;
}

std::array<std::int64_t, words> caption(const Scene& scene, std::int64_t k) {
  const auto first = static_cast<std::size_t>(k);
  return {scene.shapes[first], shape_count + scene.relation, scene.shapes[1 - first]};
}

std::string caption_text(const Scene& scene, std::int64_t k) {
  std::string text;
  for (const std::int64_t word : caption(scene, k)) {
    text += text.empty() ? "" : " ";
    text += word < shape_count ? shapes[word] : relations[word - shape_count];
  }
  return text;
}

Sides sides_of(const std::string& encoding) {
  constexpr std::pair<std::string_view, std::string_view> counterparts[] = {
      {"sinusoidal-grid", "sinusoidal"},
      {"detr", "sinusoidal"},
      {"rotary-axial", "rotary"},
      {"axial", "learned"},
      {"axial-summed", "learned"},
      {"swin", "t5"},
      {"swin-v2", "t5"},
      {"decomposed", "t5"}};
  const Candidate candidate = find_candidate(encoding);
  Sides sides{candidate.scheme, candidate.scheme};
  for (const auto& [grid, line] : counterparts)
    if (candidate.scheme == grid) sides.text = line;
  if (candidate.suffix == "text") sides.picture = "none";
  if (candidate.suffix == "image") sides.text = "none";
  return sides;
}

}  // namespace gnomon::lab::image_text_examples

namespace gnomon::lab {

constinit const Task image_text_task{
    .name = "image-text",
    .title = "Pictures and captions",
    .summary =
        "the right one of two captions of a picture, which differ in the order of the words",
    .unit = "patches a side",
    .score = "right captions",
    .what = "the share of unseen pictures whose most likely caption is the right one",
    .chance =
        "a guess between the two captions, and the result without the order of the words or "
        "without the places of the patches",
    .loss = "bits per picture",
    .model_name =
        "picture encoder and text encoder with cross-attention, half of the layers each",
    .trained_on = "pictures of ",
    .samples = "The caption that each model gives to the same unseen picture.",
    .suffixes = "resized,text,image",
    .defaults = image_text_examples::defaults,
    .tokens = [](std::int64_t length) { return length * length; },
    .model = made<image_text_examples::ImageTextModel>,
    .load = image_text_examples::load,
    .check = image_text_examples::check,
    .stretches = image_examples::grid_stretches};

}  // namespace gnomon::lab
