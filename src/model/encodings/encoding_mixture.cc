// Lowering of mixtures: each encoding fills a separate part of one plan.
#include <iterator>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include "gnomon/error.h"
#include "gnomon/model/encoding.h"
#include "src/model/encodings/all.h"
#include "src/model/encodings/lowering.h"

namespace gnomon::model {
namespace {

// Calls use(encoding, index of its first matrix, number of its matrices) for each encoding.
template <typename Use>
void for_each(const Mixture& mixture, Use&& use) {
  std::size_t first = 0;
  for (const Encoding& one : mixture) {
    const std::size_t count = parameters(one).size();
    use(one, first, count);
    first += count;
  }
}

void check_count(const Mixture& mixture, std::size_t count) {
  std::size_t wanted = 0;
  for (const Encoding& one : mixture) wanted += parameters(one).size();
  if (count != wanted)
    refuse(mixture.size() == 1 ? info(mixture[0]).name : "mixture",
           "requires " + std::to_string(wanted) + " parameter matrices",
           static_cast<std::int64_t>(count));
}

// Moves the parts of plans into one plan. Throws if two plans have the same part.
class Merger {
 public:
  explicit Merger(LayerPlan& to) : to_(to) {}

  void add(std::string_view name, LayerPlan from) {
    take("add a table to the embeddings", from.table.has_value(), name, table_,
         [&] { to_.table = std::move(from.table); });
    add_rotation(name, from);
    take("add a bias to the scores", !std::holds_alternative<NoBias>(from.bias), name, bias_,
         [&] { to_.bias = std::move(from.bias), to_.dense = std::move(from.dense); });
    take("have relative vectors", !from.relative.empty(), name, relative_,
         [&] { to_.relative = std::move(from.relative); });
    take("use cosines of queries and keys", !from.cosine.empty(), name, cosine_,
         [&] { to_.cosine = std::move(from.cosine); });
  }

 private:
  // Several encodings may rotate different elements of a head. All rotations after the first
  // are applied before attention().
  void add_rotation(std::string_view name, LayerPlan& from) {
    if (!from.query_rotary && from.query_rotations.empty()) return;
    const auto [begin, end] = elements(from);
    for (const auto& [holder, its_begin, its_end] : rotations_)
      if (begin < its_end && its_begin < end)
        refuse("mixture",
               "at most one encoding can rotate the same elements of queries and keys",
               std::string_view(holder + " and " + std::string(name)));
    rotations_.push_back({std::string(name), begin, end});
    const auto append = [](std::vector<HeadRotation>& to, std::vector<HeadRotation>& more) {
      to.insert(to.end(), std::make_move_iterator(more.begin()),
                std::make_move_iterator(more.end()));
    };
    append(to_.query_rotations, from.query_rotations);
    append(to_.key_rotations, from.key_rotations);
    if (!from.query_rotary) return;
    if (!to_.query_rotary) {
      to_.query_rotary = std::move(from.query_rotary);
      to_.key_rotary = std::move(from.key_rotary);
    } else {
      to_.query_rotations.emplace_back(*std::move(from.query_rotary));
      to_.key_rotations.emplace_back(*std::move(from.key_rotary));
    }
  }
  static std::pair<std::int64_t, std::int64_t> elements(const LayerPlan& from) {
    if (!from.query_rotary) return {0, std::numeric_limits<std::int64_t>::max()};
    const RotaryFrequencies& frequencies = from.query_rotary->frequencies();
    return {frequencies.head_offset, frequencies.head_offset + frequencies.rotary_dim()};
  }

  template <typename Move>
  static void take(const char* what, bool has, std::string_view name, std::string& holder,
                   Move&& move) {
    if (!has) return;
    if (!holder.empty())
      refuse("mixture", std::string("at most one encoding can ") + what,
             std::string_view(holder + " and " + std::string(name)));
    holder = name;
    move();
  }

