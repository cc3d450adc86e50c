// The weights and the structure of a decoder-only language model, for engine.cc.
#pragma once

#include <gnomon/attention/qk_norm.h>
#include <gnomon/model/layer.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>
#include <regex>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

namespace engine {

using Numbers = std::vector<double>;
using std::ptrdiff_t, std::string, gnomon::NormKind;
namespace model = gnomon::model;
[[noreturn]] inline void refuse(const string& what) { throw std::invalid_argument(what); }

// A matrix [rows, columns] or a vector [rows], with an optional bias [rows]. No rows: no
// tensor.
struct Weight {
  ptrdiff_t rows = 0, columns = 0;
  std::vector<float> values = {}, bias = {};
  explicit operator bool() const { return rows > 0; }
  Numbers operator*(const Numbers& x) const {  // [T, columns] to [T, rows]
    if (!rows || std::ssize(x) % columns != 0) refuse("no support for its projections");
    Numbers y(std::ssize(x) / columns * rows);
    for (ptrdiff_t i = 0; i < std::ssize(y); ++i) {
      const float* row = &values[i % rows * columns];
      const double start = bias.empty() ? 0.0 : double{bias[i % rows]};
      y[i] = std::inner_product(row, row + columns, &x[i / rows * columns], start);
    }
    return y;
  }
  // Appends rows of another matrix.
  void append(const Weight& from, ptrdiff_t begin, ptrdiff_t end) {
    columns = from.columns, rows += end - begin;
    const auto copy = [&](auto& to, auto& of, ptrdiff_t width) {
      to.insert(to.end(), of.begin() + begin * width, of.begin() + end * width);
    };
    copy(values, from.values, columns);
    if (!from.bias.empty()) copy(bias, from.bias, 1);
  }
  // Returns `count` matrices, one above the other, each transposed.
  Weight transposed(ptrdiff_t count = 1) const {
    const ptrdiff_t R = rows / count, C = columns;
    Weight to{count * C, R, values};
    for (ptrdiff_t i = 0; i < std::ssize(values); ++i)
      to.values[(i / (R * C) * C + i % C) * R + i / C % R] = values[i];
    return to;
  }
};

// The tensors of a checkpoint. `used`: names of those that were read.
struct Tensors {
  std::vector<string> names;  // sorted
  std::function<model::CheckpointTensor(const string&)> reader;
  string columns_first = {};  // part of the names of matrices stored as [columns, rows]
  std::set<string> used = {};

  model::CheckpointTensor read(const string& name) {
    used.insert(name);
    return reader(name);
  }
  bool has(const string& name) const { return std::ranges::binary_search(names, name); }
  // Marks the tensors of layers that predict further tokens. The engine does not run them.
  void skip(const string& place, ptrdiff_t begin, ptrdiff_t count) {
    for (ptrdiff_t l = begin; l < begin + count; ++l)
      for (const string& name : names)
        if (name.starts_with(place + std::to_string(l) + ".")) used.insert(name);
  }
  // Returns the first module whose name matches `pattern`, or empty text.
  string find(const string& pattern) const {
    const std::regex re("(" + pattern + ")(\\.weight)?");
    const auto name = std::ranges::find_if(names, [&](auto& n) { return regex_match(n, re); });
    if (name == names.end()) return {};
    return name->ends_with(".weight") ? name->substr(0, name->size() - 7) : *name;
  }
  Weight match(const string& pattern) { return get(find(pattern)); }
  // Returns the tensors `module`.weight and `module`.bias, or `module` and `module`_bias. Of
  // more than two axes, the last one has the columns.
  Weight get(const string& module) {
    const string end = has(module + ".weight") ? ".weight" : "";
    if (!has(module + end)) return {};
    const auto [shape, values] = read(module + end);
    if (values.empty() || shape.empty()) refuse("no support for the empty tensor " + module);
    const ptrdiff_t columns = shape.size() > 1 ? shape.back() : 1;
    Weight weight{std::ssize(values) / columns, columns, values};
    if (!columns_first.empty() && module.find(columns_first) != string::npos)
      weight = weight.transposed(shape.size() > 2 ? shape[0] : 1);
    const string bias = module + (end.empty() ? "_bias" : ".bias");
    if (!has(bias)) return weight;
    weight.bias = read(bias).values;
    if (std::ssize(weight.bias) != weight.rows) refuse("no support for the bias of " + module);
    return weight;
  }
};

enum class GateRows { first = 1, even };
struct Mlp {
  Weight gate, up, down;
  // Splits a fused projection into the rows of the gate and those of up.
  void split_gate(GateRows rows = GateRows::first) {
    if (gate || up.rows != 2 * down.columns) return;
    const Weight fused = std::exchange(up, {});
    const bool even = rows == GateRows::even;
    for (ptrdiff_t i = 0; i < fused.rows; ++i)
      ((even ? i % 2 == 0 : i < fused.rows / 2) ? gate : up).append(fused, i, i + 1);
  }
};

// A mixture of experts: MLPs of which each token runs a few, and one that all tokens run.
struct Mixture {
  Weight router = {};  // scores of the experts
  Weight bias = {};    // added to the scores to choose experts, but not in their shares
  std::vector<Mlp> experts = {};  // without matrices: the identity
  Mlp shared = {};
  Weight shared_gate = {};

