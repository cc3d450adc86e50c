// Operations of the component core when memory is exhausted: std::bad_alloc, never the end of
// the process, wherever the allocation fails, also in another thread.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <vector>

#include "allocations.h"
#include "gnomon/angles.h"
#include "gnomon/attention/attention.h"
#include "gnomon/attention/cosine.h"
#include "gnomon/attention/kv_cache.h"
#include "gnomon/attention/layer_plan.h"
#include "gnomon/attention/paged_kv_cache.h"
#include "gnomon/attention/qk_norm.h"
#include "gnomon/attention/segment_memory.h"
#include "gnomon/bias/alibi.h"
#include "gnomon/bias/graphormer.h"
#include "gnomon/bias/kerple.h"
#include "gnomon/bias/sandwich.h"
#include "gnomon/bias/wavlm.h"
#include "gnomon/embedding/axial.h"
#include "gnomon/embedding/cross_modal.h"
#include "gnomon/embedding/fourier.h"
#include "gnomon/embedding/grid.h"
#include "gnomon/embedding/laplacian.h"
#include "gnomon/embedding/learned_fourier.h"
#include "gnomon/embedding/projection.h"
#include "gnomon/embedding/random_walk.h"
#include "gnomon/embedding/resize.h"
#include "gnomon/embedding/sinusoidal.h"
#include "gnomon/embedding/table.h"
#include "gnomon/graph/laplacian_vectors.h"
#include "gnomon/isa.h"
#include "gnomon/parallel.h"
#include "gnomon/position/graph.h"
#include "gnomon/position/multimodal.h"
#include "gnomon/position/patches.h"
#include "gnomon/relative/shaw.h"
#include "gnomon/rotary/cached_keys.h"
#include "gnomon/rotary/complex.h"
#include "gnomon/rotary/decoding.h"
#include "gnomon/rotary/int8_keys.h"
#include "gnomon/rotary/scaling.h"
#include "gnomon/rotary/temperature.h"
#include "gnomon/rotary/vjepa2.h"
#include "gnomon/rotary/xpos.h"
#include "testing.h"

namespace gnomon {
namespace exhausted_memory_test {

using testing::random_tensor;
using testing::Tensor;

// Each test with several threads, of OpenMP and of the pool.
class ExhaustedMemory : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam()) set_executor(thread_pool_executor(3));
    set_threads(3);
  }
  void TearDown() override {
    set_executor({});
    set_threads(before_);
    std::printf("%lld failing allocations\n", static_cast<long long>(failures_));
  }
  void exhaust(const char* name, const std::function<void()>& operation) {
    failures_ += testing::exhaust(name, operation);
  }

 private:
  int before_ = threads();
  std::int64_t failures_ = 0;
};
INSTANTIATE_TEST_SUITE_P(, ExhaustedMemory, ::testing::Bool());

constexpr std::int64_t batch = 2, tokens = 300, heads = 4, size = 16, width = heads * size;

TEST_P(ExhaustedMemory, Parallel) {
  exhaust("each piece allocates",
          [] { parallel_for(64, 1, [](auto, auto) { std::vector<double> numbers(8, 1.0); }); });
  exhaust("executor", [] { set_executor(executor()), available_isas(), current_isa(); });
}

