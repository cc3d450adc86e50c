// gnomon.h: encodings by name and released models.
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <variant>
#include <vector>

#include "bindings/c/handles.h"
#include "gnomon/io/file.h"
#include "gnomon/model/config.h"
#include "gnomon/model/encoding.h"
#include "gnomon/model/gguf_files.h"
#include "gnomon/model/gguf_model.h"
#include "gnomon/model/layer.h"
#include "gnomon/verdicts/verdicts.h"
#include "src/core/json_value.h"
#include "src/core/normal.h"
#include "src/core/tensor.h"
#include "src/model/encodings/lowering.h"
#include "src/model/encodings/random_parameters.h"

struct gnomon_encoding {
  gnomon::model::Encoding encoding;
};
struct gnomon_model {
  gnomon::model::ModelDescription model;
};

using gnomon::c::given;
using gnomon::c::guarded;
using gnomon::c::make;
using gnomon::c::tensor;

namespace gnomon::c {
namespace {

using Matrices = std::vector<View<const float, 2>>;

void give(const std::string& text, char** out) {
  char*& to = given("json", out);
  auto* const copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (!copy) throw std::bad_alloc();
  std::memcpy(copy, text.c_str(), text.size() + 1);
  to = copy;
}

std::string json_of(const std::vector<model::Parameter>& parameters) {
  auto all = gnomon::internal::OrderedJson::array();
  for (const model::Parameter& one : parameters) {
    all.push_back({{"name", one.name},
                   {"rows", one.rows},
                   {"columns", one.columns},
                   {"initial_deviation", one.initial_deviation},
                   {"initial_mean", one.initial_mean}});
    if (!one.initial.empty()) all.back()["initial"] = one.initial;
  }
  return all.dump();
}

std::string json_of_encodings() {
  auto all = gnomon::internal::OrderedJson::array();
  for (const model::EncodingInfo& one : model::encodings()) {
    auto places = gnomon::internal::OrderedJson::array();
    for (unsigned place = 1; place <= static_cast<unsigned>(model::Place::weights); place *= 2)
      if (model::includes(one.enters, model::Place{place}))
        places.push_back(model::name(model::Place{place}));
    const model::Encoding usual = one.usual({.width = 128, .heads = 2, .length = 16});
    all.push_back({{"name", one.name},
                   {"title", one.title},
                   {"places", places},
                   {"summary", one.summary},
                   {"formula", one.formula},
                   {"source", one.source},
                   {"users", one.users},
                   {"page", one.page},
                   {"causal", model::properties(usual).causal},
                   {"contents", model::depends_on_contents(usual)},
                   {"terms", !model::token_terms({usual}).empty()}});
  }
  return all.dump();
}

// Throws unless `values` has one tensor for each parameter; `count` is the caller's number.
void check_count(const char* name, const gnomon_tensor* const* values, int64_t count,
                 std::size_t parameters) {
  if (count != static_cast<int64_t>(parameters))
    refuse("c",
           std::string(name) + " must have a tensor for each of " + std::to_string(parameters) +
               " parameters",
           count);
  if (count && !values) refuse("c", std::string(name) + " must be given", "NULL");
}

Matrices matrices_of(const gnomon_tensor* const* values, int64_t count,
                     std::size_t parameters) {
  check_count("values", values, count, parameters);
  Matrices all;
  for (int64_t i = 0; i < count; ++i)
    all.push_back(internal::read_if<float, 2>({"c", "values"}, tensor("values", values[i])));
  return all;
}

model::ModelDescription read_model(const std::filesystem::path& given_path) {
  const std::filesystem::path path =
      std::filesystem::is_directory(given_path) ? given_path / "config.json" : given_path;
  const io::MappedFile file(path);
  const bool is_gguf = file.text().starts_with("GGUF");
  model::ModelDescription model = is_gguf
                                      ? model::read_gguf(model::GgufFiles(path).gguf())
                                      : model::read_config(file.text(), {.name = file.name()});
  model.source = given_path.string();
  return model;
}

// Copies the positions of a plan, because they may belong to the caller for this call only.
void own_positions(LayerPlan& plan) {
  for (auto* positions : {&plan.queries, &plan.keys, &plan.scale_positions})
    if (*positions) *positions = std::make_shared<const Positions>(**positions);
}

}  // namespace
}  // namespace gnomon::c

gnomon_status gnomon_encodings(char** json) {
  return guarded([&] { gnomon::c::give(gnomon::c::json_of_encodings(), json); });
}

gnomon_status gnomon_encoding_from_json(const char* json, gnomon_encoding** out) {
  return guarded([&] {
    given("json", json);
    make(out, gnomon::model::encoding_from_json(json));
  });
}

