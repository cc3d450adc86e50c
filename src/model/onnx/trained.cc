#include "src/model/onnx/trained.h"

#include <algorithm>
#include <cmath>

#include "gnomon/error.h"
#include "src/core/size.h"

namespace gnomon::model::internal {
namespace {

using gnomon::internal::to_size;

// Numbers in [0.5, 1.5) without a pattern: the fractional parts of multiples of an irrational.
float check_value(std::size_t i) {
  const double product = static_cast<double>(i + 1) * 0.7548776662466927;
  return static_cast<float>(0.5 + product - std::floor(product));
}

std::vector<View<const float, 2>> views(const std::vector<Parameter>& parameters,
                                        const std::vector<std::vector<float>>& values) {
  std::vector<View<const float, 2>> all;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    all.emplace_back(values[i].data(), std::array{parameters[i].rows, parameters[i].columns});
  return all;
}

}  // namespace

TrainedValues::TrainedValues(OnnxGraph& graph, const LayerGroup& group, const Lower& lower)
    : graph_(graph), parameters_(layer_parameters(group)), inputs_(parameters_.size()) {
  for (const Encoding& one : group.position)
    in_table_.resize(in_table_.size() + parameters(one).size(),
                     includes(info(one).enters, Place::embeddings));
  in_table_.resize(parameters_.size(), false);
  std::vector<std::vector<float>> checks;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const auto size = to_size(parameters_[i].rows * parameters_[i].columns);
    values_.emplace_back(size);
    checks.emplace_back(size);
    if (in_table_[i]) continue;
    for (std::size_t n = 0; n < size; ++n) {
      values_[i][n] = static_cast<float>(check_.size());
      check_.push_back(checks[i][n] = check_value(check_.size()));
    }
  }
  indices_ = lower(views(parameters_, values_));
  checked_ = lower(views(parameters_, checks));
}

Value TrainedValues::input(std::size_t i) {
  if (inputs_[i].empty()) {
    const Parameter& one = parameters_[i];
    inputs_[i] = graph_.input(one.name, OnnxType::float32,
                              {std::to_string(one.rows), std::to_string(one.columns)});
  }
  return inputs_[i];
}

Value TrainedValues::all() {
  if (!all_.empty()) return all_;
  std::vector<Value> parts;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (!in_table_[i]) parts.push_back(graph_.reshape(input(i), {-1}));
  all_ = parts.size() == 1 ? parts.front() : graph_.node("Concat", parts, {{"axis", 0}});
  return all_;
}

Value TrainedValues::value(const std::vector<std::int64_t>& shape, std::span<const float> index,
                           std::span<const float> check, const std::string& what) {
  return value(shape, std::vector<double>(index.begin(), index.end()),
               std::vector<double>(check.begin(), check.end()), what);
}

Value TrainedValues::value(const std::vector<std::int64_t>& shape,
                           std::span<const double> index, std::span<const double> check,
                           const std::string& what, double factor) {
  if (std::equal(index.begin(), index.end(), check.begin(), check.end()))
    return graph_.constant(shape, std::vector<float>(index.begin(), index.end()));
  std::vector<std::int64_t> rows;
  const auto divided = [&](double by) {
    rows.clear();
    for (std::size_t n = 0; n < index.size(); ++n) {
      const double row = by == 1 ? index[n] : std::round(index[n] / by);
      if (!(row >= 0 && row < static_cast<double>(check_.size()) && row < 1 << 24) ||
          row != std::floor(row))
        return false;
      const double difference = check[n] / by - double{check_[static_cast<std::size_t>(row)]};
      if (std::abs(difference) > (by == 1 ? 0 : 1e-12)) return false;
      rows.push_back(static_cast<std::int64_t>(row));
    }
    return true;
  };
  if (!divided(1)) {
    if (!divided(factor))
      refuse("onnx", "trained values must be entries of the parameters", what);
    return graph_.node("Mul", {gathered(shape, rows), graph_.number(factor)});
  }
  return gathered(shape, rows);
}

