// Trains the small ViT whose position table is apps/cli/data/vit_positions.npy, on one thread:
//
//   torch=/usr  # LibTorch 1.13 of Debian; 4.7 minutes of CPU time
//   g++ -std=c++20 -O2 -I$torch/include/torch/csrc/api/include tools/vit/positions.cc \
//       -ltorch -ltorch_cpu -lc10 -o build/vit && build/vit vit_positions.npy 4000
//
// Images: 32 x 32 gray values with 1 to 3 drawn shapes (disks, rectangles, triangles) on a
// background with a linear gradient. Patches: 8 x 8 of 4 x 4 pixels. Task: half of the patches
// are replaced by one trained vector, and the model predicts their pixels; the loss is the mean
// square error on them. Model: width 64, 2 pre-norm layers, 4 heads, MLP of 256, a learned
// table of 64 positions with initial deviation 0.02. AdamW, learning rate 1e-3 with warm-up of
// 100 steps and cosine decay, weight decay 0.05, batches of 32, seed 1.
#include <torch/torch.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>

namespace {

constexpr int side = 32, patch = 4, grid = side / patch, positions = grid * grid;
constexpr int width = 64, layers = 2, heads = 4, batch = 32;

// Draws one image into `pixels` [32 * 32].
void draw(std::mt19937_64& engine, float* pixels) {
  std::uniform_real_distribution<float> unit(0, 1);
  const float base = unit(engine), right = unit(engine) - 0.5f, down = unit(engine) - 0.5f;
  for (int y = 0; y < side; ++y)
    for (int x = 0; x < side; ++x) pixels[y * side + x] = base + (right * x + down * y) / side;
  const int shapes = 1 + static_cast<int>(3 * unit(engine));
  for (int s = 0; s < shapes; ++s) {
    const int kind = static_cast<int>(3 * unit(engine));
    const float cx = side * unit(engine), cy = side * unit(engine), size = 4 + 8 * unit(engine),
                shade = 2 * unit(engine) - 0.5f;
    for (int y = 0; y < side; ++y)
      for (int x = 0; x < side; ++x) {
        const float dx = x - cx, dy = y - cy;
        const bool inside = kind == 0 ? dx * dx + dy * dy < size * size
                            : kind == 1
                                ? std::abs(dx) < size && std::abs(dy) < 0.7f * size
                                : dy > -size && dy < size && std::abs(dx) < 0.5f * (dy + size);
        if (inside) pixels[y * side + x] = shade;
      }
  }
}

// [batch, positions, patch * patch], with mean 0 and deviation about 1.
torch::Tensor images(std::mt19937_64& engine) {
  torch::Tensor all = torch::empty({batch, side, side});
  for (int b = 0; b < batch; ++b) draw(engine, all.data_ptr<float>() + b * side * side);
  return ((all - 0.5) / 0.5)
      .reshape({batch, grid, patch, grid, patch})
      .permute({0, 1, 3, 2, 4})
      .reshape({batch, positions, patch * patch});
}

struct Layer : torch::nn::Module {
  torch::nn::LayerNorm first{nullptr}, second{nullptr};
  torch::nn::Linear qkv{nullptr}, out{nullptr}, up{nullptr}, down{nullptr};

  Layer() {
    first = register_module("first", torch::nn::LayerNorm(std::vector<int64_t>{width}));
    second = register_module("second", torch::nn::LayerNorm(std::vector<int64_t>{width}));
    qkv = register_module("qkv", torch::nn::Linear(width, 3 * width));
    out = register_module("out", torch::nn::Linear(width, width));
    up = register_module("up", torch::nn::Linear(width, 4 * width));
    down = register_module("down", torch::nn::Linear(4 * width, width));
  }

  torch::Tensor forward(torch::Tensor x) {
    const auto parts = qkv(first(x))
                           .reshape({batch, positions, 3, heads, width / heads})
                           .permute({2, 0, 3, 1, 4});
    const auto weights =
        (torch::matmul(parts[0], parts[1].transpose(-2, -1)) / std::sqrt(width / heads))
            .softmax(-1);
    x = x + out(torch::matmul(weights, parts[2])
                    .transpose(1, 2)
                    .reshape({batch, positions, width}));
    return x + down(torch::gelu(up(second(x))));
  }
};

struct Vit : torch::nn::Module {
  torch::nn::Linear in{nullptr}, pixels{nullptr};
  torch::nn::LayerNorm norm{nullptr};
  torch::Tensor table, masked;
  std::vector<std::shared_ptr<Layer>> stack;

  Vit() {
    in = register_module("in", torch::nn::Linear(patch * patch, width));
    pixels = register_module("pixels", torch::nn::Linear(width, patch * patch));
    norm = register_module("norm", torch::nn::LayerNorm(std::vector<int64_t>{width}));
    table = register_parameter("table", 0.02 * torch::randn({positions, width}));
    masked = register_parameter("masked", 0.02 * torch::randn({width}));
    for (int l = 0; l < layers; ++l)
      stack.push_back(register_module("layer" + std::to_string(l), std::make_shared<Layer>()));
  }

  // hidden: [batch, positions, 1], 1 for masked patches.
  torch::Tensor loss(const torch::Tensor& patches, const torch::Tensor& hidden) {
    torch::Tensor x = in(patches) * (1 - hidden) + masked * hidden + table;
    for (const auto& layer : stack) x = layer->forward(x);
    const auto error = (pixels(norm(x)) - patches).square().mean(-1, true) * hidden;
    return error.sum() / hidden.sum();
  }
};

void write_npy(const std::string& path, const torch::Tensor& table) {
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" +
                       std::to_string(table.size(0)) + ", " + std::to_string(table.size(1)) +
                       "), }";
  header.resize(64 * ((header.size() + 10) / 64 + 1) - 11, ' ');
  header += '\n';
  std::ofstream file(path, std::ios::binary);
  file.write("\x93NUMPY\x01\x00", 8);
  file.put(static_cast<char>(header.size() % 256)).put(static_cast<char>(header.size() / 256));
  file << header;
  file.write(reinterpret_cast<const char*>(table.data_ptr<float>()), table.numel() * 4);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return std::fputs("usage: vit FILE.npy STEPS\n", stderr), 2;
  const int steps = std::atoi(argv[2]);
  torch::set_num_threads(1);
  torch::manual_seed(1);
  std::mt19937_64 engine(1);
  Vit model;
  torch::optim::AdamW optimizer(model.parameters(),
                                torch::optim::AdamWOptions(1e-3).weight_decay(0.05));
  double mean = 0;
  for (int step = 0; step < steps; ++step) {
    const double rate = step < 100 ? step / 100.0 : 0.5 + 0.5 * std::cos(M_PI * step / steps);
    static_cast<torch::optim::AdamWOptions&>(optimizer.param_groups()[0].options())
        .lr(1e-3 * rate);
    const auto hidden = (torch::rand({batch, positions, 1}) < 0.5).to(torch::kFloat);
    optimizer.zero_grad();
    const auto loss = model.loss(images(engine), hidden);
    loss.backward();
    optimizer.step();
    mean = step == 0 ? loss.item<double>() : 0.99 * mean + 0.01 * loss.item<double>();
    if ((step + 1) % 250 == 0) {
      std::printf("step %d, loss %.4f\n", step + 1, mean);
      std::fflush(stdout);
      write_npy(argv[1], model.table.detach().contiguous());
    }
  }
}
