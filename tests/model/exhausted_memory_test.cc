// Encodings, JSON, readers and writers, analysis, pictures and the C API when memory is
// exhausted: std::bad_alloc or a status, never the end of the process.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "allocations.h"
#include "gnomon.h"
#include "gnomon/analysis/decay.h"
#include "gnomon/analysis/order.h"
#include "gnomon/analysis/properties.h"
#include "gnomon/analysis/similarity.h"
#include "gnomon/analysis/spectrum.h"
#include "gnomon/attention/attention.h"
#include "gnomon/io/checkpoint.h"
#include "gnomon/io/npy.h"
#include "gnomon/io/safetensors.h"
#include "gnomon/model/config.h"
#include "gnomon/model/conversion.h"
#include "gnomon/model/encoding.h"
#include "gnomon/model/gguf_model.h"
#include "gnomon/model/layer.h"
#include "gnomon/model/scheme.h"
#include "gnomon/model/shard.h"
#include "gnomon/parallel.h"
#include "gnomon/plot/captions.h"
#include "gnomon/plot/chart.h"
#include "gnomon/plot/page.h"
#include "gnomon/plot/pictures.h"
#include "io/temporary.h"
#include "model/gguf_model.h"
#include "testing.h"

namespace gnomon::model {
namespace exhausted_memory_test {

using testing::random_tensor;
using testing::Tensor;

class ExhaustedMemoryOfModels : public ::testing::Test {
 protected:
  void SetUp() override { set_threads(2); }
  void TearDown() override {
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

constexpr Shape shape{32, 4, 16};
constexpr Window window{5, 9};

TEST_F(ExhaustedMemoryOfModels, Encodings) {
  for (const EncodingInfo& one : encodings()) {
    const std::string name(one.name);
    const Encoding encoding = one.usual(shape);
    std::vector<Tensor<float, 2>> matrices, matrices_grad;
    std::vector<View<const float, 2>> values;
    std::vector<View<float, 2>> grads;
    for (const Parameter& parameter : parameters(encoding))
      matrices.push_back(random_tensor<float, 2>({parameter.rows, parameter.columns}));
    matrices_grad = matrices;
    for (const auto& matrix : matrices) values.push_back(matrix.view());
    for (auto& matrix : matrices_grad) grads.push_back(matrix.view());
    exhaust(name.c_str(), [&] {
      const Encoding spec = find_encoding(name).usual(shape);
      parameters(spec), capacity(spec), rotary_frequencies(spec);
      const LayerPlan plan = lower(spec, window, values);
      std::vector<float> table;
      LayerGradient lowered;
      if (plan.table) {
        table = plan.table->values;
        lowered.table = View<const float, 2>(table.data(), {window.queries, shape.width});
      }
      lowered.bias.values.resize(
          static_cast<std::size_t>(heads(plan.bias) * gradient_size(plan.bias)));
      for (const auto& [from, to] :
           {std::pair(&plan.relative.keys, &lowered.relative.keys),
            std::pair(&plan.relative.queries, &lowered.relative.queries),
            std::pair(&plan.relative.values, &lowered.relative.values)})
        for (const RelativeVectors& vectors : *from) to->push_back(vectors.values);
      lowered.relative.shift = plan.relative.shift;
      lowered.cosine = plan.cosine;
      if (plan.polar) lowered.phases = plan.polar->phases;
      lower_backward(spec, window, values, lowered, grads);
    });
    exhaust(name.c_str(), [&] { encoding_from_json(to_json(encoding)); });
    // What depends on the tokens, and a layer with both.
    constexpr std::int64_t tokens = 16;
    const Mixture mixture{encoding};
    const auto x = random_tensor<float, 3>({2, tokens, shape.width});
    auto x_grad = x;
    TermArrays terms;
    if (!token_terms(mixture).empty())
      exhaust((name + ", terms").c_str(), [&] {
        terms = term_arrays(mixture, 2, tokens);
        compute_terms(mixture, values, x.view(), terms.terms<gnomon::Tensor>());
        compute_terms_backward(mixture, values, x.view(), terms.terms<ConstTensor>(),
                               x_grad.view(), grads);
        token_terms(mixture), term_history(mixture);
      });
    LayerPlan plan = lower(encoding, {tokens, tokens}, values);
    plan.mask = {.visibility = Visibility::causal};
    const std::int64_t size = shape.width / shape.heads;
    auto q = random_tensor<float, 4>({2, tokens, shape.heads, size}, 1), k = q, v = q;
    auto out = q, q_grad = q, k_grad = q, v_grad = q;
    Tensor<float, 3> lse({2, shape.heads, tokens});
    exhaust((name + ", layer").c_str(), [&] {
      auto layer_input = x;
      add_position(plan, layer_input.view()),
          prepare_input(plan, shape.heads, layer_input.view());
      auto queries = q, keys = k;
      prepare(plan, queries.view(), keys.view(), v.view(),
              plan.prepared_rotation ? terms.terms<ConstTensor>() : TokenTerms{});
      const AttentionInput input{
          .q = queries.view(),
          .k = keys.view(),
          .v = v.view(),
          .terms = plan.prepared_rotation ? TokenTerms{} : terms.terms<ConstTensor>()};
      attention(input, plan, out.view(), lse.view());
      explain_attention(input, plan);
      BiasGradient bias;
      RelativeGradient relative;
      attention_backward(input, plan, out.view(), lse.view(), out.view(),
                         {.q = q_grad.view(),
                          .k = k_grad.view(),
                          .v = v_grad.view(),
                          .bias = &bias,
                          .relative = plan.relative.empty() ? nullptr : &relative});
    });
  }
}

TEST_F(ExhaustedMemoryOfModels, Schemes) {
  exhaust("scheme", [] {
    const Scheme scheme = parse_scheme("rotary+t5/none*2", shape, 3);
    names(scheme), scheme_from_json(to_json(scheme));
  });
  exhaust("shard", [] {
    shard({find_encoding("rotary").usual(shape), find_encoding("t5").usual(shape)}, 2, 2);
  });
  exhaust("scaling",
          [] { to_json(RopeScaling(YarnScaling{.factor = 4, .original_length = 64})); });
}

std::string config(const std::string& name) {
  const std::filesystem::path folder =
      std::filesystem::path(GNOMON_SOURCE_DIR) / "tests/model/released";
  return nlohmann::json::parse(testing::contents(folder / (name + ".json")))["config"].dump();
}

TEST_F(ExhaustedMemoryOfModels, Configs) {
  for (const char* name : {"bert-base", "bloom-560m", "deepseek-v2-lite", "flan-t5-xxl-dkv",
                           "gemma-3-4b", "deberta-v3-base", "ernie-4.5-vl-28b"}) {
    const std::string text = config(name);
    exhaust(name, [&] { to_json(read_config(text)); });
  }
  exhaust("families", [] { families(); });
  const std::string text = config("deepseek-v2-lite");
  exhaust("weights", [&] { read_weights(text); });
}

TEST_F(ExhaustedMemoryOfModels, Layers) {
  const ModelDescription t5 = read_config(
      R"({"model_type": "t5", "d_kv": 8, "d_model": 32, "num_heads": 4, "num_layers": 2,
          "num_decoder_layers": 2, "relative_attention_num_buckets": 32,
          "relative_attention_max_distance": 128, "vocab_size": 40, "d_ff": 8})");
  const std::string name =
      "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight";
  const Checkpoint checkpoint{{name}, [](const std::string&) {
                                return CheckpointTensor{
                                    {32, 4}, random_tensor<float, 2>({32, 4}, 3).values};
                              }};
  exhaust("model_plan", [&] {
    ModelPlan plan(t5, checkpoint, "decoder");
    const Positions now = consecutive(6);
    plan.set_tokens({.queries = {&now, 1}, .cached = 3});
    plan.layer(1);
  });
}

TEST_F(ExhaustedMemoryOfModels, Files) {
  const testing::TemporaryFolder folder;
  const auto x = random_tensor<float, 2>({30, 40});
  const std::filesystem::path npy = folder / "x.npy", tensors = folder / "model.safetensors";
  exhaust("write_npy", [&] { io::write_npy(npy, x.view()); });
  exhaust("read_npy", [&] { io::read_npy(npy).to_doubles(); });
  const auto parts = [&] {
    std::vector<io::NamedArray> all;
    for (const char* name : {"a", "b", "c"}) all.push_back({name, io::Array::of(x.view())});
    return all;
  };
  exhaust("write_safetensors", [&] {
    io::write_safetensors(tensors, parts(), {{"format", "pt"}, {"maker", "gnomon"}});
  });
  exhaust("read_safetensors", [&] {
    const io::SafeTensors file(tensors);
    file.tensor("b").to_doubles();
  });
  exhaust("checkpoint", [&] {
    const io::Checkpoint checkpoint(folder.path());
    checkpoint.check();
    checkpoint.tensor(checkpoint.names().front());
  });
  EXPECT_EQ(folder.files(), 2u);  // no temporary ones
  Model gguf("llama");
  gguf.size(".attention.head_count_kv", 2).number(".rope.freq_base", 5e5f);
  const std::string bytes = gguf.file();
  const auto all = std::as_bytes(std::span(bytes));
  exhaust("gguf", [&] { to_json(read_gguf(Gguf(all, "x.gguf"))); });
}

TEST_F(ExhaustedMemoryOfModels, Analysis) {
  using namespace gnomon::analysis;
  const auto table = random_tensor<double, 2>({24, 16});
  Tensor<double, 2> square({24, 24}), spectrum({24, 16});
  exhaust("similarity", [&] {
    similarity_matrix(std::as_const(table).view(), Similarity::cosine, square.view());
    similarity_to(std::as_const(table).view(), 3, Similarity::dot);
  });
  exhaust("properties", [&] {
    uniqueness(std::as_const(table).view());
    relativity(std::as_const(square).view());
    extrapolation(std::as_const(table).view(), 12);
    decay(mean_by_distance(std::as_const(square).view()));
  });
  const std::vector<double> frequencies{1, 0.5, 0.1};
  exhaust("frequencies", [&] {
    rotary_score_of_normal(frequencies, 10, 5), rotary_score_bound(frequencies, 10);
    wavelengths(frequencies), turns(frequencies, 10), power_spectrum(table.values);
  });
  const LayerPlan plan = lower(find_encoding("alibi").usual(shape), {16, 16}, {});
  exhaust("order", [&] { order_sensitivity({.tokens = 16, .heads = 4}, plan); });
}

plot::Matrix matrix(std::int64_t rows, std::int64_t columns) {
  return {rows, columns, testing::random_numbers(static_cast<std::size_t>(rows * columns))};
}

TEST_F(ExhaustedMemoryOfModels, Pictures) {
  const std::vector<double> x{1, 2, 3}, y{3, 1, 2}, low{2, 0, 1}, high{4, 2, 3};
  const plot::LineChart chart{
      .series = {{.name = "one", .x = x, .y = y, .low = low, .high = high},
                 {.name = "two", .x = x, .y = low, .stroke = plot::Stroke::dashed}},
      .rule = plot::Rule{2, "here"},
      .solid = "solid",
      .dashed = "dashed",
      .selected = {"one"}};
  const plot::Heatmap map{
      .values = matrix(3, 4), .columns = {.labels = {"a", "bcd", "c", "d"}}, .aspect = 1.0};
  std::string spec;
  exhaust("lines", [&] { plot::lines(chart); });
  exhaust("bars", [&] { plot::bars({.bars = {{"a", 1}, {"b", 2}}, .title = "t"}); });
  exhaust("heatmap", [&] { spec = plot::heatmap(map); });
  exhaust("bias_picture",
          [&] { plot::bias_picture({.distances = x, .values = matrix(2, 3)}); });
  exhaust("panels_picture", [&] {
    plot::panels_picture({.panels = {{"a", matrix(2, 3)}, {"b", matrix(2, 3)}}});
  });
  exhaust("attention_picture", [&] {
    const plot::AttentionPicture picture{.without = matrix(3, 3), .with = matrix(3, 3)};
    plot::attention_caption(picture), plot::attention_picture(picture);
  });
  for (const std::string& one : {plot::lines(chart), plot::heatmap(map)}) {
    exhaust("numbers", [&] { plot::numbers(one); });
    exhaust("page", [&] {
      plot::HtmlPage page("title");
      page.lead("a `b`").heading("c").figure({.id = "f", .title = "t", .spec = one});
      page.table({.columns = {{"x"}}, .rows = {{"1"}}}).footer("end");
      page.html();
      plot::standalone({.id = "f", .title = "t", .spec = one});
    });
  }
}

void checked(gnomon_status status) {
  if (status == GNOMON_OUT_OF_MEMORY) throw std::bad_alloc();
  if (status != GNOMON_OK)
    throw std::logic_error(std::to_string(status) + " " + gnomon_error_message());
}
template <typename T, void (*destroy)(T*)>
struct Handle {
  T* it = nullptr;
  ~Handle() { destroy(it); }
};

TEST_F(ExhaustedMemoryOfModels, CInterface) {
  const std::string text = config("gemma-3-4b");
  exhaust("c model", [&] {
    Handle<gnomon_model, gnomon_model_destroy> model;
    Handle<char, gnomon_free> json;
    checked(gnomon_model_from_config(text.c_str(), &model.it));
    checked(gnomon_model_to_json(model.it, &json.it));
  });
  exhaust("c encoding", [] {
    Handle<gnomon_encoding, gnomon_encoding_destroy> encoding, again;
    Handle<gnomon_layer_plan, gnomon_layer_plan_destroy> plan;
    Handle<gnomon_frequencies, gnomon_frequencies_destroy> frequencies;
    Handle<gnomon_rotary_table, gnomon_rotary_table_destroy> table;
    Handle<char, gnomon_free> json, parameters;
    checked(gnomon_encoding_from_name("rotary", 32, 4, 16, GNOMON_CAUSAL, &encoding.it));
    checked(gnomon_encoding_to_json(encoding.it, &json.it));
    checked(gnomon_encoding_from_json(json.it, &again.it));
    checked(gnomon_encoding_parameters(encoding.it, &parameters.it));
    checked(gnomon_encoding_frequencies(encoding.it, 0, &frequencies.it));
    checked(gnomon_encoding_lower(encoding.it, nullptr, 0, 4, 4, &plan.it));
  });
  exhaust("c error", [] {  // the message may be lost, the status may not
    Handle<gnomon_model, gnomon_model_destroy> model;
    const gnomon_status status = gnomon_model_from_config("{}", &model.it);
    if (status != GNOMON_FORMAT_ERROR && status != GNOMON_INVALID_ARGUMENT) checked(status);
  });
}

}  // namespace exhausted_memory_test
}  // namespace gnomon::model
