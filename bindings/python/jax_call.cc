#include "bindings/python/jax_call.h"

#include <algorithm>
#include <cstring>

#include "gnomon/error.h"

namespace gnomon::python {
namespace {

std::int64_t product(std::span<const std::int64_t> extents) {
  std::int64_t all = 1;
  for (const std::int64_t one : extents) all *= one;
  return all;
}

DataType data_type(xla::ElementType type) {
  switch (type) {
    case xla::ElementType::f32:
      return data_type_of<float>;
    case xla::ElementType::f16:
      return data_type_of<Half>;
    case xla::ElementType::bf16:
      return data_type_of<BFloat16>;
    case xla::ElementType::f64:
      return data_type_of<double>;
    case xla::ElementType::i32:
      return data_type_of<std::int32_t>;
    case xla::ElementType::i64:
      return data_type_of<std::int64_t>;
  }
  refuse("jax", "element types must be f32, f16, bf16, f64, i32 or i64, XLA type",
         static_cast<std::int64_t>(type));
}
std::int64_t bytes_of(xla::ElementType type) { return data_type(type).bits / 8; }

const xla::Buffer& buffer(const xla::Buffers& all, std::int64_t index) {
  if (index >= all.count) refuse("jax", "a call has too few buffers", all.count);
  return *all.buffers[index];
}

}  // namespace

Operand::Operand(const xla::Buffer& buffer, std::int64_t rank,
                 std::span<const std::int64_t> batch)
    : buffer_(&buffer), rank_(rank), batch_(batch) {
  if (buffer.rank != rank + static_cast<std::int64_t>(batch.size()))
    refuse("jax", "an operand must have " + std::to_string(rank) + " axes after the batch axes",
           buffer.rank);
}
std::int64_t Operand::size() const noexcept {
  return product({shape(), static_cast<std::size_t>(rank_)});
}
std::int64_t Operand::batch() const noexcept {
  return product({buffer_->shape, batch_.size()});
}

void* Operand::data(const Part& part) const noexcept {
  std::int64_t slice = 0, step = 1, rest = part.index;
  for (std::size_t axis = batch_.size(); axis-- > 0;) {
    const std::int64_t extent = buffer_->shape[axis];
    if (extent != 1) slice += rest % batch_[axis] * step;
    rest /= batch_[axis], step *= extent;
  }
  return static_cast<char*>(buffer_->data) + slice * size() * bytes_of(type());
}

void Operand::borrow(const Part& part, Axes axes, Borrowed& out) const {
  std::int64_t step = 1;
  for (std::int64_t axis = rank_; axis-- > 0;) {
    out.shape[axis] = extent(axis), out.strides[axis] = step;
    step *= extent(axis);
  }
  out.shape[0] *= part.merged;
  if (axes == Axes::heads_first) {
    std::swap(out.shape[1], out.shape[2]);
    std::swap(out.strides[1], out.strides[2]);
  }
  out.tensor.data = data(part);
  out.tensor.rank = static_cast<std::int32_t>(rank_);
  out.tensor.dtype = data_type(type());
  out.tensor.shape = out.shape, out.tensor.strides = out.strides;
}

Call::Call(const xla::CallFrame& frame, std::int64_t result_rank) : frame_(frame) {
  const xla::Buffer& first = buffer(frame.results, 0);
  if (first.rank < result_rank)
    refuse("jax", "a result must have at least " + std::to_string(result_rank) + " axes",
           first.rank);
  batch_ = {first.shape, static_cast<std::size_t>(first.rank - result_rank)};
}

std::string_view Call::text(std::string_view attribute) const {
  const xla::Attributes& all = frame_.attributes;
  for (std::int64_t i = 0; i < all.count; ++i) {
    const xla::Text& name = *all.names[i];
    if (std::string_view(name.data, name.length) != attribute) continue;
    if (all.types[i] != xla::AttributeType::string) break;
    const auto& value = *static_cast<const xla::Text*>(all.values[i]);
    return {value.data, value.length};
  }
  refuse("jax", "a call must have a string attribute", attribute);
}

Operand Call::argument(std::int64_t rank) {
  return {buffer(frame_.arguments, next_argument_++), rank, batch_};
}
std::vector<Operand> Call::arguments(std::int64_t rank) {
  std::vector<Operand> all;
  while (next_argument_ < frame_.arguments.count) all.push_back(argument(rank));
  return all;
}
Operand Call::result(std::int64_t rank) {
  return {buffer(frame_.results, next_result_++), rank, batch_};
}
std::vector<Operand> Call::results(std::int64_t rank) {
  std::vector<Operand> all;
  while (next_result_ < frame_.results.count) all.push_back(result(rank));
  return all;
}
std::int64_t Call::batch() const noexcept { return product(batch_); }

std::size_t State::bytes() const noexcept {
  return static_cast<std::size_t>(rows * columns * bytes_of(type));
}
std::vector<std::int64_t> State::integers() const {
  const auto count = static_cast<std::size_t>(rows * columns);
  if (type == xla::ElementType::i32) {
    const auto* const from = static_cast<const std::int32_t*>(data);
    return {from, from + count};
  }
  if (type != xla::ElementType::i64)
    refuse("jax", "positions must be i32 or i64", name(data_type(type)));
  const auto* const from = static_cast<const std::int64_t*>(data);
  return {from, from + count};
}
std::vector<float> State::floats() const {
  if (type != xla::ElementType::f32)
    refuse("jax", "parameters must be f32", name(data_type(type)));
  const auto* const from = static_cast<const float*>(data);
  return {from, from + rows * columns};
}

State state_of(const Operand& operand, const Part& part) {
  return {operand.data(part), operand.type(), operand.extent(0), operand.extent(1)};
}

State rows_of(const Operand& operand, const Part& part, std::int64_t rows,
              std::vector<std::byte>& scratch) {
  const std::int64_t given = operand.extent(0), tokens = operand.extent(1);
  if (part.merged == 1 || (given == 1 && operand.batch() == 1)) return state_of(operand, part);
  if (given != 1 && given != rows)
    refuse("jax", "positions must have 1 or " + std::to_string(rows) + " rows", given);
  const auto row_bytes = static_cast<std::size_t>(tokens * bytes_of(operand.type()));
  scratch.resize(static_cast<std::size_t>(part.merged * rows) * row_bytes);
  std::byte* to = scratch.data();
  for (std::int64_t index = 0; index < part.merged; ++index) {
    const auto* const from = static_cast<const std::byte*>(operand.data({.index = index}));
    for (std::int64_t row = 0; row < rows; ++row, to += row_bytes)
      std::memcpy(to, from + (given == 1 ? 0 : static_cast<std::size_t>(row) * row_bytes),
                  row_bytes);
  }
  return {scratch.data(), operand.type(), part.merged * rows, tokens};
}

Positions positions_of(const State& ids, const State* sequences) {
  Positions positions{.batch = ids.rows, .tokens = ids.columns, .ids = ids.integers()};
  positions.sequences.resize(positions.ids.size());
  if (!sequences) return positions;
  if (sequences->rows != ids.rows || sequences->columns != ids.columns)
    refuse("jax", "sequences must have the shape of positions, rows", sequences->rows);
  std::size_t i = 0;
  for (const std::int64_t one : sequences->integers()) {
    if (one < Positions::padding || one > INT32_MAX)
      refuse("jax", "sequences must be -1 (padding) or a number from 0 to 2^31 - 1", one);
    positions.sequences[i++] = static_cast<std::int32_t>(one);
  }
  return positions;
}

}  // namespace gnomon::python
