#include "apps/lab/tasks/image.h"

#include <algorithm>

#include "apps/lab/data/lists.h"
#include "apps/lab/data/numbers.h"
#include "apps/lab/model/candidate.h"
#include "gnomon/error.h"

namespace gnomon::lab::image_examples {
namespace {

constexpr std::uint64_t digits_key = 0x6469676974, test_seed = 1;
constexpr std::int64_t patch_side = 4;  // pixels
constexpr std::int64_t shown_pictures = 4;

constexpr double unit_pixels = 24;  // a digit is about a quarter wide and 0.6 high, in units

// A digit in the half of the picture that begins at `half`. side: that of the picture, in
// units.
void draw_digit(Canvas& canvas, std::int64_t digit, double side, double half, Draws& draws) {
  const double width = uniform(0.22, 0.28, draws), height = uniform(0.5, 0.66, draws),
               slant = uniform(-0.12, 0.12, draws), thickness = uniform(0.05, 0.085, draws),
               middle_x = half + uniform(0.22, side / 2 - 0.22, draws),
               middle_y = uniform(0.4, side - 0.4, draws);
  const Glyph lines = moved(digit_glyph(digit), [&](Point p) {
    const double up = 0.5 - p.y;
    return Point{middle_x + (p.x - 0.5) * width + slant * up, middle_y - up * height};
  });
  canvas.draw(lines, thickness, half, half + side / 2);
}

// Patch embedding, encoder, mean over the patches, classes.
struct Network : torch::nn::Module {
  Network(const Settings& settings, model::Scheme scheme, std::int64_t classes,
          std::uint64_t seed) {
    at::Generator shared = seeded_generator(2 * seed);
    const EncoderSizes sizes{settings.layers, settings.width, settings.heads};
    embedding = register_module("embedding", patch_embedding(patch_side, sizes.width, shared));
    encoder = register_module("encoder",
                              Bidirectional(sizes, CrossAttention::none, Init::fan_in, shared));
    head = register_module("head",
                           drawn_linear(sizes.width, classes, Block::weight_deviation, shared));
    position = register_module(
        "position",
        libtorch::PositionScheme(std::move(scheme), seeded_generator(2 * seed + 1)));
  }
  // pixels: [B, P, P]. Returns the logits of the classes, [B, classes].
  at::Tensor forward(const at::Tensor& pixels, const libtorch::PositionScheme& at) {
    return head(encoder->encode(embedding(patches_of(pixels, patch_side)), at).mean(1));
  }

  torch::nn::Linear embedding{nullptr}, head{nullptr};
  Bidirectional encoder{nullptr};
  libtorch::PositionScheme position{nullptr};
};

class ImageModel final : public TaskModel {
 public:
  ImageModel(const Settings& settings, const Corpus& corpus, const std::string& encoding,
             std::int64_t seed)
      : TaskModel(settings), data_(dynamic_cast<const ImageData&>(*corpus.data)) {
    const Candidate candidate = find_candidate(encoding);
    tables_ = candidate.suffix == "resized" ? Tables::resized : Tables::fixed;
    network_ = std::make_shared<Network>(
        settings,
        grid_scheme(candidate.scheme, {settings.layers, settings.width, settings.heads},
                    settings.train_length, tables_),
        std::ssize(data_.classes), static_cast<std::uint64_t>(seed));
    network_->to(torch::Device(settings.device));
  }

  torch::nn::Module& module() override { return *network_; }
  Json specification() const override { return json_of_scheme(network_->position->scheme()); }

  LossSum loss(Part part, std::uint64_t seed, std::uint64_t step, BatchRange rows) override {
    const Pictures batch = data_.batch(part, seed, step, rows, settings_.train_length);
    const torch::Device device(settings_.device);
    const at::Tensor logits = network_->forward(input(batch), network_->position);
    return {at::cross_entropy_loss(logits, batch.labels.to(device), {}, at::Reduction::Sum),
            rows.end - rows.begin};
  }

  std::optional<Evaluation> evaluate(const std::function<bool()>& stop) override {
    const at::NoGradGuard no_grad;
    const std::int64_t count = data_.test_count(test_factor * settings_.eval_segments);
    return test_grids(
        settings_, network_->position, tables_, count, data_.chance(count),
        [&](std::int64_t first, std::int64_t some, std::int64_t side,
            const libtorch::PositionScheme& position) {
          const Pictures tests = data_.tests(first, some, side);
          return graded(network_->forward(input(tests), position), tests.labels);
        },
        stop);
  }

