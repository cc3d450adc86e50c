// Descriptions of released models.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <filesystem>
#include <optional>
#include <string>

#include "bindings/python/arrays.h"
#include "bindings/python/encodings.h"
#include "bindings/python/plan.h"
#include "bindings/python/released_gil.h"
#include "gnomon/error.h"
#include "gnomon/io/file.h"
#include "gnomon/model/config.h"
#include "gnomon/model/gguf_files.h"
#include "gnomon/model/gguf_model.h"
#include "gnomon/model/layer.h"
#include "src/core/tensor.h"

namespace gnomon::python {
namespace {

using model::ModelDescription;

model::ConfigOptions options_of(std::string name, std::string part,
                                const std::string& yarn_factor,
                                const std::optional<std::string>& assume_pairing) {
  constexpr Choice<Pairing> pairings[] = {{"halves", Pairing::halves},
                                          {"adjacent", Pairing::adjacent}};
  std::optional<Pairing> pairing;
  if (assume_pairing) pairing = chosen("model", "assume_pairing", *assume_pairing, pairings);
  constexpr Choice<model::YarnFactor> factors[] = {
      {"as-written", model::YarnFactor::as_written},
      {"by-lengths", model::YarnFactor::by_lengths}};
  return {.name = std::move(name),
          .yarn_factor = chosen("model", "yarn_factor", yarn_factor, factors),
          .part = std::move(part),
          .assume_pairing = pairing};
}

ModelDescription read_path(const std::string& given, const std::string& part,
                           const std::string& yarn_factor,
                           const std::optional<std::string>& assume_pairing) {
  std::filesystem::path path = given;
  if (std::filesystem::is_directory(path)) path /= "config.json";
  const io::MappedFile file(path);
  const model::ConfigOptions options =
      options_of(file.name(), part, yarn_factor, assume_pairing);
  const bool is_gguf = file.text().starts_with("GGUF");
  if (is_gguf && assume_pairing)
    refuse("model", "assume_pairing applies to a config, not to a GGUF file", given);
  ModelDescription model = is_gguf ? model::read_gguf(model::GgufFiles(path).gguf())
                                   : model::read_config(file.text(), options);
  model.source = given;
  return model;
}

nb::list parameters_of(const ModelDescription& model, std::int64_t layer,
                       const std::string& part) {
  nb::list all;
  for (const model::Parameter& one :
       model::layer_parameters(model::group_of(model, layer, part)))
    all.append(nb::make_tuple(one.name, one.rows, one.columns, one.initial_mean,
                              one.initial_deviation));
  return all;
}

// The terms of the tokens of a plan, by name, as NumPy arrays.
nb::dict terms_of_layer(const ModelDescription& model, std::int64_t layer,
                        const std::string& part, const Plan& plan, nb::handle hidden) {
  const model::LayerGroup& group = model::group_of(model, layer, part);
  const Array x("model", "hidden", hidden, Array::Access::read);
  const auto input = internal::read<float, 3>({"model", "hidden"}, x.tensor());
  const auto shapes = model::layer_terms(group);
  if (shapes.empty()) return {};
  TermArrays terms;
  for (const model::TermShape& one : shapes)
    terms.add(one.name, one.shape(input.extent(0), input.extent(1)));
  {
    ReleasedGil released;
    model::compute_layer_terms(group, plan.lowered, plan.values(), input,
                               terms.terms<Tensor>());
  }
  nb::dict all;
  for (TermArrays::Array& one : terms.arrays)
    all[nb::str(one.name.data(), one.name.size())] =
        numpy(std::move(one.values), {one.shape.begin(), one.shape.end()});
  return all;
}

Plan lower_layer_of(const ModelDescription& model, std::int64_t layer, nb::handle queries,
                    nb::handle keys, const std::string& part, nb::handle parameters,
                    std::int64_t cached, bool rotated, std::int64_t length, nb::handle image) {
  std::vector<Positions> query_axes, key_axes;
  if (!queries.is_none()) {
    query_axes = axes_of("model", "queries", queries);
    // A number of tokens: those after the cached ones.
    if (cached > 0 && count_of("model", "queries", queries))
      query_axes = {consecutive(query_axes.front().tokens, cached)};
  }
  if (!keys.is_none()) key_axes = axes_of("model", "keys", keys);
  model::LayerTokens tokens{.queries = query_axes, .keys = key_axes, .cached = cached};
  tokens.earlier = rotated ? model::EarlierKeys::rotated : model::EarlierKeys::unrotated;
  tokens.length = length;
  if (!image.is_none()) {
    std::vector<std::int64_t> size;
    if (!nb::try_cast(image, size))
      refuse("model", "image must be integers", nb::cast<std::string>(nb::str(image)));
    if (size.size() != 2 && size.size() != 3)
      refuse("model", "image must be (height, width) or (frames, height, width), in patches",
             static_cast<std::int64_t>(size.size()));
    tokens.image =
        model::ImagePatches{size.size() == 3 ? size[0] : 1, size[size.size() - 2], size.back()};
  }
  Plan plan{.lowered = {}, .parameters = matrices_of("model", parameters), .prepared = true};
  ReleasedGil released;
  plan.lowered = model::lower_layer(model, layer, part, tokens, plan.values());
  for (auto* positions :
       {&plan.lowered.queries, &plan.lowered.keys, &plan.lowered.scale_positions})
    if (*positions) *positions = std::make_shared<const Positions>(**positions);
  if (!query_axes.empty()) plan.window.queries = query_axes.front().tokens;
  plan.window.keys = key_axes.empty() ? plan.window.queries + cached : key_axes.front().tokens;
  return plan;
}

}  // namespace

void bind_model(nb::module_& module) {
  nb::class_<ModelDescription>(module, "ModelDescription")
      .def_static("from_path", &read_path, nb::arg("path"), nb::arg("part"),
                  nb::arg("yarn_factor"), nb::arg("assume_pairing").none(),
                  nb::sig("def from_path(path: str, part: str, yarn_factor: YarnFactor, "
                          "assume_pairing: Pairing | None) -> ModelDescription"))
      .def_static(
          "from_config",
          [](const std::string& json, const std::string& part, const std::string& yarn_factor,
             const std::optional<std::string>& assume_pairing) {
            return model::read_config(
                json, options_of("config.json", part, yarn_factor, assume_pairing));
          },
          nb::arg("json"), nb::arg("part"), nb::arg("yarn_factor"),
          nb::arg("assume_pairing").none(),
          nb::sig("def from_config(json: str, part: str, yarn_factor: YarnFactor, "
                  "assume_pairing: Pairing | None) -> ModelDescription"))
      .def(
          "to_json",
          [](const ModelDescription& m, std::optional<std::int64_t> length) {
            return model::to_json(m, length);
          },
          nb::arg("length") = nb::none())
      // The encodings of each group, as JSON.
      .def(
          "groups",
          [](const ModelDescription& m) {
            nb::list groups;
            for (const model::LayerGroup& group : m.groups) {
              std::vector<std::string> encodings;
              for (const model::Encoding& one : group.position)
                encodings.push_back(model::to_json(one));
              nb::dict all;
              all["layers"] = group.layers;
              all["part"] = group.part;
              all["encodings"] = encodings;
              all["heads"] = group.heads;
              all["key_heads"] = group.key_heads;
              all["head_dim"] = group.head_dim;
              all["value_dim"] = group.value_dim;
              all["visibility"] = name(group.attention.visibility);
              all["left"] = group.attention.left;
              all["right"] = group.attention.right;
              all["softmax_scale"] = group.attention.softmax_scale;
              all["softcap"] = group.attention.softcap;
              all["unsupported"] = group.unsupported;
              groups.append(all);
            }
            return groups;
          },
          nb::sig("def groups(self) -> list[dict[str, Any]]"))
      .def_ro("source", &ModelDescription::source)
      .def_ro("model_type", &ModelDescription::model_type)
      .def_ro("layers", &ModelDescription::layers)
      .def_ro("length", &ModelDescription::length)
      .def_ro("width", &ModelDescription::width)
      .def_ro("notes", &ModelDescription::notes)
      .def("parameters", &parameters_of, nb::arg("layer"), nb::arg("part"),
           nb::sig("def parameters(self, layer: int, part: str) -> "
                   "list[tuple[str, int, int, float, float]]"))
      .def("compute_terms", &terms_of_layer, nb::arg("layer"), nb::arg("part"), nb::arg("plan"),
           nb::arg("hidden"),
           nb::sig("def compute_terms(self, layer: int, part: str, plan: Plan, hidden: Array) "
                   "-> dict[str, numpy.typing.NDArray[numpy.float32]]"))
      .def("lower_layer", &lower_layer_of, nb::arg("layer"), nb::arg("queries").none(),
           nb::arg("keys").none(), nb::arg("part"), nb::arg("parameters"), nb::arg("cached"),
           nb::arg("rotated"), nb::arg("length"), nb::arg("image").none());
}

}  // namespace gnomon::python
