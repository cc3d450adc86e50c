// Handlers of gnomon.jax for XLA on the CPU. They run on threads of XLA, without the GIL.
//
// Operands, in this order; those in brackets only if the attribute `operands` has their letter:
//
//   rotate              x, positions of each axis...              -> x'
//   attention           q, k, v, [terms], [ids and sequences of   -> out, lse
//                       queries and keys], [sinks], parameters...
//   attention_backward  q, k, v, out, lse, out_grad, then as      -> q, k, v, [terms], [sinks],
//                       attention                                    parameters...
//   table               [ids], parameters...                      -> [tokens, C]
//   table_backward      grad, then as table                       -> parameters...
//   bias                parameters...                             -> [H, T, S]
//   bias_backward       grad, parameters...                       -> parameters...
#include <nanobind/nanobind.h>

#include <algorithm>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "bindings/python/attend.h"
#include "bindings/python/encodings.h"
#include "bindings/python/jax_call.h"
#include "gnomon/error.h"
#include "src/core/json.h"

namespace gnomon::python {
namespace {

using Axes = Operand::Axes;
using Borrowed = Operand::Borrowed;
using nlohmann::json;

model::Mixture mixture_of(const json& text) {
  model::Mixture all;
  for (const json& one : text.at("encodings"))
    all.push_back(model::encoding_from_json(one.get<std::string>()));
  return all;
}
template <typename T>
std::optional<T> optional_of(const json& text, const char* key) {
  const auto found = text.find(key);
  if (found == text.end() || found->is_null()) return std::nullopt;
  return found->get<T>();
}

// States: [ids and sequences of queries, of keys], [sinks], parameters; as the text says.
Plan lower(std::string_view text, std::span<const State> states) {
  const json given = internal::parse_json<json>(text, "jax", "the attributes");
  model::Window window{.queries = given.at("queries"), .keys = given.at("keys")};
  LowerOptions options{.visibility = visibility_of("attention", given.at("visibility")),
                       .left = optional_of<std::int64_t>(given, "left"),
                       .right = optional_of<std::int64_t>(given, "right"),
                       .softmax_scale = optional_of<double>(given, "softmax_scale"),
                       .cap = optional_of<double>(given, "cap"),
                       .length = given.at("length")};
  const std::string operands = given.at("operands");
  const auto has = [&](char one) { return operands.find(one) != std::string::npos; };
  if (has('p')) {  // attention
    window.batch = {positions_of(states[0], &states[1]), positions_of(states[2], &states[3])};
    states = states.subspan(4);
  } else if (has('t')) {  // table
    const Positions ids = positions_of(states[0], nullptr);
    window.batch = {ids, ids};
    states = states.subspan(1);
  }
  if (has('s')) {
    const std::vector<float> sinks = states[0].floats();
    options.sinks.assign(sinks.begin(), sinks.end());
    states = states.subspan(1);
  }
  std::vector<Matrix> parameters;
  for (const State& one : states) parameters.push_back({one.rows, one.columns, one.floats()});
  return lower_plan(mixture_of(given), std::move(window), std::move(parameters), options);
}

RotaryTable lower_rotary(std::string_view text, std::span<const State> states) {
  const json given = internal::parse_json<json>(text, "jax", "the attributes");
  const model::Encoding encoding = mixture_of(given).at(0);
  auto frequencies = model::rotary_frequencies(encoding, given.at("length"));
  if (!frequencies)
    refuse("rotary", "the encoding must be rotary with one set of frequencies",
           model::info(encoding).name);
  std::vector<Positions> axes;
  for (const State& one : states) axes.push_back(positions_of(one, nullptr));
  if (axes.empty()) axes.push_back(consecutive(given.at("queries")));
  if (axes.size() == 1) return {*std::move(frequencies), axes.front()};
  return {*std::move(frequencies), axes};
}

// Not destroyed: threads of XLA may still run when the process ends.
Cache<Plan>& plans() {
  static auto& cache = *new Cache<Plan>();
  return cache;
}
Cache<RotaryTable>& tables() {
  static auto& cache = *new Cache<RotaryTable>();
  return cache;
}

Axes call_axes(const Call& call) {
  return call.text("layout") == "heads_tokens" ? Axes::heads_first : Axes::as_given;
}

// Calls body(part) for all of the batch at once, or for each element.
template <typename Body>
void for_parts(const Call& call, bool merge, Body&& body) {
  const std::int64_t batch = call.batch();
  if (batch == 1 || (merge && batch > 0)) return body(Part{.merged = batch});
  for (std::int64_t index = 0; index < batch; ++index) body(Part{.index = index});
}
bool shared(const std::vector<Operand>& operands) {
  return std::all_of(operands.begin(), operands.end(),
                     [](const Operand& one) { return one.batch() == 1; });
}

void rotate_call(Call& call) {
  const Operand x = call.argument(4), out = call.result(4);
  const std::vector<Operand> positions = call.arguments(2);
  const Axes axes = call_axes(call);
  const Direction direction = direction_of("rotate", std::string(call.text("direction")));
  for_parts(call, x.batch() == call.batch(), [&](const Part& part) {
    std::vector<std::vector<std::byte>> scratch(positions.size());
    std::vector<State> states;
    for (std::size_t i = 0; i < positions.size(); ++i)
      states.push_back(rows_of(positions[i], part, x.extent(0), scratch[i]));
    const auto table = tables().get(call.text("plan"), states, &lower_rotary);
    Borrowed from, to;
    x.borrow(part, axes, from), out.borrow(part, axes, to);
    rotate(from.tensor, *table, direction, to.tensor);
  });
}

// The operands of attention and of its gradient.
struct AttentionCall {
  Operand q, k, v, out, lse, out_grad;
  std::array<Operand, token_term_count> terms;  // in the order of named_terms
  std::vector<Operand> positions, sinks, parameters;
  Axes axes;