  void describe(RunResult& result) override {
    const at::NoGradGuard no_grad;
    for (const std::int64_t side : {settings_.train_length, settings_.longest()}) {
      const auto position = at_side(network_->position, settings_.train_length, side, tables_);
      if (!position) continue;
      const std::int64_t count = data_.test_count(shown_pictures);
      const Pictures tests = data_.tests(0, count, side);
      const at::Tensor chosen = network_->forward(input(tests), *position).argmax(1).cpu();
      Sample sample{.context = side};
      std::vector<std::vector<float>> pictures;
      for (std::int64_t i = 0; i < count; ++i) {
        // Dots are ink: the dark pixels of a file.
        const at::Tensor one =
            (data_.drawn() ? tests.pixels[i] : 1 - tests.pixels[i]).contiguous();
        pictures.emplace_back(one.data_ptr<float>(), one.data_ptr<float>() + one.numel());
        const auto name = [&](const at::Tensor& label) {
          return (i > 0 ? " " : "") + nth(data_.classes, label[i].item<std::int64_t>());
        };
        sample.text += name(chosen);
        sample.expected += name(tests.labels);
      }
      sample.prompt = as_text(pictures, side * patch_side);
      result.samples.push_back(std::move(sample));
    }
  }

 private:
  at::Tensor input(const Pictures& pictures) const {
    return (pictures.pixels.to(settings_.device) - data_.mean) * data_.scale;
  }

  const ImageData& data_;
  Tables tables_;
  std::shared_ptr<Network> network_;
};

// FNV-1a of the pictures and their labels.
std::string digest(const ImageData& data) {
  std::uint64_t hash = fnv1a({});
  const auto add = [&](const void* bytes, std::int64_t count) {
    hash = fnv1a({static_cast<const char*>(bytes), static_cast<std::size_t>(count)}, hash);
  };
  for (const std::string& name : data.classes) add(name.c_str(), std::ssize(name) + 1);
  for (const PictureSet* set :
       {&data.folder.train, &data.folder.validation, &data.folder.test}) {
    if (!set->pixels.defined()) continue;
    add(set->pixels.data_ptr(), set->pixels.numel());
    add(set->labels.data(), std::ssize(set->labels) * 8);
  }
  return std::to_string(hash);
}

TaskDefaults defaults() {
  return {
      6, 32, 1, {2}, "none,learned@resized,sinusoidal-grid,rotary-axial,swin@resized,rotary",
      4, 64};
}

void check(const Settings& settings) {
  constexpr std::int64_t most = 64;
  if (settings.longest() > most)
    refuse("lab", "grids of --task image must have at most 64 patches a side",
           settings.longest());
  if (settings.texts.size() > 1)
    refuse("lab", "--task image must have one folder at most", settings.texts[1]);
}

}  // namespace

DigitPicture digit_picture(Part part, std::uint64_t seed, std::uint64_t number,
                           std::int64_t pixels) {
  Draws draws{digits_key, part, seed, number};
  DigitPicture picture;
  picture.left = draws.below(digits);
  picture.right = draws.below(digits);
  const double side = std::max(1.0, static_cast<double>(pixels) / unit_pixels);
  Canvas canvas(pixels, side);
  draw_digit(canvas, picture.left, side, 0, draws);
  draw_digit(canvas, picture.right, side, side / 2, draws);
  canvas.add_noise(uniform(0, 0.2, draws), draws);
  picture.pixels = canvas.values();
  return picture;
}

Pictures ImageData::pictures(Part part, std::uint64_t seed, std::uint64_t first,
                             BatchRange rows, std::int64_t side) const {
  const std::int64_t pixels = side * patch_side;
  const PictureSet& set = part == Part::train        ? folder.train
                          : part == Part::validation ? folder.validation
                                                     : folder.test;
  std::vector<at::Tensor> all;
  std::vector<std::int64_t> labels;
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    const std::uint64_t number = first + static_cast<std::uint64_t>(row);
    if (drawn()) {
      const DigitPicture one = digit_picture(part, seed, number, pixels);
      all.push_back(at::tensor(one.pixels).view({pixels, pixels}));
      labels.push_back(one.left);
    } else {
      const std::int64_t i =
          part == Part::test ? row : Draws{seed, number}.below(std::ssize(set.labels));
      all.push_back(set.pixels[i].to(at::kFloat).div(255));
      labels.push_back(nth(set.labels, i));
    }
  }
  return {resized_pictures(at::stack(all), pixels), at::tensor(labels, at::kLong)};
}

Pictures ImageData::batch(Part part, std::uint64_t seed, std::uint64_t step, BatchRange rows,
                          std::int64_t side) const {
  return pictures(part, seed, mixed(step), rows, side);
}

Pictures ImageData::tests(std::int64_t first, std::int64_t count, std::int64_t side) const {
  return pictures(Part::test, test_seed, 0, {first, first + count}, side);
}

std::int64_t ImageData::test_count(std::int64_t wanted) const {
  return drawn() ? wanted : std::min(wanted, std::ssize(folder.test.labels));
}

double ImageData::chance(std::int64_t count) const {
  if (drawn()) return 1.0 / static_cast<double>(digits);
  std::vector<std::int64_t> counts(classes.size());
  for (const std::int64_t label : folder.train.labels) ++nth(counts, label);
  const auto most = std::max_element(counts.begin(), counts.end()) - counts.begin();
  return static_cast<double>(
             std::count(folder.test.labels.begin(), folder.test.labels.begin() + count, most)) /
         static_cast<double>(count);
}