TEST_P(ExhaustedMemory, Tables) {
  const auto table = random_tensor<float, 2>({tokens, width}, 1);
  auto x = random_tensor<float, 3>({batch, tokens, width}, 2), many = x;
  Tensor<float, 2> grad({tokens, width});
  Tensor<std::int64_t, 2> rows({batch, tokens});
  for (std::size_t i = 0; i < rows.values.size(); ++i)
    rows.values[i] = static_cast<std::int64_t>(i * 7 % tokens);
  exhaust("add_table", [&] { add_table(x.view(), table.view(), 2); });
  exhaust("add_rows", [&] { add_rows(x.view(), table.view(), rows.view()); });
  exhaust("add_table_backward", [&] { add_table_backward(x.view(), 1, grad.view()); });
  exhaust("add_rows_backward", [&] { add_rows_backward(x.view(), rows.view(), grad.view()); });
  const Sinusoidal sinusoidal{.width = width, .recipe = SinusoidalRecipe::half_split};
  exhaust("sinusoidal", [&] { lower(sinusoidal, consecutive(3 * tokens).ids); });
  exhaust("cos and sin", [&] {
    std::vector<float> cos(tokens * 8), sin(cos);
    RotaryTable({.rotary_dim = size, .pairing = Pairing::halves}, consecutive(20 * tokens));
  });
  const SinusoidalGrid mae = grid_mae(width);
  exhaust("grid", [&] { fill(mae, grid(15, 20), grad.view()); });
  Tensor<float, 2> large({40 * 40 + 1, width});
  const auto small = random_tensor<float, 2>({14 * 14 + 1, width}, 3);
  exhaust("resize_table",
          [&] { resize_table(resize_vit(), small.view(), {14, 14}, large.view(), {40, 40}); });
  const AxialLearned axial{.join = AxisJoin::summed, .rows = {20, 15}, .widths = {400, 400}};
  const auto first = random_tensor<float, 2>({20, 400}, 4), second = first;
  const std::vector<View<const float, 2>> tables{
      first.view(), View<const float, 2>(second.values.data(), {15, 400})};
  auto first_grad = first, second_grad = second;
  const std::vector<View<float, 2>> grads{first_grad.view(),
                                          View<float, 2>(second_grad.values.data(), {15, 400})};
  const auto positions = testing::iota(0, tokens);
  const auto wide = random_tensor<float, 2>({tokens, 400}, 5);
  exhaust("axial", [&] { lower(axial, tables, positions); });
  exhaust("axial backward",
          [&] { fill_backward<float>(axial, wide.view(), positions, grads); });
  const CrossModal cross = cross_modal_usual(width);
  const MultimodalRow row{TextSpan{20}, ImageSpan{8, 8}, TextSpan{5}};
  const auto types = random_tensor<float, 2>({cross.types, width}, 6);
  auto types_grad = types;
  exhaust("cross_modal", [&] {
    const CrossModalTokens of = cross_modal_tokens(cross, row);
    const EmbeddingTable lowered = lower(cross, of, types.view());
    lower_backward(cross, of, lowered.view(), types_grad.view());
  });
}

TEST_P(ExhaustedMemory, Features) {
  const auto points = random_tensor<double, 2>({tokens, 2}, 1);
  const Fourier fourier = fourier_gaussian(2, 32, 1);
  Tensor<float, 2> out({tokens, features(fourier)});
  exhaust("fourier", [&] { fill(fourier, points.view(), out.view()); });
  const auto weights = random_tensor<float, 2>({2, width}, 2);
  auto weights_grad = weights;
  exhaust("projection", [&] {
    const EmbeddingTable table = projected(points.view(), weights.view());
    project_backward(points.view(), table.view(), weights_grad.view());
  });
  const LearnedFourier learned{.axes = 2, .features = 16, .hidden = 24, .width = width};
  const auto w = random_tensor<float, 2>({24, 64}, 3);
  auto to = w;
  const auto parts = [](auto* data) {
    using T = std::remove_pointer_t<decltype(data)>;
    return LearnedFourierParameters<T>{View<T, 2>(data, {8, 2}), View<T, 2>(data, {16, 24}),
                                       View<T, 1>(data, {24}), View<T, 2>(data, {24, width}),
                                       View<T, 1>(data, {width})};
  };
  exhaust("learned_fourier", [&] {
    const EmbeddingTable table = lower(learned, parts(w.values.data()), points.view());
    fill_backward(learned, parts(w.values.data()), points.view(), table.view(),
                  parts(to.values.data()));
  });
}

