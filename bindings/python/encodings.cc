// Specs as JSON. The classes of gnomon/specs.py write and read it.
#include "bindings/python/encodings.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <vector>

#include "gnomon/error.h"
#include "gnomon/model/scheme.h"
#include "src/model/encodings/lowering.h"

namespace gnomon::python {
namespace {

std::string effect(model::Effect one) { return one == model::Effect::none ? "none" : "some"; }

const char* linearity(model::Linearity one) {
  return one == model::Linearity::linear ? "linear" : "nonlinear";
}

nb::dict info_of(const model::EncodingInfo& info) {
  nb::dict all;
  all["name"] = std::string(info.name);
  all["title"] = std::string(info.title);
  all["enters"] = model::name(info.enters);
  all["sharing"] = info.sharing == model::Sharing::all_layers ? "all_layers" : "each_layer";
  all["causal"] = model::properties(info.usual({64, 4, 16})).causal;
  all["summary"] = std::string(info.summary);
  all["source"] = std::string(info.source);
  all["page"] = std::string(info.page);
  return all;
}

nb::list parameters_of(const std::vector<model::Parameter>& parameters) {
  nb::list all;
  for (const model::Parameter& one : parameters) {
    nb::object initial = nb::none();
    if (!one.initial.empty()) initial = nb::tuple(nb::cast(one.initial));
    all.append(nb::make_tuple(one.name, one.rows, one.columns, one.initial_mean,
                              one.initial_deviation, initial));
  }
  return all;
}

}  // namespace

void refuse_choice(const char* operation, const char* name, const std::string& list,
                   std::string_view got) {
  refuse(operation, std::string(name) + " must be one of " + list, got);
}

Direction direction_of(const char* operation, std::string_view text) {
  constexpr Choice<Direction> directions[] = {{"forward", Direction::forward},
                                              {"inverse", Direction::inverse}};
  return chosen(operation, "direction", text, directions);
}

constexpr Choice<Visibility> visibilities[] = {{"causal", Visibility::causal},
                                               {"bidirectional", Visibility::bidirectional}};
Visibility visibility_of(const char* operation, const std::string& text) {
  return chosen(operation, "visibility", text, visibilities);
}
std::string name(Visibility visibility) {
  return visibility == Visibility::causal ? "causal" : "bidirectional";
}

Angles angles_of(const std::string& text) {
  constexpr Choice<Angles> kinds[] = {{"exact", Angles::exact}, {"float32", Angles::float32}};
  return chosen("rotary", "angles", text, kinds);
}

model::Encoding encoding_of(nb::handle object) {
  std::string json;
  if (nb::try_cast(object, json, false)) return model::encoding_from_json(json);
  if (!nb::hasattr(object, "to_json"))
    refuse("encoding", "must be a spec, as gnomon.Rotary(...), or its JSON",
           std::string_view(nb::cast<std::string>(nb::str(object.type()))));
  const nb::object given = object.attr("to_json")();
  if (!nb::try_cast(given, json, false))
    refuse("encoding", "to_json must return a string",
           nb::cast<std::string>(nb::str(given.type())));
  return model::encoding_from_json(json);
}

model::Mixture mixture_of(nb::handle object) {
  model::Mixture mixture;
  if (object.is_none()) return mixture;
  if (!PyList_Check(object.ptr()) && !PyTuple_Check(object.ptr())) {
    mixture.push_back(encoding_of(object));
    return mixture;
  }
  for (nb::handle one : nb::borrow<nb::object>(object)) mixture.push_back(encoding_of(one));
  return mixture;
}

void bind_encodings(nb::module_& module) {
  module.def(
      "encodings",
      [] {
        nb::list all;
        for (const model::EncodingInfo& one : model::encodings()) all.append(info_of(one));
        return all;
      },
      nb::sig("def encodings() -> list[dict[str, str]]"));
  module.def(
      "find_encoding",
      [](const std::string& name) { return info_of(model::find_encoding(name)); },
      nb::arg("name"), nb::sig("def find_encoding(name: str) -> dict[str, str]"));
  module.def(
      "info", [](nb::handle encoding) { return info_of(model::info(encoding_of(encoding))); },
      nb::arg("encoding"), nb::sig("def info(encoding: Encoding | str) -> dict[str, str]"));
  module.def(
      "usual",
      [](const std::string& name, std::int64_t width, std::int64_t heads, std::int64_t length,
         const std::string& reads) {
        const model::Shape shape{.width = width,
                                 .heads = heads,
                                 .length = length,
                                 .reads = visibility_of("encoding", reads)};
        model::internal::check_shape(shape);
        return model::to_json(model::find_encoding(name).usual(shape));
      },
      nb::arg("name"), nb::arg("width"), nb::arg("heads"), nb::arg("length"), nb::arg("reads"),
      nb::sig("def usual(name: str, width: int, heads: int, length: int, reads: Visibility) -> "
              "str"));
  module.def(
      "scheme",
      [](const std::string& text, std::int64_t layers, std::int64_t width, std::int64_t heads,
         std::int64_t length, const std::string& reads) {
        const model::Scheme scheme =
            model::parse_scheme(model::canonical_names(text),
                                {.width = width,
                                 .heads = heads,
                                 .length = length,
                                 .reads = visibility_of("encoding", reads)},
                                layers);
        std::vector<std::vector<std::string>> all;
        for (const model::Mixture& layer : scheme.layers) {
          all.emplace_back();
          for (const model::Encoding& one : layer) all.back().push_back(model::to_json(one));
        }
        return all;
      },
      nb::arg("text"), nb::arg("layers"), nb::arg("width"), nb::arg("heads"), nb::arg("length"),
      nb::arg("reads"),
      nb::sig("def scheme(text: str, layers: int, width: int, heads: int, length: int, "
              "reads: Visibility) -> list[list[str]]"));
  // The JSON with all fields, and the defaults of those that were left out.
  module.def(
      "complete", [](nb::handle encoding) { return model::to_json(encoding_of(encoding)); },
      nb::arg("encoding"), nb::sig("def complete(encoding: Encoding | str) -> str"));
  module.def(
      "parameters",
      [](nb::handle encoding) {
        return parameters_of(model::parameters(mixture_of(encoding)));
      },
      nb::arg("encoding"),
      nb::sig("def parameters(encoding: Encoding | str | Sequence[Encoding | str]) -> "
              "list[tuple[str, int, int, float, float]]"));
  // Path, shape and transposition of each parameter in a state dict.
  module.def(
      "term_ranks",
      [] {
        nb::list all;
        for (const auto& one : named_terms<Tensor>)
          all.append(nb::make_tuple(one.name, one.rank));
        return all;
      },
      nb::sig("def term_ranks() -> list[tuple[str, int]]"),
      "Returns the names of all token terms and their numbers of axes.");
  module.def(
      "token_terms",
      [](nb::handle encoding) {
        nb::list all;
        const model::Mixture mixture = mixture_of(encoding);
        for (const model::TermShape& one : model::token_terms(mixture)) {
          const auto& term =
              *std::find_if(std::begin(named_terms<Tensor>), std::end(named_terms<Tensor>),
                            [&](const auto& named) { return named.name == one.name; });
          const char* const tokens = term.tokens == TermTokens::queries ? "queries" : "keys";
          all.append(nb::make_tuple(one.name, one.heads, one.size, tokens));
        }
        return all;
      },
      nb::arg("encoding"),
      nb::sig("def token_terms(encoding: Encoding | str | Sequence[Encoding | str]) -> "
              "list[tuple[str, int, int, str]]"),
      "Returns the inputs of attention that an encoding computes from the tokens: name, heads, "
      "elements of a\nvector (0: one number for each token and head), and the tokens, "
      "'queries' or 'keys'.");
  module.def(
      "stored_parameters",
      [](nb::handle encoding) {
        nb::list all;
        for (const model::Parameter& one : model::parameters(encoding_of(encoding))) {
          const auto shape = one.shape.empty() ? std::vector{one.rows, one.columns} : one.shape;
          all.append(nb::make_tuple(one.path.empty() ? one.name : one.path,
                                    nb::tuple(nb::cast(shape)), one.transposed));
        }
        return all;
      },
      nb::arg("encoding"),
      nb::sig("def stored_parameters(encoding: Encoding | str) -> "
              "list[tuple[str, tuple[int, ...], bool]]"));
  module.def(
      "capacity", [](nb::handle encoding) { return model::capacity(mixture_of(encoding)); },
      nb::arg("encoding"),
      nb::sig(
          "def capacity(encoding: Encoding | str | Sequence[Encoding | str]) -> int | None"));
  module.def(
      "enters",
      [](nb::handle encoding) { return model::name(model::enters(mixture_of(encoding))); },
      nb::arg("encoding"),
      nb::sig("def enters(encoding: Encoding | str | Sequence[Encoding | str]) -> str"));
  module.def(
      "softmax_factor",
      [](nb::handle encoding, std::int64_t length) {
        return model::softmax_factor(encoding_of(encoding), length);
      },
      nb::arg("encoding"), nb::arg("length"),
      nb::sig("def softmax_factor(encoding: Encoding | str, length: int) -> float"));
  module.def(
      "properties",
      [](nb::handle encoding) {
        const model::Properties& facts = model::properties(encoding_of(encoding));
        nb::dict all;
        all["reversal"] = effect(facts.reversal);
        all["shift"] = effect(facts.shift);
        all["decay"] = facts.decay == model::Decay::monotonic ? "monotonic" : "unspecified";
        all["linearity"] = linearity(facts.linearity);
        all["plan_linearity"] = linearity(facts.plan_linearity);
        return all;
      },
      nb::arg("encoding"),
      nb::sig("def properties(encoding: Encoding | str) -> dict[str, str]"));
}

}  // namespace gnomon::python