gnomon_status gnomon_encoding_from_name(const char* name, int64_t width, int64_t heads,
                                        int64_t length, int32_t reads, gnomon_encoding** out) {
  return guarded([&] {
    given("name", name);
    const gnomon::model::Shape shape{.width = width,
                                     .heads = heads,
                                     .length = length,
                                     .reads = static_cast<gnomon::Visibility>(reads)};
    gnomon::model::internal::check_shape(shape);
    make(out, gnomon::model::find_encoding(name).usual(shape));
  });
}

gnomon_status gnomon_encoding_to_json(const gnomon_encoding* encoding, char** json) {
  return guarded([&] {
    gnomon::c::give(gnomon::model::to_json(given("encoding", encoding).encoding), json);
  });
}

gnomon_status gnomon_encoding_parameters(const gnomon_encoding* encoding, char** json) {
  return guarded([&] {
    gnomon::c::give(
        gnomon::c::json_of(gnomon::model::parameters(given("encoding", encoding).encoding)),
        json);
  });
}

gnomon_status gnomon_encoding_random_parameter(const gnomon_encoding* encoding, int64_t index,
                                               const gnomon_tensor* values) {
  return guarded([&] {
    const auto parameters = gnomon::model::parameters(given("encoding", encoding).encoding);
    if (index < 0 || index >= std::ssize(parameters))
      gnomon::refuse(
          "c", "index must be of one of " + std::to_string(parameters.size()) + " parameters",
          index);
    const auto& one = parameters[static_cast<std::size_t>(index)];
    const auto to =
        gnomon::internal::write<float, 2>({"c", "values"}, tensor("values", values));
    gnomon::internal::check_shape("c", "values", to.extents(), {one.rows, one.columns});
    // The first parameter has the seed 1.
    const auto from =
        gnomon::model::internal::random_values(one, static_cast<unsigned>(index) + 1);
    for (int64_t i = 0, at = 0; i < one.rows; ++i)
      for (int64_t j = 0; j < one.columns; ++j, ++at)
        to(i, j) = from[static_cast<std::size_t>(at)];
  });
}

gnomon_status gnomon_normal(uint64_t seed, const gnomon_tensor* out) {
  return guarded([&] {
    const auto to = gnomon::internal::write<float, 1>({"c", "out"}, tensor("out", out));
    gnomon::internal::Normal normal(seed);
    for (int64_t i = 0; i < to.extent(0); ++i) to(i) = static_cast<float>(normal());
  });
}

void gnomon_encoding_destroy(gnomon_encoding* encoding) { delete encoding; }

gnomon_status gnomon_encoding_frequencies(const gnomon_encoding* encoding, int64_t length,
                                          gnomon_frequencies** out) {
  return guarded([&] {
    const gnomon::model::Encoding& of = given("encoding", encoding).encoding;
    auto frequencies = gnomon::model::rotary_frequencies(of, length);
    if (!frequencies)
      gnomon::refuse("c", "the encoding must be rotary with one set of frequencies",
                     gnomon::model::info(of).name);
    make(out, *std::move(frequencies));
  });
}

gnomon_status gnomon_encoding_lower(const gnomon_encoding* encoding,
                                    const gnomon_tensor* const* values, int64_t count,
                                    int64_t queries, int64_t keys, gnomon_layer_plan** out) {
  return guarded([&] {
    const gnomon::model::Encoding& of = given("encoding", encoding).encoding;
    make(out, gnomon::model::lower(
                  of, {.queries = queries, .keys = keys},
                  gnomon::c::matrices_of(values, count, gnomon::model::parameters(of).size())));
  });
}

gnomon_status gnomon_encoding_terms(const gnomon_encoding* encoding,
                                    const gnomon_tensor* const* values, int64_t count,
                                    const gnomon_tensor* x, gnomon_terms** out) {
  return guarded([&] {
    const gnomon::model::Mixture of{given("encoding", encoding).encoding};
    const auto input = gnomon::internal::read<float, 3>({"c", "x"}, tensor("x", x));
    const auto matrices =
        gnomon::c::matrices_of(values, count, gnomon::model::parameters(of).size());
    gnomon::TermArrays arrays =
        gnomon::model::term_arrays(of, input.extent(0), input.extent(1));
    gnomon::model::compute_terms(of, matrices, input, arrays.terms<gnomon::Tensor>());
    make(out, std::move(arrays), gnomon::TokenTerms{});
    (*out)->terms = (*out)->own.terms<gnomon::ConstTensor>();
  });
}