TEST_P(ExhaustedMemory, Graphs) {
  constexpr std::int64_t nodes = 150;
  const Graph ring = ring_graph(nodes);
  exhaust("graph", [&] {
    const EdgeList list = parse_edges("0 1\n1 2\n2 3\n3 0\n");
    const Graph graph(list.nodes, list.edges(), EdgeKind::directed);
    in_degrees(graph), out_degrees(graph), components(graph);
  });
  exhaust("shortest_paths", [&] { nodes_between(shortest_paths(ring), 3, 40); });
  exhaust("random_walk", [&] { return_probabilities({.steps = 8}, ring); });
  const Laplacian laplacian{.vectors = 4,
                            .kind = LaplacianKind::symmetric,
                            .zeros = LaplacianZeros::skip_one,
                            .signs = LaplacianSigns::random};
  exhaust("laplacian", [&] { path_laplacian_vectors(laplacian, nodes); });
  exhaust("laplacian_vectors", [&] { laplacian_vectors(laplacian, ring_graph(40)); });
  const Graphormer graphormer{.heads = heads,
                              .unreachable = 20,
                              .edge_rows = 4,
                              .hops = 3,
                              .token = GraphToken::first,
                              .given = GivenBias::once};
  const auto spatial = random_tensor<float, 2>({22, heads}, 1);
  const auto token = random_tensor<float, 1>({heads}, 2);
  const auto edges = random_tensor<float, 2>({4, heads}, 3);
  const auto hops = random_tensor<float, 3>({3, heads, heads}, 4);
  auto a = spatial;
  auto b = token;
  auto c = edges;
  auto d = hops;
  Tensor<std::int64_t, 2> rows({nodes, 1}, 1);
  Tensor<float, 3> bias({heads, nodes + 1, nodes + 1});
  exhaust("graphormer", [&] {
    const GraphormerIndices indices = graphormer_indices(graphormer, ring);
    const GraphormerTables<const float> tables{spatial.view(), token.view(), edges.view(),
                                               hops.view()};
    const GraphormerInput input{rows.view(), {}};
    fill(graphormer, indices, tables, input, bias.view());
    fill_backward(graphormer, indices, tables, input, bias.view(),
                  {a.view(), b.view(), c.view(), d.view()});
    graphormer_mask(graphormer, indices);
  });
}

TEST_P(ExhaustedMemory, Positions) {
  exhaust("positions", [] {
    const std::vector<std::int64_t> lengths{5, 7, 3};
    packed(lengths, 20), consecutive(20, 3, 2), grid_axes(grid(2, 3, 4));
    const std::vector<Grid> grids{llama4_patches(4), merge_blocks(8, 8, 2)};
    concatenated(grids), patch_centres(4, 5);
  });
  exhaust("multimodal", [] {
    const std::vector<MultimodalRow> rows{{TextSpan{4}, ImageSpan{4, 6}},
                                          {VideoSpan{2, 4, 4}, TextSpan{2}}};
    text_after(multimodal_positions(rows, qwen2_vl_rules()), 3);
  });
}

TEST_P(ExhaustedMemory, Rotations) {
  auto q = random_tensor<Half, 4>({batch, tokens, heads, size}, 1), k = q;
  const Rotary rotary{.rotary_dim = size, .pairing = Pairing::adjacent};
  const RotaryFrequencies frequencies = lower(rotary);
  const RotaryTable table(rotary, consecutive(tokens));
  const Positions positions = consecutive(tokens, 0, batch);
  const View<const std::int64_t, 3> ids(positions.ids.data(), {1, batch, tokens});
  exhaust("rotate", [&] { rotate(q.view(), k.view(), table); });
  exhaust("cis_of", [&] { cis_of(table); });
  exhaust("rotate_at", [&] { rotate_at(q.view(), k.view(), ids, frequencies); });
  exhaust("shift_keys", [&] { shift_keys(k.view(), frequencies, 3); });
  exhaust("rerotate_keys", [&] {
    rerotate_keys(k.view(), frequencies,
                  lower(Rotary{.rotary_dim = size, .pairing = Pairing::adjacent, .base = 500}),
                  positions);
  });
  exhaust("append", [&] {
    rotate_append(q.view(), table, k.view());
    copy_append(q.view(), k.view());
  });
  Tensor<std::int8_t, 4> small({batch, tokens, heads, size});
  Tensor<float, 3> scales({batch, tokens, heads});
  exhaust("append to int8", [&] {
    rotate_append(q.view(), table, small.view(), scales.view());
    copy_append(q.view(), small.view(), scales.view());
  });
  exhaust("scale_queries", [&] { scale_queries(q.view(), llama4_temperature(), positions); });
  exhaust("vjepa2", [&] {
    auto x = random_tensor<float, 4>({1, 4 * 10 * 10, heads, 24}, 2);
    rotate(x.view(), Vjepa2Table({.head_dim = 24}, grid(4, 10, 10)));
  });
  exhaust("xpos", [&] {
    const XPos xpos{.rotary_dim = size, .pairing = Pairing::adjacent};
    RotaryTable(lower_query(xpos), consecutive(tokens));
  });
}

