// Drawn arguments for every function of gnomon.h in gnomon::model. Each returns a status.
#include <gtest/gtest.h>

#include "c/declared.h"
#include "c/drawn.h"

namespace gnomon {
namespace arguments_model_test {

using drawn::Handles;
using drawn::Kind;
using drawn::least;
using drawn::most;
using std::int64_t;

class Attack : public drawn::Caller {
 public:
  explicit Attack(unsigned seed) : Caller(seed) {
    gnomon_encoding_from_name("fox", 8, 2, 16, GNOMON_CAUSAL, &gated_);
    gnomon_encoding_from_name("t5", 8, 2, 16, GNOMON_CAUSAL, &buckets_);
  }
  ~Attack() {
    gnomon_encoding_destroy(gated_);
    gnomon_encoding_destroy(buckets_);
  }
  void call() {
    begin();
    gnomon_plan_gradient* gradient = nullptr;
    if (draw.one_in(100) && gnomon_plan_gradient_create(&gradient) == GNOMON_OK)
      gradients_.add(draw, gradient);
    model(28 + static_cast<int>(draw.below(14)));
  }

 private:
  void model(int which);

  Handles<gnomon_frequencies> frequencies_{gnomon_frequencies_destroy};
  Handles<gnomon_layer_plan> plans_{gnomon_layer_plan_destroy};
  Handles<gnomon_plan_gradient> gradients_{gnomon_plan_gradient_destroy};
  Handles<gnomon_encoding> encodings_{gnomon_encoding_destroy};
  Handles<gnomon_model> models_{gnomon_model_destroy};
  gnomon_encoding* gated_ = nullptr;    // of forget gates, which depend on tokens
  gnomon_encoding* buckets_ = nullptr;  // with one parameter: [32, 2]
};

void Attack::model(int which) {
  static const std::vector<const char*> names = {
      "rotary",  "alibi",          "t5",   "sinusoidal",   "learned",
      "shaw",    "deberta",        "swin", "fire",         "kerple",
      "clipped", "transformer-xl", "none", "no such name", ""};
  static const std::vector<const char*> texts = {
      R"({"kind": "rotary", "rotary_dim": 4, "pairing": "halves"})",
      R"({"kind": "alibi", "heads": 9223372036854775807})",
      R"({"kind": "clipped", "heads": 2, "left": 9223372036854775807,
          "right": 9223372036854775807})",
      R"({"kind": "shaw", "heads": 4611686018427387904, "head_dim": 4, "left": 1, "right": 2})",
      R"({"kind": "learned", "rows": 4611686018427387904, "width": 4})",
      R"({"kind": "sinusoidal", "width": 4611686018427387904, "recipe": "half_split"})",
      R"({"kind": "t5", "heads": 2, "buckets": 4, "max_distance": 9223372036854775807})",
      "[[[[",
      "{}",
      ""};
  static const std::vector<const char*> configs = {
      R"({"model_type": "llama", "num_attention_heads": 2, "hidden_size": 8,
          "num_hidden_layers": 2, "max_position_embeddings": 16})",
      R"({"model_type": "llama", "num_attention_heads": 9223372036854775807, "hidden_size": 8,
          "num_hidden_layers": 4611686018427387904})",
      R"({"model_type": "t5", "num_heads": 2, "d_kv": 4, "d_model": 8, "num_layers": 1})",
      R"({"model_type": "unknown", "num_attention_heads": 2, "hidden_size": 16,
          "num_hidden_layers": 2, "rope_theta": 10000, "max_position_embeddings": 16})",
      R"({"model_type": "bloom", "n_head": 2, "hidden_size": 8, "n_layer": 1})",
      "{}",
      ""};
  static const char* const released = GNOMON_SOURCE_DIR "/tests/model/engine/bloom/config.json";
  const auto text_of = [&](const std::vector<const char*>& all) {
    return draw.one_in(60) ? nullptr : draw.of(all);
  };
  const auto give = [&](char* json) { gnomon_free(json); };
  gnomon_encoding* encoding = nullptr;
  gnomon_frequencies* frequencies = nullptr;
  gnomon_layer_plan* plan = nullptr;
  gnomon_model* model = nullptr;
  char* json = nullptr;
  std::vector<const gnomon_tensor*> values, grads;
  const int64_t rows = draw.below(9), columns = draw.below(9);
  const int64_t matrices = draw.below(4);
  for (int64_t i = 0; i < matrices; ++i) {
    values.push_back(tensor(Kind::f32, {rows, columns}));
    grads.push_back(tensor(Kind::f32, {rows, columns}));
  }
  // The number of values that exist, or one that no encoding has.
  const int64_t number =
      draw.one_in(6) ? draw.of<int64_t>({-1, most, least, 1LL << 32}) : std::ssize(values);
  const int64_t keys = draw.size(), queries = draw.one_in(3) ? draw.size() : keys;
  switch (which) {
    case 28:
      count("encoding_from_json", gnomon_encoding_from_json(text_of(texts), out(encoding)));
      return encodings_.add(draw, encoding);
    case 29: {
      const int64_t heads = draw.one_in(6) ? draw.number() : 1 + draw.below(3);
      const bool usual = heads > 0 && heads <= 1 << 16 && !draw.one_in(6);
      const int64_t width = usual ? 8 * heads : draw.number();
      count("encoding_from_name",
            gnomon_encoding_from_name(text_of(names), width, heads,
                                      draw.one_in(6) ? draw.number() : 1 + draw.below(20),
                                      draw.code(), out(encoding)));
      // 2^31 heads, or elements of a head, are legal, but Python's tests alone lower them.
      if (heads > 1 << 16 || width > 1 << 16) return gnomon_encoding_destroy(encoding);
      return encodings_.add(draw, encoding);
    }
    case 30:
      if (draw.one_in(25)) {
        count("encodings", gnomon_encodings(out(json)));
        return give(json);
      }
      count("encoding_to_json", gnomon_encoding_to_json(encodings_.one(draw), out(json)));
      return give(json);
    case 31:
      if (draw.one_in(4))
        return count("normal",
                     gnomon_normal(draw.one_in(2) ? 1 : UINT64_MAX, tensor(Kind::f32, {rows})));
      if (draw.one_in(2))
        return count(
            "encoding_random_parameter",
            gnomon_encoding_random_parameter(draw.one_in(4) ? encodings_.one(draw) : buckets_,
                                             draw.one_in(4) ? draw.number() : 0,
                                             tensor(Kind::f32, {32, 1 + draw.below(3)})));
      count("encoding_parameters", gnomon_encoding_parameters(encodings_.one(draw), out(json)));
      return give(json);
    case 32:
      count("encoding_frequencies",
            gnomon_encoding_frequencies(encodings_.one(draw), draw.number(), out(frequencies)));
      return frequencies_.add(draw, frequencies);
    case 33:
    case 34:
      count("encoding_lower", gnomon_encoding_lower(encodings_.one(draw),
                                                    draw.one_in(60) ? nullptr : values.data(),
                                                    number, queries, keys, out(plan)));
      return plans_.add(draw, plan);
    case 35:
      return count("encoding_lower_backward",
                   gnomon_encoding_lower_backward(
                       encodings_.one(draw), values.data(), number, queries, keys,
                       gradients_.one(draw), maybe(Kind::f32, {rows, columns}), grads.data()));
    case 36:
      count("model_open",
            gnomon_model_open(text_of({"/nonexistent", "", ".", released}), out(model)));
      return models_.add(draw, model);
    case 37:
      if (draw.one_in(3))
        count("model_from_config_assuming",
              gnomon_model_from_config_assuming(text_of(configs), draw.code(), out(model)));
      else
        count("model_from_config", gnomon_model_from_config(text_of(configs), out(model)));
      return models_.add(draw, model);
    case 38:
      if (draw.one_in(2))
        count("model_to_json_at",
              gnomon_model_to_json_at(models_.one(draw), draw.number(), out(json)));
      else
        count("model_to_json", gnomon_model_to_json(models_.one(draw), out(json)));
      return give(json);
    case 39:
      count("model_layer_parameters",
            gnomon_model_layer_parameters(models_.one(draw), text_of({"", "encoder", "?"}),
                                          draw.number(), out(json)));
      return give(json);
    case 41: {
      if (draw.one_in(20)) {
        count("encoding_check",
              gnomon_encoding_check(text_of({"none", "alibi", "no such"}),
                                    draw.one_in(4) ? draw.number() : 16,
                                    draw.one_in(4) ? draw.number() : 2, 16,
                                    draw.one_in(4) ? draw.code() : 16, out(json)));
        return give(json);
      }
      const gnomon_tensor* const of_gates[] = {tensor(Kind::f32, {2, 8}),
                                               tensor(Kind::f32, {2, 1})};
      gnomon_terms* terms = nullptr;
      count("encoding_terms",
            gnomon_encoding_terms(
                draw.one_in(4) ? encodings_.one(draw) : gated_, of_gates,
                draw.one_in(6) ? draw.of<int64_t>({-1, most, least, 1LL << 32}) : 2,
                tensor(Kind::f32, {1 + draw.below(2), draw.below(4), 8}), out(terms)));
      return gnomon_terms_destroy(terms);
    }
    case 40: {
      const std::vector<std::vector<int64_t>> shapes = {{3}, {2, 3}, {3, 1, 3}};
      const gnomon_tokens tokens{
          draw.size_of<gnomon_tokens>(),     tensor(Kind::i64, draw.of(shapes)),
          maybe(Kind::i32, {1, 3}),          maybe(Kind::i64, {1, 5}),
          maybe(Kind::i32, {1, 5}),          draw.one_in(3) ? draw.size() : 0,
          draw.one_in(3) ? draw.number() : 0};
      count("model_lower_layer",
            gnomon_model_lower_layer(models_.one(draw), draw.one_in(2) ? nullptr : "",
                                     draw.one_in(3) ? draw.number() : 0,
                                     draw.one_in(60) ? nullptr : &tokens, values.data(), number,
                                     out(plan)));
      return plans_.add(draw, plan);
    }
  }
}

TEST(ArgumentsModel, OfEveryFunctionGiveAStatus) {
  drawn::attack<Attack>(20, testing::declared_functions("gnomon.h", testing::Part::model));
}

}  // namespace arguments_model_test
}  // namespace gnomon