  enum class Pass { forward = 1, backward };
  AttentionCall(Call& call, Pass pass)
      : q(call.argument(4)), k(call.argument(4)), v(call.argument(4)), axes(call_axes(call)) {
    if (pass == Pass::backward)
      out = call.argument(4), lse = call.argument(3), out_grad = call.argument(4);
    for (std::size_t n = 0; n < terms.size(); ++n)  // named by a digit
      terms[n] = call.argument_if(static_cast<char>('0' + n), named_terms<Tensor>[n].rank);
    if (call.has('p'))
      for (int i = 0; i < 4; ++i) positions.push_back(call.argument(2));
    if (call.has('s')) sinks.push_back(call.argument(2));
    parameters = call.arguments(2);
  }

  // Whether all of the batch has one plan.
  bool merges(const Call& call) const {
    for (const Operand* one : {&q, &k, &v})
      if (one->batch() != call.batch()) return false;
    for (const Operand& one : terms)
      if (one.given() && one.batch() != call.batch()) return false;
    return shared(sinks) && shared(parameters);
  }
  std::shared_ptr<const Plan> plan(const Call& call, const Part& part) const {
    std::vector<std::byte> scratch[4];
    std::vector<State> states;
    // Queries and keys must have equally many rows.
    for (std::size_t i = 0; i < positions.size(); ++i)
      states.push_back(rows_of(positions[i], part, q.extent(0), scratch[i]));
    std::int64_t rows = 1;
    for (const State& one : states) rows = std::max(rows, one.rows);
    for (std::size_t i = 0; i < states.size(); ++i)
      if (states[i].rows != rows) {
        const std::size_t bytes = states[i].bytes();  // bytes of a row
        std::vector<std::byte> all(static_cast<std::size_t>(rows) * bytes);
        const auto* const from = static_cast<const std::byte*>(states[i].data);
        for (std::int64_t row = 0; row < rows; ++row)
          std::copy(from, from + bytes, all.data() + static_cast<std::size_t>(row) * bytes);
        scratch[i] = std::move(all);
        states[i].data = scratch[i].data(), states[i].rows = rows;
      }
    for (const Operand& one : sinks) states.push_back(state_of(one, part));
    for (const Operand& one : parameters) states.push_back(state_of(one, part));
    return plans().get(call.text("plan"), states, &lower);
  }
};

struct BorrowedInput {
  Borrowed q, k, v;
  std::array<Borrowed, token_term_count> terms;
  BorrowedInput(const AttentionCall& call, const Part& part) {
    call.q.borrow(part, call.axes, q);
    call.k.borrow(part, call.axes, k);
    call.v.borrow(part, call.axes, v);
    for (std::size_t n = 0; n < terms.size(); ++n)
      if (call.terms[n].given()) call.terms[n].borrow(part, Axes::as_given, terms[n]);
  }
  AttentionInput input() const {
    AttentionInput input{.q = q.tensor, .k = k.tensor, .v = v.tensor};
    for (std::size_t n = 0; n < terms.size(); ++n)
      input.terms.*named_terms<ConstTensor>[n].member = terms[n].tensor;
    return input;
  }
};

void attention_call(Call& call) {
  const AttentionCall given(call, AttentionCall::Pass::forward);
  const Operand out = call.result(4), lse = call.result(3);
  for_parts(call, given.merges(call), [&](const Part& part) {
    const auto plan = given.plan(call, part);
    const BorrowedInput in(given, part);
    Borrowed to, sums;
    out.borrow(part, given.axes, to), lse.borrow(part, Axes::as_given, sums);
    attend(in.input(), *plan, to, sums);
  });
}

// Zeroed gradients of the parameters of a part.
std::vector<View<float, 2>> zeroed(const std::vector<Operand>& results, const Part& part) {
  std::vector<View<float, 2>> all;
  for (const Operand& one : results) {
    auto* const data = static_cast<float*>(one.data(part));
    std::fill_n(data, one.size(), 0.0f);
    all.push_back({data, {one.extent(0), one.extent(1)}});
  }
  return all;
}

void attention_backward_call(Call& call) {
  const AttentionCall given(call, AttentionCall::Pass::backward);
  const Operand q = call.result(4), k = call.result(4), v = call.result(4);
  std::array<Operand, token_term_count> terms;
  for (std::size_t n = 0; n < terms.size(); ++n)
    if (given.terms[n].given()) terms[n] = call.result(named_terms<Tensor>[n].rank);
  const Operand sinks = given.sinks.empty() ? Operand() : call.result(2);
  const std::vector<Operand> parameters = call.results(2);
  bool merge = given.merges(call) && given.sinks.empty() && parameters.empty();
  for (const Operand* one : {&given.out, &given.lse, &given.out_grad})
    merge = merge && one->batch() == call.batch();
  for_parts(call, merge, [&](const Part& part) {
    const auto plan = given.plan(call, part);
    const BorrowedInput in(given, part);
    Borrowed out, lse, out_grad, dq, dk, dv;
    std::array<Borrowed, token_term_count> of_terms;
    TokenTermGradients term_grads;
    given.out.borrow(part, given.axes, out), given.lse.borrow(part, Axes::as_given, lse);
    given.out_grad.borrow(part, given.axes, out_grad);
    q.borrow(part, given.axes, dq), k.borrow(part, given.axes, dk);
    v.borrow(part, given.axes, dv);
    for (std::size_t n = 0; n < terms.size(); ++n) {
      if (terms[n].given()) terms[n].borrow(part, Axes::as_given, of_terms[n]);
      term_grads.*named_terms<Tensor>[n].member = of_terms[n].tensor;
    }
    std::vector<double> sink_sums(plan->lowered.softmax.sinks.size());
    attend_backward(in.input(), *plan, out.tensor, lse.tensor, out_grad.tensor,
                    {.q = dq,
                     .k = dk,
                     .v = dv,
                     .terms = term_grads,
                     .sinks = sink_sums,
                     .parameters = zeroed(parameters, part)});
    if (sinks.given())
      std::copy(sink_sums.begin(), sink_sums.end(), static_cast<float*>(sinks.data(part)));
  });
}

// The plan of a call whose operands are all states.
std::shared_ptr<const Plan> plan_of(const Call& call, const std::vector<Operand>& operands,
                                    const Part& part) {
  std::vector<State> states;
  for (const Operand& one : operands) states.push_back(state_of(one, part));
  return plans().get(call.text("plan"), states, &lower);
}

void table_call(Call& call) {
  const std::vector<Operand> states = call.arguments(2);
  const Operand out = call.result(2);
  for_parts(call, false, [&](const Part& part) {
    const auto plan = plan_of(call, states, part);
    const auto& table = plan->lowered.table;
    if (!table || static_cast<std::int64_t>(table->values.size()) != out.size())
      refuse("table",
             "the encoding must have a table of " + std::to_string(out.size()) + " values",
             model::names(plan->mixture));
    std::copy(table->values.begin(), table->values.end(), static_cast<float*>(out.data(part)));
  });
}

void table_backward_call(Call& call) {
  const Operand grad = call.argument(3);
  const std::vector<Operand> states = call.arguments(2), out = call.results(2);
  for_parts(call, false, [&](const Part& part) {
    Borrowed from;
    grad.borrow(part, Axes::as_given, from);
    embed_backward(*plan_of(call, states, part), from.tensor, zeroed(out, part));
  });
}

void bias_call(Call& call) {
  const std::vector<Operand> states = call.arguments(2);
  const Operand out = call.result(3);
  for_parts(call, false, [&](const Part& part) {
    const auto plan = plan_of(call, states, part);
    Borrowed to;
    out.borrow(part, Axes::as_given, to);
    dense(plan->lowered.bias, plan->window.offset(), to);
  });
}

void bias_backward_call(Call& call) {
  const Operand grad = call.argument(3);
  const std::vector<Operand> states = call.arguments(2), out = call.results(2);
  for_parts(call, false, [&](const Part& part) {
    const auto plan = plan_of(call, states, part);
    Borrowed from;
    grad.borrow(part, Axes::as_given, from);
    model::LayerGradient forms;
    forms.bias = add_bias_backward(from.tensor, plan->lowered.bias, plan->window.offset());
    model::lower_backward(plan->mixture, plan->window, plan->values(), forms,
                          zeroed(out, part));
  });
}

xla::Error* error(const xla::CallFrame& frame, xla::ErrorCode code,
                  const char* message) noexcept {
  xla::ErrorArguments arguments{sizeof(xla::ErrorArguments), nullptr, message, code};
  return frame.api->create_error(&arguments);
}

template <void (*body)(Call&), std::int64_t result_rank>
xla::Error* handler(xla::CallFrame* frame) noexcept {
  for (const xla::Extension* one = frame->extensions; one; one = one->next)
    if (one->type == xla::ExtensionType::metadata) {
      xla::Metadata& metadata = *reinterpret_cast<const xla::MetadataExtension*>(one)->metadata;
      metadata.version.major = xla::major_version;
      metadata.version.minor = xla::minor_version;
      return nullptr;
    }
  if (frame->api->version.major != xla::major_version)
    return error(
        *frame, xla::ErrorCode::invalid_argument,
        "[jax] the major version of XLA's FFI must be 0: this Gnomon is older than jaxlib");
  try {
    Call call(*frame, result_rank);
    body(call);
    return nullptr;
  } catch (const std::bad_alloc&) {
    return error(*frame, xla::ErrorCode::resource_exhausted, "[jax] not enough memory");
  } catch (const std::invalid_argument& refused) {
    return error(*frame, xla::ErrorCode::invalid_argument, refused.what());
  } catch (const std::exception& other) {
    return error(*frame, xla::ErrorCode::internal, other.what());
  }
}

nb::object capsule(xla::Handler* function) {
  return nb::steal(
      PyCapsule_New(reinterpret_cast<void*>(function), "xla._CUSTOM_CALL_TARGET", nullptr));
}

}  // namespace

void bind_jax(nb::module_& module) {
  module.def(
      "jax_targets",
      [] {
        nb::dict all;
        all["gnomon_rotate"] = capsule(&handler<&rotate_call, 4>);
        all["gnomon_attention"] = capsule(&handler<&attention_call, 4>);
        all["gnomon_attention_backward"] = capsule(&handler<&attention_backward_call, 4>);
        all["gnomon_table"] = capsule(&handler<&table_call, 2>);
        all["gnomon_table_backward"] = capsule(&handler<&table_backward_call, 2>);
        all["gnomon_bias"] = capsule(&handler<&bias_call, 3>);
        all["gnomon_bias_backward"] = capsule(&handler<&bias_backward_call, 2>);
        return all;
      },
      nb::sig("def jax_targets() -> dict[str, object]"));
}

}  // namespace gnomon::python