Corpus load(const Settings& settings) {
  auto data = std::make_shared<ImageData>();
  Corpus corpus;
  if (settings.texts.empty()) {
    for (std::int64_t digit = 0; digit < digits; ++digit)
      data->classes.push_back(std::to_string(digit));
    corpus.source =
        "two digits in each picture, drawn by the program; the left one is the class";
    corpus.split = "every picture is drawn anew";
  } else {
    data->folder = read_folder(settings.texts[0], settings.longest() * patch_side);
    data->classes = data->folder.classes;
    constexpr std::int64_t most = 1000;  // read in random order
    const at::Tensor& train = data->folder.train.pixels;
    const at::Tensor some =
        train.narrow(0, 0, std::min(most, train.size(0))).to(at::kFloat).div(255);
    data->mean = some.mean().item<double>();
    data->scale = 0.5 / std::max(1e-3, some.std().item<double>());
    corpus.source =
        settings.texts[0] + ": " + std::to_string(data->classes.size()) + " classes";
    const auto count = [](const PictureSet& set) { return std::to_string(set.labels.size()); };
    corpus.split = "of each class at random: " + count(data->folder.train) +
                   " pictures train, " + count(data->folder.validation) + " validate, " +
                   count(data->folder.test) + " test";
    corpus.digest = digest(*data);
  }
  corpus.data = std::move(data);
  return corpus;
}

Graded graded(const at::Tensor& logits, const at::Tensor& right) {
  constexpr double rounding = 1e-4;
  const at::Tensor labels = right.to(logits.device());
  const at::Tensor best = logits.ge(logits.amax(1, true) - rounding).to(at::kFloat);
  const at::Tensor right_shares =
      best.gather(1, labels.unsqueeze(1)).div(best.sum(1, true)).view(-1).cpu();
  const auto* shares = right_shares.data_ptr<float>();
  return {{shares, shares + right_shares.numel()},
          at::cross_entropy_loss(logits, labels, {}, at::Reduction::Sum).item<double>()};
}

std::optional<Evaluation> test_grids(const Settings& settings,
                                     const libtorch::PositionScheme& trained, Tables tables,
                                     std::int64_t count, double chance, const GradeTests& grade,
                                     const std::function<bool()>& stop) {
  Evaluation found{.stretches = grid_stretches(settings)};
  for (Stretch& one : found.stretches) {
    one.chance_score = chance;
    double nats = 0;
    // A part of the pictures for each grid of the stretch.
    const std::int64_t grids = one.to - one.from + 1;
    for (std::int64_t part = 0; part < grids; ++part) {
      const auto position = at_side(trained, settings.train_length, one.from + part, tables);
      one.applicable = position.has_value();
      if (!position) break;
      const std::int64_t end = count * (part + 1) / grids;
      for (std::int64_t first = count * part / grids; first < end; first += settings.batch) {
        if (stop()) return std::nullopt;
        const Graded some =
            grade(first, std::min(settings.batch, end - first), one.from + part, *position);
        nats += some.nats;
        for (std::size_t i = 0; i < some.right.size(); ++i) {
          one.scores.push_back(some.right[i]);
          one.sources.push_back(first + static_cast<std::int64_t>(i));
        }
      }
    }
    if (!one.applicable) continue;
    one.examples = count;
    one.score = mean(one.scores);
    one.bits = nats / static_cast<double>(count) * bits_per_nat;
  }
  return found;
}

std::vector<Stretch> grid_stretches(const Settings& settings) {
  const std::int64_t trained = settings.train_length,
                     width = std::max<std::int64_t>(1, trained / 2);
  std::vector<Stretch> all{{trained, trained, trained}};
  for (const std::int64_t length : settings.eval_lengths)
    while (all.back().to < length) {
      const std::int64_t from = all.back().to + 1;
      all.push_back({from, std::min(length, from + width - 1), length});
    }
  return all;
}

}  // namespace gnomon::lab::image_examples

namespace gnomon::lab {

constinit const Task image_task{
    .name = "image",
    .title = "Pictures",
    .summary = "the class of a picture from its patches",
    .unit = "patches a side",
    .score = "right labels",
    .what = "the share of unseen pictures whose most likely class is the right one",
    .chance = "the best guess that does not see the picture, the most frequent class",
    .loss = "bits per picture",
    .model_name = "Vision Transformer (mean over patches of 4 x 4 pixels)",
    .trained_on = "pictures of ",
    .samples = "The class that each model gives to the same unseen pictures.",
    .suffixes = "resized",
    .defaults = image_examples::defaults,
    .tokens = [](std::int64_t length) { return length * length; },
    .model = made<image_examples::ImageModel>,
    .load = image_examples::load,
    .check = image_examples::check,
    .stretches = image_examples::grid_stretches};

}  // namespace gnomon::lab
