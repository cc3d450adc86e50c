// Every function of gnomon.h in gnomon::model when memory is exhausted: a status, never the end
// of the process.
#include <gtest/gtest.h>

#include <string>

#include "c/exhaustion.h"

namespace gnomon {
namespace c_exhausted_memory_model_test {

using drawn::Placed;
using drawn::Type;
using std::int64_t;
using namespace exhaustion;

class ExhaustedMemoryOfCModels : public Exhaustion {};

TEST_F(ExhaustedMemoryOfCModels, EncodingsAndModels) {
  text("encodings", gnomon_encodings);
  const auto encoding = [&](const char* name) {
    return make<gnomon_encoding>(
        "encoding_from_name",
        [&](gnomon_encoding** out) {
          return gnomon_encoding_from_name(name, 32, 4, 16, GNOMON_CAUSAL, out);
        },
        gnomon_encoding_destroy);
  };
  const auto rotary = encoding("rotary"), t5 = encoding("t5"), fox = encoding("fox");
  std::string json;
  text("encoding_to_json", [&](char** out) {
    const gnomon_status status = gnomon_encoding_to_json(t5.get(), out);
    return status;
  });
  char* text_of_t5 = nullptr;
  ASSERT_EQ(gnomon_encoding_to_json(t5.get(), &text_of_t5), GNOMON_OK);
  make<gnomon_encoding>(
      "encoding_from_json",
      [&](gnomon_encoding** out) { return gnomon_encoding_from_json(text_of_t5, out); },
      gnomon_encoding_destroy);
  gnomon_free(text_of_t5);
  text("encoding_parameters",
       [&](char** out) { return gnomon_encoding_parameters(t5.get(), out); });
  Placed buckets(Type::f32, {32, 4}), buckets_grad(Type::f32, {32, 4});
  call("encoding_random_parameter",
       [&] { return gnomon_encoding_random_parameter(t5.get(), 0, buckets.get()); });
  Placed normal(Type::f32, {1000});
  call("normal", [&] { return gnomon_normal(3, normal.get()); });
  make<gnomon_frequencies>(
      "encoding_frequencies",
      [&](gnomon_frequencies** out) {
        return gnomon_encoding_frequencies(rotary.get(), 0, out);
      },
      gnomon_frequencies_destroy);
  const gnomon_tensor *const values[] = {buckets.get()}, *const grads[] = {buckets_grad.get()};
  const auto plan = make<gnomon_layer_plan>(
      "encoding_lower",
      [&](gnomon_layer_plan** out) {
        return gnomon_encoding_lower(t5.get(), values, 1, 8, 8, out);
      },
      gnomon_layer_plan_destroy);
  // The gradient of a plan that was attended with.
  Placed q(Type::f32, {1, 8, 4, 8}, numbers()), out(Type::f32, {1, 8, 4, 8}),
      lse(Type::f32, {1, 4, 8}), q_grad(Type::f32, {1, 8, 4, 8}),
      k_grad(Type::f32, {1, 8, 4, 8}), v_grad(Type::f32, {1, 8, 4, 8});
  gnomon_layer_plan_set_mask(plan.get(), GNOMON_CAUSAL, -1, -1, -1);
  gnomon_attention_input input{};
  input.size = sizeof input;
  input.q = input.k = input.v = q.get();
  const auto gradient = make<gnomon_plan_gradient>(
      "plan_gradient_create", gnomon_plan_gradient_create, gnomon_plan_gradient_destroy);
  gnomon_attention_gradient to{};
  to.size = sizeof to;
  to.q = q_grad.get(), to.k = k_grad.get(), to.v = v_grad.get(), to.plan = gradient.get();
  ASSERT_EQ(gnomon_attention(&input, plan.get(), out.get(), lse.get()), GNOMON_OK)
      << gnomon_error_message();
  ASSERT_EQ(gnomon_attention_backward(&input, plan.get(), out.get(), lse.get(), out.get(), &to),
            GNOMON_OK)
      << gnomon_error_message();
  call("encoding_lower_backward", [&] {
    return gnomon_encoding_lower_backward(t5.get(), values, 1, 8, 8, gradient.get(), nullptr,
                                          grads);
  });
  Placed weight(Type::f32, {4, 32}, numbers()), bias(Type::f32, {4, 1}, numbers()),
      x(Type::f32, {1, 8, 32}, numbers());
  char* parameters = nullptr;
  gnomon_encoding_parameters(fox.get(), &parameters);
  SCOPED_TRACE(parameters);
  const gnomon_tensor* const of_fox[] = {weight.get(), bias.get()};
  make<gnomon_terms>(
      "encoding_terms",
      [&](gnomon_terms** terms) {
        return gnomon_encoding_terms(fox.get(), of_fox, 2, x.get(), terms);
      },
      gnomon_terms_destroy);
  gnomon_free(parameters);
  text("encoding_check",
       [](char** out) { return gnomon_encoding_check("alibi", 16, 2, 16, 16, out); });

  const char* const config =
      R"({"model_type": "llama", "num_attention_heads": 2, "hidden_size": 16,
          "num_hidden_layers": 2, "max_position_embeddings": 16})";
  make<gnomon_model>(
      "model_open",
      [](gnomon_model** model) {
        return gnomon_model_open(GNOMON_SOURCE_DIR "/tests/model/engine/bloom/config.json",
                                 model);
      },
      gnomon_model_destroy);
  make<gnomon_model>(
      "model_from_config_assuming",
      [](gnomon_model** model) {
        return gnomon_model_from_config_assuming(
            R"({"model_type": "no such", "num_attention_heads": 2, "hidden_size": 16,
                "num_hidden_layers": 2, "rope_theta": 10000, "max_position_embeddings": 16})",
            GNOMON_HALVES, model);
      },
      gnomon_model_destroy);
  const auto model = make<gnomon_model>(
      "model_from_config",
      [&](gnomon_model** one) { return gnomon_model_from_config(config, one); },
      gnomon_model_destroy);
  text("model_to_json", [&](char** out) { return gnomon_model_to_json(model.get(), out); });
  text("model_to_json_at",
       [&](char** out) { return gnomon_model_to_json_at(model.get(), 32, out); });
  text("model_layer_parameters",
       [&](char** out) { return gnomon_model_layer_parameters(model.get(), "", 0, out); });
  Placed ids(Type::i64, {1, 5}, counting());
  gnomon_tokens now{};
  now.size = sizeof now;
  now.query_ids = ids.get();
  make<gnomon_layer_plan>(
      "model_lower_layer",
      [&](gnomon_layer_plan** one) {
        return gnomon_model_lower_layer(model.get(), "", 1, &now, nullptr, 0, one);
      },
      gnomon_layer_plan_destroy);
  // The message of a refusal may be lost, the status may not.
  gnomon_model* none = nullptr;
  call(
      "model_from_config", [&] { return gnomon_model_from_config("{}", &none); },
      [&] { return none == nullptr; }, {}, GNOMON_FORMAT_ERROR);
  quiet("model_destroy", [] { gnomon_model_destroy(nullptr); });
  quiet("encoding_destroy", [] { gnomon_encoding_destroy(nullptr); });
  for (const std::string& name : testing::declared_functions("gnomon.h", testing::Part::model))
    expect(name);
}

}  // namespace c_exhausted_memory_model_test
}  // namespace gnomon