TEST_P(ExhaustedMemory, Norms) {
  auto x = random_tensor<float, 4>({batch, 3 * tokens, heads, size}, 1), grad = x;
  std::vector<double> scales(heads, 2), scale_grad(heads);
  exhaust("cosine", [&] {
    normalise(x.view(), scales, x.view());
    normalise_backward(x.view(), x.view(), scales, grad.view(), scale_grad);
  });
  exhaust("qk_norm",
          [&] { normalise_heads(x.view(), {.kind = NormKind::rms, .epsilon = 1e-6}, {}, {}); });
}

TEST_P(ExhaustedMemory, Biases) {
  const auto weight = random_tensor<float, 2>({8, size}, 1);
  const auto bias = random_tensor<float, 1>({8}, 2),
             constant = random_tensor<float, 1>({heads}, 3);
  auto weight_grad = weight;
  auto bias_grad = bias, constant_grad = constant;
  const WavLm wavlm{.t5 = {.heads = heads, .direction = T5Direction::bidirectional},
                    .head_dim = size};
  const auto x = random_tensor<float, 3>({batch, tokens, width}, 4);
  auto x_grad = x;
  Tensor<float, 3> gate({batch, heads, tokens});
  exhaust("wavlm", [&] {
    const WavLmGate<const float> gates_of{weight.view(), bias.view(), constant.view()};
    gates<float>(wavlm, gates_of, x.view(), gate.view());
    gates_backward<float>(wavlm, gates_of, x.view(), gate.view(), x_grad.view(),
                          {weight_grad.view(), bias_grad.view(), constant_grad.view()});
  });
  Tensor<float, 3> scores({heads, tokens, tokens});
  const std::vector<BiasForm> forms{
      lower(Alibi{.heads = heads}), lower(Alibi{.heads = heads}, 1 - tokens, 2 * tokens - 1),
      lower(Sandwich{.heads = heads}, 1 - tokens, 2 * tokens - 1)};
  for (const BiasForm& form : forms)
    exhaust("bias", [&] {
      dense(form, 0, scores.view());
      add_bias(scores.view(), form, 0);
      add_bias_backward(scores.view(), form, 0);
    });
}

struct Tensors {
  Tensor<float, 4> q = random_tensor<float, 4>({batch, tokens, heads, size}, 1);
  Tensor<float, 4> k = random_tensor<float, 4>({batch, tokens, 2, size}, 2), v = k;
  Tensor<float, 4> out{q.extents}, q_grad{q.extents}, k_grad{k.extents}, v_grad{k.extents};
  Tensor<float, 3> lse{{batch, heads, tokens}};
};

TEST_P(ExhaustedMemory, Attention) {
  Tensors x;
  const RotaryTable table({.rotary_dim = size, .pairing = Pairing::halves},
                          consecutive(tokens));
  AttentionPlan plain{.mask = {.visibility = Visibility::causal, .left = 100}};
  AttentionPlan biased = plain, rotated = plain, relative = plain;
  biased.bias = lower(Alibi{.heads = heads}, 1 - tokens, tokens);
  biased.softmax.sinks = std::vector<double>(heads, 0.5);
  rotated.query_rotary = rotated.key_rotary = table;
  const Shaw shaw = bert_relative_key(size, tokens);
  const auto vector = random_tensor<float, 2>({vectors(shaw), size}, 3);
  relative.relative =
      lower(shaw, {.keys = vector.view(), .values = {}}, 1 - tokens, 2 * tokens - 1);
  const std::vector<std::int64_t> lengths{100, 150};
  const Positions packs = packed(lengths, tokens);
  AttentionPlan several = plain;
  several.queries = several.keys = borrowed(packs);
  for (const AttentionPlan& plan : {plain, biased, rotated, relative, several}) {
    const auto q = x.q.view(), k = x.k.view(), v = x.v.view();
    const AttentionInput input{q, k, v};
    exhaust("attention", [&] { attention(input, plan, x.out.view(), x.lse.view()); });
    exhaust("attention_backward", [&] {
      BiasGradient bias;
      RelativeGradient vectors_grad;
      std::vector<double> sinks(heads);
      attention_backward(input, plan, x.out.view(), x.lse.view(), x.out.view(),
                         {.q = x.q_grad.view(),
                          .k = x.k_grad.view(),
                          .v = x.v_grad.view(),
                          .bias = &bias,
                          .relative = &vectors_grad,
                          .sinks = plan.softmax.sinks.empty() ? std::span<double>() : sinks});
    });
    exhaust("decoding", [&] {
      AttentionPlan step = plan;
      if (step.query_rotary || step.queries) return;
      step.mask.offset = tokens - 1;
      attention({q.slice(1, 0, 1), k, v}, step, x.out.view().slice(1, 0, 1));
    });
  }
  exhaust("prepare", [&] {
    LayerPlan plan;
    static_cast<AttentionPlan&>(plan) = rotated;
    plan.query_norm = plan.key_norm =
        WeightedNorm{{.kind = NormKind::rms, .epsilon = 1e-6}, 1, size};
    rotate_in_prepare(plan);
    prepare(plan, x.q.view(), x.k.view());
  });
}