Value TrainedValues::gathered(const std::vector<std::int64_t>& shape,
                              const std::vector<std::int64_t>& rows) {
  // A whole parameter in its order needs no Gather.
  std::int64_t first = 0;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (in_table_[i]) continue;
    if (std::ssize(rows) == std::ssize(values_[i]) && rows.front() == first &&
        rows.back() == first + std::ssize(rows) - 1 && std::is_sorted(rows.begin(), rows.end()))
      return graph_.reshape(input(i), shape);
    first += std::ssize(values_[i]);
  }
  const Value chosen = graph_.constant(shape, rows);
  return graph_.gather(all(), chosen);
}

Value TrainedValues::table(const Lower& lower) {
  const auto lowered = [&](const std::vector<std::vector<float>>& values) {
    LayerPlan plan = lower(views(parameters_, values));
    if (!plan.table) refuse("onnx", "a table must be added to the embeddings", "none");
    return *std::move(plan.table);
  };
  // Without parameters: what the definition fixes.
  std::vector<std::vector<float>> values = values_;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (in_table_[i]) std::fill(values[i].begin(), values[i].end(), 0.0f);
  const EmbeddingTable fixed = lowered(values);
  const auto [tokens, width, numbers] = fixed;
  std::vector<float> sum = numbers;
  Value result;
  if (std::any_of(sum.begin(), sum.end(), [](float one) { return one != 0; }))
    result = graph_.constant({tokens, width}, sum);
  // With rows of an identity matrix as parameter, the table contains the factor of each row.
  std::vector<std::vector<float>> checks = values;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!in_table_[i]) continue;
    const auto [name, rows, columns] =
        std::tuple(parameters_[i].name, parameters_[i].rows, parameters_[i].columns);
    if (columns != width) refuse("onnx", "parameters of a table must have its width", columns);
    std::vector<float> factors(to_size(tokens * rows));
    for (std::int64_t first = 0; first < rows; first += width) {
      const std::int64_t count = std::min(width, rows - first);
      std::fill(values[i].begin(), values[i].end(), 0.0f);
      for (std::int64_t n = 0; n < count; ++n)
        values[i][to_size((first + n) * columns + n)] = 1;
      const EmbeddingTable part = lowered(values);
      for (std::int64_t t = 0; t < tokens; ++t)
        for (std::int64_t n = 0; n < count; ++n)
          factors[to_size(t * rows + first + n)] =
              part.values[to_size(t * width + n)] - numbers[to_size(t * width + n)];
    }
    std::fill(values[i].begin(), values[i].end(), 0.0f);
    for (std::size_t n = 0; n < checks[i].size(); ++n) checks[i][n] = check_value(n);
    std::vector<std::int64_t> chosen;
    bool gathers = true;
    for (std::int64_t t = 0; t < tokens; ++t) {
      const float* const row = factors.data() + t * rows;
      const float* const most = std::max_element(row, row + rows);
      gathers &= *most == 1 && std::count(row, row + rows, 0.0f) == rows - 1;
      chosen.push_back(most - row);
      for (std::int64_t n = 0; n < rows; ++n)
        for (std::int64_t c = 0; row[n] != 0 && c < width; ++c)
          sum[to_size(t * width + c)] += row[n] * checks[i][to_size(n * columns + c)];
    }
    const Value part =
        gathers ? graph_.gather(input(i), graph_.list(chosen))
                : graph_.node("MatMul", {graph_.constant({tokens, rows}, factors), input(i)});
    result = result.empty() ? part : graph_.node("Add", {result, part});
  }
  const EmbeddingTable check = lowered(checks);
  for (std::size_t n = 0; n < sum.size(); ++n)
    if (std::abs(check.values[n] - sum[n]) > 1e-4f * std::max(1.0f, std::abs(sum[n])))
      refuse("onnx", "a table must be a sum of rows of its parameters", "another function");
  return result;
}

}  // namespace gnomon::model::internal
