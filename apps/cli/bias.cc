// `gnomon bias`: the matrix [H, Q, K] that a bias adds to the scores, or the rows of its table.
// It supports every encoding of the list that enters at the scores. The fields of its spec are
// options.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <optional>

#include "apps/cli/arguments.h"
#include "apps/cli/command.h"
#include "apps/cli/graph_file.h"
#include "apps/cli/output.h"
#include "apps/cli/tensors.h"
#include "gnomon/error.h"
#include "gnomon/io/safetensors.h"
#include "gnomon/model/encoding.h"
#include "src/model/encodings/encoding_json.h"
#include "src/verdicts/encoding_matrices.h"

namespace gnomon::cli {

using verdicts::depends_on_contents;
namespace {

constexpr const char* bias_help =
    R"(Usage: gnomon bias KIND --heads H --queries Q --keys K [options] [-o FILE]

The values that a bias adds to the scores, [H, Q, K], for the query at position
offset + q and the key at position k. Without -o, prints only the first values.

  KIND               alibi, t5, clipped, kerple, sandwich, fire, swin, beit, ...
                     (an unknown KIND lists all); with --indices also shaw, ...
  --offset O         position of the first query (0): the number of cached keys
  --causal           t5 and similar: the buckets of a decoder, which are all for
                     earlier keys (nothing is masked)
  --FIELD VALUE      a field of the encoding, as on its page and in --json:
                     --max-bias 8, --buckets 32 --max-distance 128,
                     --left 7, --window 7x7, --kernel power, --threshold 512
  --parameters FILE  trained parameters: a .npy if there is one matrix (t5
                     [buckets, H], swin [offsets, H]), or a .safetensors with
                     the names on the page of the encoding (kerple: r1, r2)
                     or in a state dict of gnomon.torch
  --graph FILE       graphormer: nodes of a graph instead of queries and keys,
                     an edge "u v" a line; --directed
  --indices          the index of the table entry of each score, [Q, K]
  -o FILE (.npy .csv .json)  --json

Example: gnomon bias alibi --heads 8 --queries 16 --keys 16 -o alibi.npy
)";

struct BiasOptions {
  std::string kind, parameters, graph;
  std::int64_t heads = 0, queries = 0, keys = 0, offset = 0;
  bool causal = false, indices = false, directed = false;
  std::map<std::string, std::optional<std::string>> fields;  // "max_bias": the value
  OutputOptions output;

