// The kernels of a CUDA device, and their roofs: a copy of the same bytes within the device.
#include <algorithm>
#include <memory>
#include <numeric>

#include "bench/kernels/kernels.h"
#include "gnomon/error.h"

#if GNOMON_HAS_CUDA
#include <fmt/format.h>

#include "gnomon/cuda/append.h"
#include "gnomon/cuda/device.h"
#include "gnomon/cuda/embedding.h"
#include "gnomon/cuda/rotate.h"
#include "gnomon/cuda/table.h"
#endif

namespace gnomon::bench {

#if GNOMON_HAS_CUDA

namespace {

using std::int64_t;

constexpr int64_t query_heads = 32, key_heads = 8, head_dim = 128;

RoofRun copying(int64_t bytes) {
  auto from = std::make_shared<cuda::Memory>(static_cast<std::size_t>(bytes)),
       to = std::make_shared<cuda::Memory>(static_cast<std::size_t>(bytes));
  return {[=] { cuda::copy(to->data(), from->data(), from->bytes()); },
          static_cast<double>(bytes)};
}

// Zeros: the time of a rotation does not depend on the numbers.
template <typename T>
struct Heads {
  cuda::Array<T> values;
  std::array<int64_t, 3> shape;

  Heads(int64_t tokens, int64_t heads)
      : values(std::vector<T>(static_cast<std::size_t>(tokens * heads * head_dim))),
        shape{tokens, heads, head_dim} {}
  View<T, 3> view() const { return {values.data(), shape}; }
};

RotaryFrequencies frequencies(Pairing pairing) {
  return lower(Rotary{.rotary_dim = head_dim, .pairing = pairing, .base = 5e5});
}

template <typename T>
struct Inputs {
  Heads<T> q, k, v;
  cuda::RotaryTable table;
  cuda::Frequencies there;
  cuda::Array<int64_t> positions;

