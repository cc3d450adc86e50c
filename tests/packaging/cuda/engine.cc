// The use of the component cuda by an engine: rotates new keys into a paged cache on the GPU.
// Without a GPU, checks that the failed call is an exception with its name.
#include <gnomon/cuda/append.h>
#include <gnomon/cuda/device.h>
#include <gnomon/cuda/table.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

namespace {

using namespace gnomon;

int rotate_on_gpu() {
  constexpr std::int64_t tokens = 3, heads = 2, head_dim = 64, blocks = 4, entries = 16;
  const RotaryFrequencies frequencies =
      lower(Rotary{.rotary_dim = head_dim, .pairing = Pairing::halves, .base = 5e5});
  const std::vector<float> ones(tokens * heads * head_dim, 1.0f);
  const std::vector<std::int64_t> where = {5, 17, 40};
  const cuda::RotaryTable table(frequencies, 100, tokens);
  const cuda::Array<float> k{std::span<const float>(ones)};
  const cuda::Array<float> pages(blocks * entries * heads * head_dim);
  const cuda::Array<std::int64_t> slots{std::span<const std::int64_t>(where)};
  const View<const float, 3> new_keys(k.data(), {tokens, heads, head_dim});
  const View<float, 4> cache(pages.data(), {blocks, entries, heads, head_dim});
  const View<const std::int64_t, 1> places(slots.data(), {tokens});
  cuda::rotate_append({}, cuda::on_device(new_keys), {}, table.rotation(),
                      {.keys = cuda::on_device(cache), .slots = cuda::on_device(places)});
  cuda::synchronize();
  const float first = pages.to_host()[5 * heads * head_dim];
  const double want = std::cos(100.0) - std::sin(100.0);
  std::printf("first element of the first key: %.7f, expected %.7f\n", first, want);
  return std::fabs(first - want) < 1e-6 ? 0 : 1;
}

}  // namespace

int main() {
  if (cuda::device_count() > 0) return rotate_on_gpu();
  try {
    rotate_on_gpu();
  } catch (const cuda::Error& error) {
    std::printf("no GPU: %s\n", error.what());
    return std::strncmp(error.what(), "[cuda] cuda", 11) == 0 ? 0 : 1;
  }
  return 1;
}