  // The matrix has positions 0 to positions() - 1.
  std::int64_t positions() const { return std::max(keys, offset + queries); }
};

// The encodings that have a matrix, or rows to index.
std::vector<const model::EncodingInfo*> kinds() {
  std::vector<const model::EncodingInfo*> all;
  for (const model::EncodingInfo& one : model::encodings())
    if (model::includes(one.enters, model::Place::scores | model::Place::keys_and_values) &&
        !depends_on_contents(one))
      all.push_back(&one);
  return all;
}

bool has_matrix(const model::EncodingInfo& info) {
  return model::includes(info.enters, model::Place::scores);
}

constexpr std::int64_t head_dim = 64;

// The fields of the encoding as JSON, for sequences of that length.
Json usual_fields(const model::EncodingInfo& info, std::int64_t heads, std::int64_t length) {
  return model::internal::json_of(info.usual({heads * head_dim, heads, length}));
}

// The value of a field: an integer, a number or a word.
Json value_of(const std::string& text) {
  const auto parsed = [&](auto number) -> std::optional<Json> {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return Json(number);
  };
  if (auto integer = parsed(std::int64_t{0})) return *integer;
  if (auto number = parsed(0.0)) return *number;
  return text;
}

// The name of a parameter in a file: that of state dicts, unless the file has its own name.
const std::string& stored_name(const io::SafeTensors& file, const model::Parameter& parameter) {
  return parameter.path.empty() || file.find(parameter.name) ? parameter.name : parameter.path;
}

// The usual settings for this number of heads, with the given fields.
model::Encoding encoding_of(const BiasOptions& o) {
  Json fields = usual_fields(model::find_encoding(o.kind), o.heads,
                             std::max<std::int64_t>(o.positions(), 2));
  if (fields.contains("direction")) fields["direction"] = o.causal ? "causal" : "bidirectional";
  if (fields.contains("hidden") && o.parameters.ends_with(".safetensors")) {
    // The file has the size: the rows of the first matrix.
    const model::Parameter first = model::parameters(model::internal::encoding_of(fields))[0];
    const io::SafeTensors file(o.parameters);
    const auto numbers = file.tensor(stored_name(file, first)).to_doubles().size();
    fields["hidden"] = static_cast<std::int64_t>(numbers) / first.columns;
  }
  for (const auto& [name, value] : o.fields) {
    if (!value) continue;
    if (name == "window")
      std::tie(fields["height"], fields["width"]) = parse_grid(*value);
    else
      fields[name] = value_of(*value);
  }
  return model::internal::encoding_of(fields);
}

using Matrices = std::vector<std::unique_ptr<Tensor<float, 2>>>;

std::unique_ptr<Tensor<float, 2>> zeros(const model::Parameter& one) {
  return std::make_unique<Tensor<float, 2>>(
      std::array<std::ptrdiff_t, 2>{one.rows, one.columns});
}

Matrices read_parameters(const BiasOptions& o, const std::vector<model::Parameter>& wanted) {
  Matrices matrices;
  if (wanted.empty()) {
    if (!o.parameters.empty())
      refuse("bias", o.kind + " has no parameters", "--parameters " + o.parameters);
    return matrices;
  }
  const bool one = wanted.size() == 1;
  if (o.parameters.empty())
    refuse("bias",
           o.kind + (one ? " has a learned table: give --parameters F.npy, or --indices"
                         : " has learned parameters: give --parameters F.safetensors"),
           one ? "neither" : "none");
  if (one && !o.parameters.ends_with(".safetensors")) {
    matrices.push_back(read_matrix(o.parameters));
    return matrices;
  }
  const io::SafeTensors file(o.parameters);
  for (const model::Parameter& parameter : wanted) {
    const std::string& name = stored_name(file, parameter);
    const std::vector<double> numbers = file.tensor(name).to_doubles();
    if (static_cast<std::int64_t>(numbers.size()) != parameter.rows * parameter.columns)
      refuse(o.kind,
             name + " must have " + std::to_string(parameter.rows) + " x " +
                 std::to_string(parameter.columns) + " numbers",
             static_cast<std::int64_t>(numbers.size()));
    matrices.push_back(zeros(parameter));
    const bool transposed = parameter.transposed && &name == &parameter.path;
    for (std::int64_t r = 0, n = 0; r < parameter.rows; ++r)
      for (std::int64_t c = 0; c < parameter.columns; ++c, ++n)
        matrices.back()->view(r, c) = static_cast<float>(
            numbers[static_cast<std::size_t>(transposed ? c * parameter.rows + r : n)]);
  }
  return matrices;
}

LayerPlan lowered(const BiasOptions& o, const model::Encoding& encoding,
                  const Matrices& matrices) {
  std::vector<View<const float, 2>> values;
  for (const auto& one : matrices) values.emplace_back(one->view);
  return model::lower(encoding, {.queries = o.positions(), .keys = o.positions(), .ids = {}},
                      values);
}

// The index for a query and a key. Empty if the encoding has no such table.
using IndexOf = std::function<std::int64_t(std::int64_t, std::int64_t)>;

IndexOf rows_of(const RelativeForm& form) {
  const auto& tables = form.keys.empty() ? form.queries : form.keys;
  if (tables.empty()) return {};
  return [table = tables.front()](std::int64_t query, std::int64_t key) -> std::int64_t {
    const auto at = [&](std::int64_t position) {
      return table.coordinates.empty()
                 ? position
                 : table.coordinates.at(static_cast<std::size_t>(position));
    };
    return table.rows.at(static_cast<std::size_t>(at(key) - at(query) - table.min_distance));
  };
}

struct IndicesOf {
  template <typename Spec>
  IndexOf operator()(const Spec& spec) const {
    if constexpr (requires { bucket(spec, std::int64_t{0}); } && !requires { spec.span; })
      return [spec](std::int64_t query, std::int64_t key) { return bucket(spec, key - query); };
    else if constexpr (requires { bucket(spec.t5, std::int64_t{0}); })
      return (*this)(spec.t5);
    else if constexpr (requires { column(spec, std::int64_t{0}); })
      return [spec](std::int64_t query, std::int64_t key) { return column(spec, key - query); };
    else if constexpr (requires { spatial_row(spec, std::int64_t{0}); })
      return [spec](std::int64_t query, std::int64_t key) {
        return spatial_row(spec, std::abs(key - query));
      };
    else if constexpr (requires { offset_index(spec, 0, 0); })
      return [spec](std::int64_t query, std::int64_t key) {
        return offset_index(spec, query, key);
      };
    else
      return {};
  }
};

// The rows do not depend on the trained values, so zeros are sufficient.
IndexOf index_of(const BiasOptions& o, const model::Encoding& encoding) {
  if (IndexOf of_spec = std::visit(IndicesOf(), encoding)) return of_spec;
  Matrices nothing;
  for (const model::Parameter& one : model::parameters(encoding)) {
    nothing.push_back(zeros(one));
    if (one.initial_deviation == 0)
      std::fill(nothing.back()->values.begin(), nothing.back()->values.end(),
                static_cast<float>(one.initial_mean));
  }
  IndexOf of_form = rows_of(lowered(o, encoding, nothing).relative);
  if (!of_form) refuse("bias", o.kind + " has no table to index", "--indices");
  return of_form;
}

// Graphormer's bias of the nodes of a graph.
int run_graph(const BiasOptions& o) {
  const auto spec = std::get<Graphormer>(encoding_of(o));
  if (spec.edge_rows != 0 || spec.hops != 0)
    refuse("bias",
           "--edge-rows and --hops must be 0 with --graph, whose edges have no features",
           std::max(spec.edge_rows, spec.hops));
  const Graph graph =
      read_graph(o.graph, o.directed ? EdgeKind::directed : EdgeKind::undirected);
  const bool has_token = spec.token == GraphToken::first;
  const std::int64_t nodes = graph.nodes(), tokens = nodes + (has_token ? 1 : 0);
  elements_that_fit({o.heads + 4, tokens, tokens}, sizeof(float));  // and 16 bytes of indices
  Json facts = model::internal::json_of(spec);
  facts["nodes"] = nodes;
  if (o.indices) {
    const GraphormerIndices indices = graphormer_indices(spec, graph);
    Tensor<std::int64_t, 2> out({nodes, nodes});
    std::copy(indices.spatial.begin(), indices.spatial.end(), out.values.begin());
    put_array(o.output, out.array(), facts);
    return 0;
  }
  std::vector<model::Parameter> wanted = model::parameters(spec);
  if (has_token) wanted.push_back({"token", o.heads, 1});
  const Matrices tables = read_parameters(o, wanted);
  if (tables[0]->view.extents() != std::array<std::ptrdiff_t, 2>{wanted[0].rows, o.heads})
    refuse("bias", fmt::format("the spatial table must be [{}, {}]", wanted[0].rows, o.heads),
           shape_text(tables[0]->view.extents()));
  const GraphormerIndices indices = graphormer_indices(spec, graph);
  Tensor<float, 3> out({o.heads, tokens, tokens});
  GraphormerTables<const float> parameters{
      .spatial = tables[0]->view, .token = {}, .edges = {}, .hops = {}};
  if (has_token) parameters.token = {tables[1]->values.data(), {o.heads}};
  fill(spec, indices, parameters, {}, out.view);
  put_array(o.output, out.array(), facts);
  return 0;
}

int run_bias(BiasOptions& o) {
  check_ending(o.output, {".npy", ".csv", ".json"});
  if (!o.graph.empty()) return run_graph(o);
  if (o.queries < 1) refuse("bias", "--queries is required", "none");
  if (o.keys < 1) refuse("bias", "--keys is required", "none");
  constexpr std::int64_t most = std::int64_t{1} << 40;
  for (std::int64_t number : {o.heads, o.queries, o.keys, o.offset, -o.offset})
    if (number > most)
      refuse("bias", "--heads, --queries, --keys and --offset must be at most 2^40", number);
  elements_that_fit({o.heads, o.queries, o.keys}, sizeof(float));
  const model::Encoding encoding = encoding_of(o);
  Json facts = model::internal::json_of(encoding);
  facts["kind"] = o.kind;
  facts["queries"] = o.queries, facts["keys"] = o.keys, facts["offset"] = o.offset;
  if (facts.contains("direction")) facts["bidirectional"] = !o.causal;

  if (o.indices) {
    const IndexOf index = index_of(o, encoding);
    Tensor<std::int64_t, 2> out({o.queries, o.keys});
    for (std::int64_t q = 0; q < o.queries; ++q)
      for (std::int64_t k = 0; k < o.keys; ++k) out.view(q, k) = index(q + o.offset, k);
    put_array(o.output, out.array(), facts);
    return 0;
  }
  if (!has_matrix(model::info(encoding)))
    refuse("bias", o.kind + " adds products of queries and keys with vectors: give --indices",
           "none");
  const BiasForm form =
      lowered(o, encoding, read_parameters(o, model::parameters(encoding))).bias;
  if (const auto* fire = std::get_if<PiecewiseLogBias>(&form)) {
    facts["c"] = fire->c;
    facts["threshold"] = fire->threshold;
    facts["pieces"] = fire->pieces();
  }
  Tensor<float, 3> out({heads(form), o.queries, o.keys});
  dense(form, o.offset, out.view);
  put_array(o.output, out.array(), facts);
  return 0;
}

// The rule for KIND, which names the encodings that --indices can be used with. They are found
// by trying.
std::string rule_of_kinds() {
  std::vector<std::string> matrix, indices;
  for (const model::EncodingInfo* one : kinds()) {
    if (has_matrix(*one)) matrix.emplace_back(one->name);
    BiasOptions o;
    o.kind = one->name;
    o.heads = o.queries = o.keys = 2;
    try {
      index_of(o, encoding_of(o));
      indices.emplace_back(one->name);
    } catch (const std::invalid_argument&) {
    }
  }
  return fmt::format("must be one of {}; with --indices one of {}", fmt::join(matrix, ", "),
                     fmt::join(indices, ", "));
}

// Adds the fields of all encodings as options: "max_bias" as --max-bias.
void add_fields(Command& command, BiasOptions& o) {
  std::vector<std::pair<std::string, std::vector<std::string>>> users;
  const auto add = [&](const std::string& field, std::string_view kind) {
    auto at = std::ranges::find(users, field, &decltype(users)::value_type::first);
    if (at == users.end()) at = users.insert(at, {field, {}});
    at->second.emplace_back(kind);
  };
  for (const model::EncodingInfo* one : kinds()) {
    const Json fields = usual_fields(*one, 2, 2);
    for (const auto& [field, value] : fields.items())
      if (field != "kind" && field != "heads" && field != "given")  // no matrix is given here
        add(field, one->name);
    if (fields.contains("height") && fields.contains("width")) add("window", one->name);
  }
  for (auto& [field, of_kinds] : users) {
    std::string option = "--" + field;
    std::ranges::replace(option, '_', '-');
    if (field == "direction") command.flag("--causal", &o.causal).only_for(of_kinds);
    auto& added = command.option(option, &o.fields[field]).only_for(of_kinds).unlisted();
    if (field == "direction") added.not_with({"--causal"});
    if (field == "height" || field == "width") added.not_with({"--window"});
  }
}

}  // namespace

Command bias_command() {
  Command command("bias", bias_help);
  auto o = std::make_shared<BiasOptions>();
  std::vector<std::string> names, titles;
  for (const model::EncodingInfo* one : kinds()) {
    names.emplace_back(one->name);
    titles.emplace_back(one->title);
  }
  command.required("KIND", &o->kind).choices(names, titles, rule_of_kinds).selects();
  command.required("--heads", &o->heads).at_least(1);
  command.option("--queries", &o->queries).at_least(1).not_with({"--graph"});
  command.option("--keys", &o->keys).at_least(1).not_with({"--graph"});
  command.option("--offset", &o->offset).not_with({"--graph"});
  command.option("--graph", &o->graph).file().only_for({"graphormer"});
  command.flag("--directed", &o->directed).only_for({"graphormer"}).only_with({"--graph"});
  command.option("--parameters", &o->parameters).file().not_with({"--indices"});
  command.flag("--indices", &o->indices);
  command.option("-o", &o->output.path);
  command.flag("--json", &o->output.json);
  add_fields(command, *o);
  command.run = [o] { return run_bias(*o); };
  return command;
}

}  // namespace gnomon::cli