  Inputs(int64_t tokens, Pairing pairing)
      : q(tokens, query_heads),
        k(tokens, key_heads),
        v(tokens, key_heads),
        table(frequencies(pairing), 0, tokens),
        there(frequencies(pairing)) {
    std::vector<int64_t> ids(static_cast<std::size_t>(tokens));
    std::iota(ids.begin(), ids.end(), 0);
    positions = cuda::Array<int64_t>(std::span<const int64_t>(ids));
  }
  int64_t tokens() const { return q.shape[0]; }
};

std::string text(DType type, Pairing pairing, int64_t tokens) {
  return fmt::format("{} {} [{}, {} + {}, {}]", name(type),
                     pairing == Pairing::halves ? "halves" : "adjacent", tokens, query_heads,
                     key_heads, head_dim);
}

template <typename T>
Kernel rotate_kernel(int64_t tokens, Pairing pairing) {
  const auto x = std::make_shared<Inputs<T>>(tokens, pairing);
  const int64_t bytes =
      tokens * (query_heads + key_heads) * head_dim * static_cast<int64_t>(sizeof(T));
  return {.name = "rotate",
          .detail = text(dtype_of<T>, pairing, tokens),
          .roof = Roof::memory,
          .work = static_cast<double>(bytes),
          .run =
              [x] {
                cuda::rotate(cuda::on_device(x->q.view()), cuda::on_device(x->k.view()),
                             x->table.rotation());
              },
          .make_roof = [bytes] { return copying(bytes); },
          .error = {},
          .finish = [] { cuda::synchronize(); }};
}

template <typename T>
Kernel decode_kernel(int64_t tokens, Pairing pairing) {
  const auto x = std::make_shared<Inputs<T>>(tokens, pairing);
  const int64_t bytes =
      tokens * (query_heads + key_heads) * head_dim * static_cast<int64_t>(sizeof(T));
  return {.name = "decode",
          .detail = text(dtype_of<T>, pairing, tokens),
          .roof = Roof::memory,
          .work = static_cast<double>(bytes),
          .run =
              [x] {
                const View<const int64_t, 1> at(x->positions.data(), {x->tokens()});
                cuda::rotate_at(cuda::on_device(x->q.view()), cuda::on_device(x->k.view()),
                                cuda::on_device(at), x->there);
              },
          .make_roof = [bytes] { return copying(bytes); },
          .error = {},
          .finish = [] { cuda::synchronize(); }};
}

// Appends to a cache of the element type U: T, or std::uint8_t for E4M3.
template <typename T, typename U>
Kernel device_append_kernel(int64_t tokens) {
  constexpr int64_t entries = 16;
  const int64_t blocks = (tokens + entries - 1) / entries;
  struct Cache {
    cuda::Array<U> keys, values;
    cuda::Array<float> scale;
  };
  const auto x = std::make_shared<Inputs<T>>(tokens, Pairing::halves);
  const auto size = static_cast<std::size_t>(blocks * entries * key_heads * head_dim);
  const auto cache = std::make_shared<Cache>(
      Cache{cuda::Array<U>(size), cuda::Array<U>(size),
            cuda::Array<float>(std::span<const float>(std::vector<float>{0.1f}))});
  // Reads q, k and v; writes q and the entries. The roof reads and writes the same bytes.
  const int64_t moved = tokens * head_dim *
                        ((2 * query_heads + 2 * key_heads) * static_cast<int64_t>(sizeof(T)) +
                         2 * key_heads * static_cast<int64_t>(sizeof(U)));
  return {.name = "append",
          .detail =
              text(dtype_of<T>, Pairing::halves, tokens) + (sizeof(U) == 1 ? " to f8e4m3" : ""),
          .roof = Roof::memory,
          .work = static_cast<double>(moved / 2),
          .run =
              [x, cache, blocks] {
                const View<U, 4> keys(cache->keys.data(),
                                      {blocks, entries, key_heads, head_dim}),
                    values(cache->values.data(), {blocks, entries, key_heads, head_dim});
                const View<const int64_t, 1> at(x->positions.data(), {x->tokens()});
                const View<const float, 1> scale(cache->scale.data(), {1});
                cuda::PagedCache paged{.keys = cuda::on_device(keys),
                                       .values = cuda::on_device(values),
                                       .slots = cuda::on_device(at)};
                if (sizeof(U) == 1)
                  paged.key_scales = paged.value_scales = cuda::on_device(scale);
                cuda::rotate_append(cuda::on_device(x->q.view()), cuda::on_device(x->k.view()),
                                    cuda::on_device(x->v.view()), x->table.rotation(), paged);
              },
          .make_roof = [moved] { return copying(moved / 2); },
          .error = {},
          .finish = [] { cuda::synchronize(); }};
}

Kernel table_kernel(int64_t tokens) {
  struct Table {
    cuda::Frequencies there;
    cuda::Array<float> values;
  };
  const int64_t pairs = head_dim / 2, bytes = tokens * head_dim * 4;
  const auto table = std::make_shared<Table>(
      Table{cuda::Frequencies(frequencies(Pairing::halves)),
            cuda::Array<float>(static_cast<std::size_t>(tokens * head_dim))});
  return {.name = "table",
          .detail = fmt::format("cos and sin [{}, {}]", tokens, pairs),
          .roof = Roof::memory,
          .work = static_cast<double>(bytes),
          .run =
              [table, tokens, pairs] {
                const View<float, 2> cos(table->values.data(), {tokens, pairs}),
                    sin(table->values.data() + tokens * pairs, {tokens, pairs});
                cuda::fill_cos_sin(table->there, 0, cuda::on_device(cos), cuda::on_device(sin));
              },
          .make_roof =
              [bytes] {
                auto to = std::make_shared<cuda::Memory>(static_cast<std::size_t>(bytes));
                return RoofRun{[to] { cuda::clear(to->data(), to->bytes()); },
                               static_cast<double>(bytes)};
              },
          .error = {},
          .finish = [] { cuda::synchronize(); }};
}

// A table of float added to embeddings of the width 4096.
Kernel add_kernel(int64_t tokens) {
  constexpr int64_t width = 4096;
  struct Embeddings {
    cuda::Array<BFloat16> x;
    cuda::Array<float> table;
    std::array<int64_t, 2> shape;
  };
  const auto size = static_cast<std::size_t>(tokens * width);
  const auto all = std::make_shared<Embeddings>(
      Embeddings{cuda::Array<BFloat16>(std::vector<BFloat16>(size)),
                 cuda::Array<float>(std::vector<float>(size)),
                 {tokens, width}});
  // Reads x and the table, writes x. The roof reads and writes the same bytes.
  const int64_t moved = tokens * width * (2 + 4 + 2);
  return {.name = "add",
          .detail = fmt::format("bf16 [{}, {}]", tokens, width),
          .roof = Roof::memory,
          .work = static_cast<double>(moved / 2),
          .run =
              [all] {
                const View<BFloat16, 2> x(all->x.data(), all->shape);
                const View<const float, 2> table(all->table.data(), all->shape);
                cuda::add_table(cuda::on_device(x), cuda::on_device(table));
              },
          .make_roof = [moved] { return copying(moved / 2); },
          .error = {},
          .finish = [] { cuda::synchronize(); }};
}

}  // namespace

std::vector<KernelMaker> cuda_kernels(std::string_view wanted, std::optional<int64_t> only) {
  if (cuda::device_count() == 0) refuse("bench", "--device cuda requires a GPU", "none");
  std::vector<int64_t> lengths = {1, 64, 1024, 8192, 32768};
  if (only) lengths = {*only};
  std::vector<KernelMaker> all;
  const auto add = [&](const char* kernel, std::function<Kernel()> make) {
    if (std::string_view(kernel).starts_with(wanted)) all.push_back({kernel, std::move(make)});
  };
  for (const int64_t tokens : lengths) {
    for (const Pairing pairing : {Pairing::halves, Pairing::adjacent}) {
      add("rotate", [=] { return rotate_kernel<BFloat16>(tokens, pairing); });
      add("rotate", [=] { return rotate_kernel<float>(tokens, pairing); });
    }
    add("decode", [=] { return decode_kernel<BFloat16>(tokens, Pairing::halves); });
    add("append", [=] { return device_append_kernel<BFloat16, BFloat16>(tokens); });
    add("append", [=] { return device_append_kernel<BFloat16, std::uint8_t>(tokens); });
    add("table", [=] { return table_kernel(tokens); });
    add("add", [=] { return add_kernel(tokens); });
  }
  if (all.empty())
    refuse("bench", "NAME must begin with one of add, append, decode, rotate, table", wanted);
  return all;
}

std::string cuda_device() { return cuda::device_name(0); }

#else

std::vector<KernelMaker> cuda_kernels(std::string_view, std::optional<std::int64_t>) {
  refuse("bench", "--device cuda requires a build with the component cuda (GNOMON_COMPONENTS)",
         "one without");
}
std::string cuda_device() { return {}; }

#endif

}  // namespace gnomon::bench