  LayerPlan& to_;
  std::string table_, bias_, relative_, cosine_;  // name of the encoding with that part
  struct Rotated {
    std::string holder;
    std::int64_t begin, end;  // elements of the head
  };
  std::vector<Rotated> rotations_;
};

// Whether there is a gradient for a part of the encoding.
bool concerns(const Encoding& encoding, const LayerGradient& grad) {
  const Place places = info(encoding).enters;
  const RelativeGradient& r = grad.relative;
  return (includes(places, Place::embeddings) && grad.table.data()) ||
         (includes(places, Place::scores) &&
          (!grad.bias.values.empty() || !grad.cosine.empty())) ||
         (includes(places, Place::keys_and_values) &&
          (!r.keys.empty() || !r.queries.empty() || !r.values.empty() || !r.shift.empty()));
}

template <typename Spec>
concept has_gates = requires(const Spec& spec, Values values, View<const float, 3> x,
                             View<float, 3> out) { Entry<Spec>::gates(spec, values, x, out); };

bool is_gated(const Encoding& encoding) {
  return std::visit(
      [](const auto& spec) { return has_gates<std::remove_cvref_t<decltype(spec)>>; },
      encoding);
}

// Calls use(spec, index of its first matrix, number of its matrices) for the gated encoding.
template <typename Use>
void with_gated(const Mixture& mixture, Use&& use) {
  bool found = false;
  for_each(mixture, [&](const Encoding& one, std::size_t first, std::size_t count) {
    std::visit(
        [&](const auto& spec) {
          if constexpr (has_gates<std::remove_cvref_t<decltype(spec)>>)
            use(spec, first, count), found = true;
        },
        one);
  });
  if (!found) refuse("gates", "require an encoding with a gated bias", names(mixture));
}

}  // namespace

Place enters(const Mixture& mixture) {
  Place all{};
  for (const Encoding& one : mixture)
    if (info(one).enters != Place::nowhere) all = all | info(one).enters;
  return all == Place{} ? Place::nowhere : all;
}

std::string names(const Mixture& mixture) {
  std::string joined;
  for (const Encoding& one : mixture) {
    if (!joined.empty()) joined += '+';
    joined += info(one).name;
  }
  return joined.empty() ? std::string(info(NoPosition{}).name) : joined;
}

std::vector<Parameter> parameters(const Mixture& mixture) {
  std::vector<Parameter> all;
  for (const Encoding& one : mixture)
    for (Parameter& parameter : parameters(one)) {
      if (mixture.size() > 1)
        parameter.name = std::string(info(one).name).append(".").append(parameter.name);
      all.push_back(std::move(parameter));
    }
  return all;
}

std::optional<std::int64_t> capacity(const Mixture& mixture) {
  std::optional<std::int64_t> least;
  for (const Encoding& one : mixture)
    if (const auto own = capacity(one); own && (!least || *own < *least)) least = own;
  return least;
}

void internal::set_scale(LayerPlan& plan, double scale) {
  plan.softmax.scale.reset();
  if (!plan.cosine.empty())
    plan.softmax.scale = 1;
  else if (scale != 0)
    plan.softmax.scale = scale;
}

const RotaryTable* internal::query_table(const LayerPlan& plan) {
  if (plan.query_rotary) return &*plan.query_rotary;
  return plan.query_rotations.empty() ? nullptr
                                      : std::get_if<RotaryTable>(&plan.query_rotations.back());
}

LayerPlan internal::lower_call(const Mixture& mixture, Call call, Values values,
                               const Call* embedded) {
  check_count(mixture, values.size());
  LayerPlan lowered;
  lowered.softmax.factor = put_scale(mixture, call);
  Merger merger(lowered);
  for_each(mixture, [&](const Encoding& one, std::size_t first, std::size_t count) {
    LayerPlan part;
    const bool table = embedded && info(one).enters == Place::embeddings;
    lower_into(one, table ? *embedded : call, values.subspan(first, count), part);
    merger.add(info(one).name, std::move(part));
  });
  set_scale(lowered, call.softmax_scale);
  lowered.gated = gated(mixture);
  return lowered;
}

LayerPlan lower(const Mixture& mixture, const Window& window, Values values) {
  internal::check_window(window);
  return internal::lower_call(mixture, Call(window), values);
}

void lower_backward(const Mixture& mixture, const Window& window, Values values,
                    const LayerGradient& lowered, Gradients grads) {
  internal::check_window(window);
  check_count(mixture, values.size());
  check_count(mixture, grads.size());
  Call call(window);
  internal::put_scale(mixture, call);
  for_each(mixture, [&](const Encoding& one, std::size_t first, std::size_t count) {
    if (count > 0 && concerns(one, lowered))
      internal::backward_into(one, call, values.subspan(first, count), lowered,
                              grads.subspan(first, count));
  });
}

LayerPlan lower(const Encoding& encoding, const Window& window, Values values) {
  internal::check_window(window);
  Call call(window);
  LayerPlan lowered;
  lowered.softmax.factor = internal::put_scale({&encoding, 1}, call);
  internal::lower_into(encoding, call, values, lowered);
  internal::set_scale(lowered, call.softmax_scale);
  lowered.gated = is_gated(encoding);
  return lowered;
}

void lower_backward(const Encoding& encoding, const Window& window, Values values,
                    const LayerGradient& lowered, Gradients grads) {
  internal::check_window(window);
  Call call(window);
  internal::put_scale({&encoding, 1}, call);
  if (concerns(encoding, lowered))
    internal::backward_into(encoding, call, values, lowered, grads);
}

bool gated(const Mixture& mixture) {
  for (const Encoding& one : mixture)
    if (is_gated(one)) return true;
  return false;
}

void gates(const Mixture& mixture, Values values, View<const float, 3> x, View<float, 3> out) {
  check_count(mixture, values.size());
  with_gated(mixture,
             [&]<typename Spec>(const Spec& spec, std::size_t first, std::size_t count) {
               Entry<Spec>::gates(spec, values.subspan(first, count), x, out);
             });
}

void gates_backward(const Mixture& mixture, Values values, View<const float, 3> x,
                    View<const float, 3> out_grad, View<float, 3> x_grad, Gradients grads) {
  check_count(mixture, values.size());
  with_gated(
      mixture, [&]<typename Spec>(const Spec& spec, std::size_t first, std::size_t count) {
        Entry<Spec>::gates_backward(spec, values.subspan(first, count), x, out_grad, x_grad,
                                    grads.empty() ? grads : grads.subspan(first, count));
      });
}

}  // namespace gnomon::model