TEST_P(ExhaustedMemory, Caches) {
  const auto k = random_tensor<float, 4>({batch, 20, 2, size}, 1), v = k;
  const RotaryFrequencies frequencies =
      lower(Rotary{.rotary_dim = size, .pairing = Pairing::halves});
  const KvCacheShape shape{
      .batch = batch, .capacity = 64, .heads = 2, .head_dim = size, .value_dim = size};
  exhaust("kv_cache", [&] {
    KvCache<float> cache(shape, frequencies);
    cache.append(k.view(), v.view(), consecutive(20, 0, batch));
    cache.insert(5, k.view(), v.view(), consecutive(20, 30, batch));
    cache.remove(3, 9);
    cache.drop(0, 2);
    cache.shift(0, 4, 7);
    cache.change_frequencies(
        lower(Rotary{.rotary_dim = size, .pairing = Pairing::halves, .base = 500}));
  });
  exhaust("segment_memory", [&] {
    SegmentMemory<float> memory({.batch = batch,
                                 .memory = 30,
                                 .segment = 20,
                                 .heads = 2,
                                 .head_dim = size,
                                 .value_dim = size},
                                frequencies);
    for (int segment = 0; segment < 4; ++segment)
      memory.append(k.view(), v.view()).query_positions();
  });
}

// A cache that could not grow is as it was.
TEST_P(ExhaustedMemory, AFailedAppendLeavesTheCacheUsable) {
  const auto k = random_tensor<float, 4>({1, 4, 2, size}, 1);
  const KvCacheShape shape{.capacity = 16, .heads = 2, .head_dim = size, .value_dim = size};
  KvCache<float> cache(shape, lower(Rotary{.rotary_dim = size, .pairing = Pairing::halves}));
  cache.append(k.view(), k.view(), consecutive(4));
  exhaust("append", [&] {
    const std::int64_t before = cache.tokens();
    const Positions positions = cache.positions();
    try {
      cache.append(k.view(), k.view(), consecutive(4, before));
    } catch (const std::bad_alloc&) {
      if (cache.tokens() != before || cache.positions() != positions)
        throw std::logic_error("changed");
      throw;
    }
    cache.truncate(4);
  });
}

// The same for the sequences of a pool, one of which shares a block.
TEST_P(ExhaustedMemory, AFailedCallLeavesThePagedCacheUsable) {
  const auto k = random_tensor<float, 3>({8, 2, size}, 1);
  PagedKvCacheShape shape;
  shape.blocks = 40;
  shape.heads = 2;
  shape.head_dim = shape.value_dim = size;
  shape.type = CacheType::f32;
  PagedKvCache cache(shape, lower(Rotary{.rotary_dim = size, .pairing = Pairing::halves}));
  const std::vector<std::int64_t> starts = {0, 5, 8};
  exhaust("paged_kv_cache", [&] {
    const auto holds = [&](std::int64_t sequences, std::int64_t free) {
      if (cache.sequences() != sequences || cache.free_blocks() != free)
        throw std::logic_error("changed");
    };
    std::int64_t sequences = 0, free = 40;  // after the last call that succeeded
    try {
      std::vector<std::int64_t> made(2);
      made[0] = cache.start();
      sequences = 1;
      cache.append(k.view(), k.view(), made[0]);
      free = 39;
      made[1] = cache.fork(made[0]);
      sequences = 2;
      cache.append(k.view(), k.view(), made, starts);
      free = 38;
      cache.block_table(made);
      cache.key_lengths(made);
      cache.end(made[1]);
      holds(1, 39);
    } catch (const std::bad_alloc&) {
      holds(sequences, free);
      cache.clear();
      throw;
    }
    cache.clear();
  });
}

}  // namespace exhausted_memory_test
}  // namespace gnomon