gnomon_status gnomon_encoding_lower_backward(const gnomon_encoding* encoding,
                                             const gnomon_tensor* const* values, int64_t count,
                                             int64_t queries, int64_t keys,
                                             const gnomon_plan_gradient* gradient,
                                             const gnomon_tensor* table_grad,
                                             const gnomon_tensor* const* grads) {
  return guarded([&] {
    const gnomon::model::Encoding& of = given("encoding", encoding).encoding;
    const std::size_t parameters = gnomon::model::parameters(of).size();
    if (std::holds_alternative<gnomon::RotaryLearned>(of) ||
        std::holds_alternative<gnomon::RotaryMixed>(of) ||
        std::holds_alternative<gnomon::ComRope>(of))
      gnomon::refuse("c", "the C API has no gradient of trained frequencies",
                     gnomon::model::info(of).name);
    gnomon::model::LayerGradient lowered;
    if (gradient) lowered.bias = gradient->bias, lowered.relative = gradient->relative;
    if (table_grad)
      lowered.table =
          gnomon::internal::read<float, 2>({"c", "table_grad"}, tensor("", table_grad));
    std::vector<gnomon::View<float, 2>> to;
    gnomon::c::check_count("grads", grads, count, parameters);
    for (int64_t i = 0; i < count; ++i)
      to.push_back(
          gnomon::internal::write<float, 2>({"c", "grads"}, tensor("grads", grads[i])));
    gnomon::model::lower_backward(of, {.queries = queries, .keys = keys},
                                  gnomon::c::matrices_of(values, count, parameters), lowered,
                                  to);
  });
}

gnomon_status gnomon_encoding_check(const char* name, int64_t width, int64_t heads,
                                    int64_t trained, int64_t length, char** json) {
  return guarded([&] {
    given("name", name);
    gnomon::c::give(
        gnomon::verdicts::to_json(
            name, {.width = width, .heads = heads, .trained = trained, .length = length}),
        json);
  });
}

gnomon_status gnomon_model_open(const char* path, gnomon_model** out) {
  return guarded([&] {
    given("path", path);
    make(out, gnomon::c::read_model(path));
  });
}

gnomon_status gnomon_model_from_config(const char* json, gnomon_model** out) {
  return guarded([&] {
    given("json", json);
    make(out, gnomon::model::read_config(json));
  });
}

gnomon_status gnomon_model_from_config_assuming(const char* json, std::int32_t pairing,
                                                gnomon_model** out) {
  return guarded([&] {
    given("json", json);
    if (pairing != GNOMON_HALVES && pairing != GNOMON_ADJACENT)
      gnomon::refuse("c", "pairing must be halves or adjacent", pairing);
    make(out, gnomon::model::read_config(
                  json, {.assume_pairing = static_cast<gnomon::Pairing>(pairing)}));
  });
}

gnomon_status gnomon_model_to_json(const gnomon_model* model, char** json) {
  return guarded(
      [&] { gnomon::c::give(gnomon::model::to_json(given("model", model).model), json); });
}

gnomon_status gnomon_model_to_json_at(const gnomon_model* model, int64_t length, char** json) {
  return guarded([&] {
    gnomon::c::give(gnomon::model::to_json(given("model", model).model, length), json);
  });
}

void gnomon_model_destroy(gnomon_model* model) { delete model; }

gnomon_status gnomon_model_layer_parameters(const gnomon_model* model, const char* part,
                                            int64_t layer, char** json) {
  return guarded([&] {
    const auto& group =
        gnomon::model::group_of(given("model", model).model, layer, part ? part : "");
    gnomon::c::give(gnomon::c::json_of(gnomon::model::layer_parameters(group)), json);
  });
}

gnomon_status gnomon_model_lower_layer(const gnomon_model* model, const char* part,
                                       int64_t layer, const gnomon_tokens* tokens,
                                       const gnomon_tensor* const* values, int64_t count,
                                       gnomon_layer_plan** out) {
  return guarded([&] {
    const gnomon_tokens& from = gnomon::c::sized("gnomon_tokens", "tokens", tokens);
    const auto queries = gnomon::c::axes_of("query_ids", from.query_ids, from.query_sequences);
    std::vector<gnomon::Positions> keys;
    if (from.key_ids) keys = gnomon::c::axes_of("key_ids", from.key_ids, from.key_sequences);
    const gnomon::model::ModelDescription& of = given("model", model).model;
    const auto& group = gnomon::model::group_of(of, layer, part ? part : "");
    gnomon::LayerPlan plan = gnomon::model::lower_layer(
        of, layer, part ? part : "",
        {.queries = queries, .keys = keys, .cached = from.cached, .length = from.length},
        gnomon::c::matrices_of(values, count, gnomon::model::layer_parameters(group).size()));
    gnomon::c::own_positions(plan);
    make(out, std::move(plan));
  });
}
