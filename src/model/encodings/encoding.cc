// List of encodings, and lowering of one encoding through its Entry.
#include "gnomon/model/encoding.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <type_traits>
#include <utility>

#include "gnomon/error.h"
#include "src/core/size.h"
#include "src/model/encodings/all.h"
#include "src/model/encodings/lowering.h"
#include "src/position/check.h"

namespace gnomon::model {
namespace {

template <typename Spec>
using EntryFor = Entry<std::remove_cvref_t<Spec>>;

// All infos in the order of the variant, and the first index of each alternative.
struct List {
  std::vector<EncodingInfo> infos;
  std::vector<std::size_t> first;
};
template <std::size_t... i>
List listed(std::index_sequence<i...>) {
  List list;
  const auto append = [&](const auto& infos) {
    list.first.push_back(list.infos.size());
    list.infos.insert(list.infos.end(), std::begin(infos), std::end(infos));
  };
  (append(Entry<std::variant_alternative_t<i, Encoding>>::infos), ...);
  return list;
}
const List& list() {
  // Never destroyed, because threads may run until the process ends.
  static const List& all =
      *new List(listed(std::make_index_sequence<std::variant_size_v<Encoding>>()));
  return all;
}

template <typename Spec>
concept trained =
    requires(const Spec& spec, const Call& call, Values values, const LayerGradient& grad,
             Gradients grads) { Entry<Spec>::backward(spec, call, values, grad, grads); };

// Throws unless all positions, numbers of cells or rows, are below the capacity.
void check_positions(const Encoding& encoding, const Call& call) {
  const auto most = capacity(encoding);
  if (!most || call.coordinates.data() || call.resized) return;
  for (const Positions* one : {&call.query_positions(), &call.key_positions()}) {
    if (!call.line && call.query_axes().size() != 1) break;
    for (std::size_t i = 0; i < one->ids.size(); ++i) {
      const std::int64_t position = one->ids[i];
      if (one->sequences[i] != Positions::padding && (position < 0 || position >= *most))
        refuse(info(encoding).name,
               "positions must be below the number of rows, " + std::to_string(*most),
               position);
    }
  }
}

// Returns the head dimension of the spec, or 0.
std::int64_t head_dim(const Encoding& encoding) {
  return std::visit(
      []<typename Spec>(const Spec& spec) -> std::int64_t {
        if constexpr (requires { Entry<Spec>::head_dim(spec); })
          return Entry<Spec>::head_dim(spec);
        else
          return 0;
      },
      encoding);
}

}  // namespace

std::string name(Place places) {
  constexpr std::pair<Place, const char*> all[] = {
      {Place::nowhere, "nowhere"},
      {Place::embeddings, "embeddings"},
      {Place::queries_and_keys, "queries and keys"},
      {Place::scores, "scores"},
      {Place::keys_and_values, "keys and values"},
      {Place::weights, "weights"}};
  std::string joined;
  for (const auto& [place, text] : all)
    if (includes(places, place)) joined += (joined.empty() ? "" : ", ") + std::string(text);
  return joined;
}

void internal::check_shape(const Shape& shape) {
  const std::pair<const char*, std::int64_t> sizes[] = {
      {"width", shape.width}, {"heads", shape.heads}, {"length", shape.length}};
  for (const auto& [what, size] : sizes) {
    if (size < 1) refuse("encoding", std::string(what) + " must be at least 1", size);
    if (size > std::int64_t{1} << 31)
      refuse("encoding", std::string(what) + " must be at most 2^31", size);
  }
  if (shape.width % shape.heads)
    refuse("encoding", "heads must divide width, " + std::to_string(shape.width), shape.heads);
  if (shape.reads != Visibility::causal && shape.reads != Visibility::bidirectional)
    refuse("encoding", "reads must be causal or bidirectional", static_cast<int>(shape.reads));
}

std::span<const EncodingInfo> encodings() { return list().infos; }

const EncodingInfo& info(const Encoding& encoding) {
  return list().infos[list().first[encoding.index()]];
}

bool depends_on_contents(const Encoding& encoding) {
  return properties(encoding).causal || std::holds_alternative<Pope>(encoding) ||
         std::holds_alternative<GrapeAdditive>(encoding);
}

const Properties& properties(const Encoding& encoding) {
  return std::visit(
      [](const auto& spec) -> const Properties& {
        constexpr const Properties& all = EntryFor<decltype(spec)>::properties;
        static_assert(all.reversal != Effect{} && all.shift != Effect{});
        return all;
      },
      encoding);
}

std::vector<Parameter> parameters(const Encoding& encoding) {
  return std::visit([](const auto& spec) { return EntryFor<decltype(spec)>::parameters(spec); },
                    encoding);
}

std::optional<std::int64_t> capacity(const Encoding& encoding) {
  return std::visit([](const auto& spec) { return EntryFor<decltype(spec)>::capacity(spec); },
                    encoding);
}

std::span<const CheckpointName> internal::tensors(const Encoding& encoding) {
  return std::visit(
      []<typename Spec>(const Spec& spec) -> std::span<const CheckpointName> {
        if constexpr (requires { Entry<Spec>::tensors(spec); })
          return Entry<Spec>::tensors(spec);
        else
          return Entry<Spec>::tensors;
      },
      encoding);
}

Positions Window::query_positions() const {
  if (batch) return batch->queries;
  if (ids.empty()) return consecutive(queries, offset());
  return explicit_ids(std::span(ids).last(static_cast<std::size_t>(queries)));
}
Positions Window::key_positions() const {
  if (batch) return batch->keys;
  return ids.empty() ? consecutive(keys) : explicit_ids(ids);
}
Distances Window::distances() const {
  if (batch) return Call(*this).distances();
  if (ids.empty()) {
    const std::int64_t furthest = std::max<std::int64_t>(keys - 1, 0);
    return {-furthest, furthest + std::max<std::int64_t>(queries, 1)};
  }
  const auto [low, high] = std::minmax_element(ids.begin(), ids.end());
  if (queries == 0) return {0, 1};
  const auto [first, last] = std::minmax_element(ids.begin() + offset(), ids.end());
  return {*low - *last, (*high - *first) - (*low - *last) + 1};
}

namespace {

constexpr std::int64_t position_limit = std::int64_t{1} << 31;

void check_rows(const std::string& who, const Positions& positions, std::int64_t tokens) {
  if (positions.tokens != tokens)
    refuse("encoding",
           "positions of " + who + " must have " + std::to_string(tokens) + " tokens",
           positions.tokens);
  if (positions.batch < 1)
    refuse("encoding", "positions of " + who + " must have at least 1 row", positions.batch);
  gnomon::internal::check_ids_and_sequences("encoding", "positions of " + who, positions);
  for (const std::int64_t id : positions.ids)
    if (id <= -position_limit || id >= position_limit)
      refuse("encoding", "the magnitude of positions must be below 2^31", id);
}

void check_batch(const Window& window) {
  const BatchPositions& batch = *window.batch;
  if (!window.ids.empty())
    refuse("encoding", "a window must not have both ids and the positions of a batch", "both");
  check_rows("queries", batch.queries, window.queries);
  check_rows("keys", batch.keys, window.keys);
  if (batch.queries.batch != batch.keys.batch && batch.queries.batch != 1 &&
      batch.keys.batch != 1)
    refuse("encoding",
           "positions of queries must have 1 row or " + std::to_string(batch.keys.batch),
           batch.queries.batch);
}

}  // namespace

void internal::check_parameter_count(std::string_view where, std::span<const Parameter> wanted,
                                     std::size_t given) {
  if (given == wanted.size()) return;
  std::string list;
  for (const Parameter& one : wanted)
    list += (list.empty() ? " (" : ", ") + one.name + " " + std::to_string(one.rows) + " x " +
            std::to_string(one.columns);
  refuse(where,
         "requires " + std::to_string(wanted.size()) +
             (wanted.size() == 1 ? " parameter matrix" : " parameter matrices") + list +
             (list.empty() ? "" : ")"),
         static_cast<std::int64_t>(given));
}

template <typename T>
void internal::check_parameters(const Encoding& encoding,
                                std::span<const View<T, 2>> matrices) {
  const auto wanted = parameters(encoding);
  check_parameter_count(info(encoding).name, wanted, matrices.size());
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (matrices[i].extent(0) != wanted[i].rows || matrices[i].extent(1) != wanted[i].columns)
      refuse(info(encoding).name,
             wanted[i].name + " must be " + std::to_string(wanted[i].rows) + " x " +
                 std::to_string(wanted[i].columns),
             std::to_string(matrices[i].extent(0)) + " x " +
                 std::to_string(matrices[i].extent(1)));
}
template void internal::check_parameters(const Encoding&, std::span<const View<float, 2>>);
template void internal::check_parameters(const Encoding&,
                                         std::span<const View<const float, 2>>);

void internal::check_window(const Window& window) {
  if (window.queries < 0) refuse("encoding", "queries must not be negative", window.queries);
  if (window.batch) return check_batch(window);
  if (window.keys < window.queries)
    refuse("encoding",
           "keys must be at least the number of queries, " + std::to_string(window.queries),
           window.keys);
  if (window.keys > position_limit)
    refuse("encoding", "keys must be at most 2^31", window.keys);
  if (window.ids.empty()) return;
  if (std::ssize(window.ids) != window.keys)
    refuse("encoding",
           "the number of ids must be the number of keys, " + std::to_string(window.keys),
           std::ssize(window.ids));
  for (const std::int64_t id : window.ids)
    if (id <= -position_limit || id >= position_limit)
      refuse("encoding", "the magnitude of ids must be below 2^31", id);
}

std::optional<RotaryFrequencies> rotary_frequencies(const Encoding& encoding,
                                                    std::int64_t length) {
  return std::visit(
      [&]<typename Spec>(const Spec& spec) -> std::optional<RotaryFrequencies> {
        if constexpr (requires { Entry<Spec>::frequencies(spec, length); })
          return Entry<Spec>::frequencies(spec, length);
        else
          return std::nullopt;
      },
      encoding);
}

double softmax_factor(const Encoding& encoding, std::int64_t length) {
  return std::visit(
      [&]<typename Spec>(const Spec& spec) -> double {
        if constexpr (requires { Entry<Spec>::softmax_factor(spec, length); })
          return Entry<Spec>::softmax_factor(spec, length);
        else
          return 1;
      },
      encoding);
}

double internal::put_scale(std::span<const Encoding> mixture, Call& call) {
  double factor = 1;
  std::int64_t size = 0;
  for (const Encoding& one : mixture) {
    factor *= call.known ? call.known_factor : softmax_factor(one, call.length);
    size = std::max(size, head_dim(one));
  }
  if (call.softmax_scale == 0 && size > 0)
    call.softmax_scale = 1 / std::sqrt(static_cast<double>(size));
  call.softmax_scale *= factor;
  return factor;
}

void internal::lower_into(const Encoding& encoding, const Call& call, Values values,
                          LayerPlan& lowered) {
  check_positions(encoding, call);
  check_parameters<const float>(encoding, values);
  std::visit(
      [&](const auto& spec) { EntryFor<decltype(spec)>::lower(spec, call, values, lowered); },
      encoding);
}

void internal::backward_into(const Encoding& encoding, const Call& call, Values values,
                             const LayerGradient& lowered, Gradients grads) {
  check_positions(encoding, call);
  check_parameters<const float>(encoding, values);
  check_parameters<float>(encoding, grads);
  std::visit(
      [&](const auto& spec) {
        if constexpr (trained<std::remove_cvref_t<decltype(spec)>>)
          EntryFor<decltype(spec)>::backward(spec, call, values, lowered, grads);
      },
      encoding);
}

}  // namespace gnomon::model
