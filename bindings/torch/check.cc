#include "bindings/torch/check.h"

#include <cmath>
#include <span>
#include <utility>
#include <variant>

#include "bindings/torch/views.h"
#include "gnomon/error.h"
#include "src/core/size.h"

namespace gnomon::libtorch {
namespace {

constexpr std::string_view attend = "attend";

std::string type_text(const at::Tensor& tensor) { return at::toString(tensor.scalar_type()); }

bool is_element_type(at::ScalarType type) {
  return type == at::kFloat || type == at::kDouble || type == at::kHalf ||
         type == at::kBFloat16;
}

void check_types(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  const at::ScalarType query = q.scalar_type(), key = k.scalar_type();
  const bool half = key == at::kHalf || key == at::kBFloat16;
  if (key == v.scalar_type() && (query == key || (query == at::kFloat && half))) return;
  refuse(attend,
         "q, k and v must have one type, or q float32 with k and v both float16 "
         "or both bfloat16",
         type_text(q) + ", " + type_text(k) + " and " + type_text(v));
}

void check_devices(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  if (q.device() == k.device() && q.device() == v.device()) return;
  refuse(attend, "q, k and v must be on one device",
         q.device().str() + ", " + k.device().str() + " and " + v.device().str());
}

// q, k, v: [B, T, H, D] and so on (tokens_heads). `shapes`: the shapes as given by the caller.
void check_sizes(const Inputs& in, const AttendOptions& options, const std::string& shapes) {
  const auto& [q, k, v] = in;
  const bool heads_first = options.layout == Layout::heads_tokens;
  const auto rule = [&](const char* which) {
    return std::string(which) +
           (heads_first ? ", of q [B, H, T, D], k [B, Hk, S, D], v [B, Hk, S, Dv]"
                        : ", of q [B, T, H, D], k [B, S, Hk, D], v [B, S, Hk, Dv]");
  };
  if (q.size(0) != k.size(0) || q.size(0) != v.size(0))
    refuse(attend, rule("B must be the same"), shapes);
  if (k.size(1) != v.size(1)) refuse(attend, rule("S must be the same"), shapes);
  if (k.size(2) != v.size(2)) refuse(attend, rule("Hk must be the same"), shapes);
  if (q.size(3) != k.size(3)) refuse(attend, rule("D must be the same"), shapes);
  if (k.size(2) < 1 || q.size(2) % k.size(2) != 0)
    refuse(attend, rule("Hk must divide H"), shapes);
  if (q.size(1) > k.size(1) && !options.query_positions)
    refuse(attend, rule("T must be at most S unless query_positions are given"), shapes);
}

void check_rows(const char* name, const Positions& positions, std::int64_t batch,
                std::int64_t tokens) {
  const bool fits =
      (positions.batch == 1 || positions.batch == batch) && positions.tokens == tokens &&
      gnomon::internal::holds(positions.ids.size(), positions.batch, positions.tokens) &&
      positions.sequences.size() == positions.ids.size();
  if (!fits)
    refuse(attend,
           std::string("options.") + name + " must be [" + std::to_string(batch) + " or 1, " +
               std::to_string(tokens) + "]",
           gnomon::shape_text(std::array<std::int64_t, 2>{positions.batch, positions.tokens}));
}

// Whether the encoding has T5 buckets for causal attention.
bool has_causal_buckets(const model::Encoding& encoding) {
  if (const auto* t5 = std::get_if<T5Bias>(&encoding))
    return t5->direction == T5Direction::causal;
  if (const auto* wavlm = std::get_if<WavLm>(&encoding))
    return wavlm->t5.direction == T5Direction::causal;
  return false;
}

at::Tensor as_integers(const at::Tensor& tensor, const char* name) {
  if (!tensor.defined() || tensor.layout() != at::kStrided)
    refuse("positions", std::string(name) + " must be a strided tensor",
           std::string_view(tensor.defined() ? "another layout" : "an undefined tensor"));
  if (!at::isIntegralType(tensor.scalar_type(), /*includeBool=*/true))
    refuse("positions", std::string(name) + " must be integers", type_text(tensor));
  if (tensor.dim() != 1 && tensor.dim() != 2)
    refuse("positions", std::string(name) + " must be [T] or [B, T]", shape_text(tensor));
  return at::atleast_2d(tensor).to(at::kCPU, at::kLong).contiguous();
}

}  // namespace

std::string shape_text(const at::Tensor& tensor) {
  const at::IntArrayRef sizes = tensor.sizes();
  return gnomon::shape_text(std::span(sizes.data(), sizes.size()));
}

at::Tensor checked(std::string_view operation, std::string_view name, const at::Tensor& tensor,
                   std::int64_t dims, std::string_view wanted) {
  const std::string must = std::string(name) + " must be ";
  const std::string shape(wanted);
  if (!tensor.defined())
    refuse(operation, must + shape, std::string_view("an undefined tensor"));
  if (tensor.layout() != at::kStrided)
    refuse(operation, must + "a strided tensor " + shape, std::string_view("another layout"));
  if (tensor.dim() != dims) refuse(operation, must + shape, shape_text(tensor));
  if (!is_element_type(tensor.scalar_type()))
    refuse(operation, must + "float32, float64, float16 or bfloat16", type_text(tensor));
  return tensor.resolve_neg();
}

std::string_view wanted_shape(Layout layout) {
  return layout == Layout::heads_tokens ? "[B, H, T, D]" : "[B, T, H, D]";
}

Inputs checked_inputs(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                      const AttendOptions& options) {
  if (options.layout != Layout::tokens_heads && options.layout != Layout::heads_tokens)
    refuse(attend,
           "options.layout must be Layout::tokens_heads, [B, T, H, D], or "
           "Layout::heads_tokens, [B, H, T, D]",
           static_cast<int>(options.layout));
  const bool heads_first = options.layout == Layout::heads_tokens;
  Inputs in{checked(attend, "q", q, 4, wanted_shape(options.layout)),
            checked(attend, "k", k, 4, heads_first ? "[B, Hk, S, D]" : "[B, S, Hk, D]"),
            checked(attend, "v", v, 4, heads_first ? "[B, Hk, S, Dv]" : "[B, S, Hk, Dv]")};
  check_types(q, k, v);
  check_devices(q, k, v);
  if (heads_first) in = {in.q.transpose(1, 2), in.k.transpose(1, 2), in.v.transpose(1, 2)};
  check_sizes(in, options, shape_text(q) + ", " + shape_text(k) + ", " + shape_text(v));
  return in;
}

at::Tensor checked_packed(const at::Tensor& qkv, std::int64_t key_heads,
                          const AttendOptions& options) {
  const at::Tensor checked_qkv = checked("attend_packed", "qkv", qkv, 4, "[B, T, H + 2 Hk, D]");
  if (options.layout != Layout{} && options.layout != Layout::tokens_heads)
    refuse("attend_packed", "options.layout must be Layout::tokens_heads or not set",
           static_cast<int>(options.layout));
  const std::int64_t heads = qkv.size(2) - 2 * key_heads;
  if (key_heads < 1 || heads < 1 || heads % key_heads != 0)
    refuse("attend_packed",
           "qkv must be [B, T, H + 2 Hk, D] with Hk = " + std::to_string(key_heads) +
               ", at least 1 and a divisor of H",
           shape_text(qkv));
  return checked_qkv;
}

at::Tensor in_layout(const at::Tensor& out, Layout layout) {
  return layout == Layout::heads_tokens ? out.transpose(1, 2) : out;
}

void check_call(const model::Mixture& mixture, const at::Tensor& queries, std::int64_t keys,
                const AttendOptions& options) {
  const std::int64_t batch = queries.size(0), tokens = queries.size(1);
  if (options.visibility != Visibility::causal &&
      options.visibility != Visibility::bidirectional)
    refuse(attend, "options.visibility must be causal or bidirectional",
           static_cast<int>(options.visibility));
  const bool causal = options.visibility == Visibility::causal;
  for (const auto& [name, rows] :
       {std::pair("left", options.left), std::pair("right", options.right)})
    if (rows && *rows < 0)
      refuse(attend, std::string("options.") + name + " must not be negative", *rows);
  if (options.softmax_scale &&
      !(*options.softmax_scale > 0 && std::isfinite(*options.softmax_scale)))
    refuse(attend, "options.softmax_scale must be positive and finite", *options.softmax_scale);
  if (options.query_positions && !options.positions)
    refuse(attend,
           "options.query_positions requires options.positions, the positions of the keys",
           std::string_view("none"));
  if (options.positions) check_rows("positions", *options.positions, batch, keys);
  if (options.query_positions)
    check_rows("query_positions", *options.query_positions, batch, tokens);
  if (causal && tokens > keys)
    refuse(attend, "causal visibility requires T to be at most S, " + std::to_string(keys),
           tokens);
  for (const model::Encoding& one : mixture)
    if (!causal && model::properties(one).causal)
      refuse(model::info(one).name, "requires causal visibility",
             std::string_view("bidirectional"));
  // A single query is the last row, so no key is after it.
  if (causal || tokens <= 1 || options.right == 0) return;
  for (const model::Encoding& one : mixture)
    if (has_causal_buckets(one))
      refuse(
          model::info(one).name,
          "T5Direction::causal has one bucket for all future keys, so "
          "bidirectional visibility requires T5Direction::bidirectional (model::Shape::reads)",
          std::string_view("T5Direction::causal with Visibility::bidirectional"));
}

void check_heads(const model::Mixture& mixture, const LayerPlan& lowered,
                 std::string_view wanted, const at::Tensor& given, std::int64_t heads) {
  std::int64_t known = gnomon::heads(lowered.bias);
  if (!lowered.cosine.empty()) known = std::ssize(lowered.cosine);
  const RelativeForm& relative = lowered.relative;
  for (const auto* part :
       {&relative.keys, &relative.queries, &relative.values, &relative.projected})
    for (const RelativeVectors& one : *part)
      if (one.heads > 1) known = one.heads;
  if (relative.contextual && relative.contextual->heads > 1) known = relative.contextual->heads;
  if (known == 0 || known == heads) return;
  refuse(attend,
         "q must be " + std::string(wanted) + " with H = " + std::to_string(known) +
             ", the heads of " + model::names(mixture),
         shape_text(given));
}

Positions positions_of(const at::Tensor& ids, const at::Tensor& sequences) {
  const at::Tensor all = as_integers(ids, "ids");
  Positions positions = explicit_ids(view<const std::int64_t, 2>(all));
  if (!sequences.defined()) return positions;
  const at::Tensor of = as_integers(sequences, "sequences");
  if (of.sizes() != all.sizes())
    refuse("positions", "sequences must have the shape of ids " + shape_text(ids),
           shape_text(sequences));
  const auto numbers = view<const std::int64_t, 2>(of);
  for (std::size_t i = 0; i < positions.sequences.size(); ++i) {
    const std::int64_t one = numbers.data()[i];
    if (one < Positions::padding || one > INT32_MAX)
      refuse("positions", "sequences must be -1 (padding) to 2^31 - 1", one);
    positions.sequences[i] = static_cast<std::int32_t>(one);
  }
  return positions;
}

Positions positions_of_mask(const at::Tensor& mask) {
  const at::Tensor real = as_integers(mask, "mask").ne(0).to(at::kByte).contiguous();
  return from_padding_mask(view<const std::uint8_t, 2>(real));
}

}  // namespace gnomon::libtorch