  // Splits matrices of all experts, one above the other.
  void split(Weight Mlp::* part, const Weight& all) {
    const ptrdiff_t E = router.rows;
    experts.resize(E);
    for (ptrdiff_t e = 0; e < E; ++e)
      (experts[e].*part).append(all, e * all.rows / E, (e + 1) * all.rows / E);
  }
};

// The choice of the experts of a token, and their shares.
struct Routing {
  ptrdiff_t experts = 0;  // of a token
  bool sigmoid = false;   // of the scores; otherwise their softmax
  // The experts are those of the best groups. The score of a group is the sum of its best
  // `votes` scores.
  ptrdiff_t groups = 1, best_groups = 1, votes = 1;
  bool shares_sum_to_1 = true;
  double scale = 1;  // of the shares
};

struct Layer {
  Weight norm, query, key, value, out, out_norm;  // out_norm: after attention
  // Latent attention: norms of the products with `query` and `key`, and the second matrices.
  // Those of a head are the part of its key without position, then its value.
  Weight query_norm = {}, query_up = {}, key_norm = {}, key_up = {};
  Weight mlp_norm, mlp_out_norm;
  Mlp mlp;
  Mixture mixture;           // with an MLP of the layer: added after the next layer
  bool parallel = false;     // attention and MLP have the same input
  bool shared_norm = false;  // and the same norm

  // Splits a fused projection of `parts`, each with its query, key and value heads.
  void split(const Weight& fused, ptrdiff_t parts, const model::LayerGroup& group) {
    const ptrdiff_t D = group.head_dim, heads = group.heads;
    if (parts < 1 || D < 1 || heads < parts) refuse("no support for its heads");
    const ptrdiff_t q = heads / parts, k = group.key_heads / parts;
    for (ptrdiff_t i = 0; i < fused.rows / D; ++i) {
      const ptrdiff_t head = i % (q + 2 * k);
      Weight& to = head < q ? query : head < q + k ? key : value;
      to.append(fused, i * D, (i + 1) * D);
    }
  }
};

// A decoder-only language model.
struct Network {
  Tensors tensors;
  model::ModelDescription model = {};
  Weight table, table_norm, out_norm, head;  // no head: the table
  std::vector<Layer> layers = {};
  NormKind norm = NormKind::layer;
  double epsilon = 1e-5, norm_offset = 0;        // of norms; the offset is added to weights
  double latent_epsilon = 1e-6;                  // of the norms of latent attention
  bool bare = false, normed_embeddings = false;  // bare: norms have no weights
  string activation = {};
  Routing routing = {};
  double embedding_scale = 1, residual_scale = 1, logit_scale = 1, logit_cap = 0;
  // Context for which the frequencies are resolved, as in llama.cpp (0: the training length).
  // Nothing: all tokens so far, as in transformers.
  std::optional<ptrdiff_t> context = {};
};

}  // namespace engine
