#include "gnomon/cuda/embedding.h"

#include <algorithm>
#include <string>

#include "gnomon/error.h"
#include "src/cuda/arguments.h"
#include "src/cuda/embedding_sum_kernel.h"
#include "src/cuda/launch.h"
#include "src/cuda/rotate.h"

namespace gnomon::cuda {
namespace {

constexpr const char* operation = "embedding";
constexpr std::int64_t limit = std::int64_t{1} << 31;  // limit for tokens and for rows
constexpr std::int64_t most_per_block = 64;            // groups or rows of a block

std::string text(std::int64_t number) { return std::to_string(number); }

// The axes of [B, T, C] or [T, C].
struct Embeddings {
  Axis batch, token, channel;
  std::int64_t count() const { return batch.extent * token.extent; }
};

Embeddings check_embeddings(Arguments& arguments, const char* name, const ConstTensor& x) {
  arguments.check_rows(name, x, 2, 3);
  const Embeddings axes{axis_from_last(x, 2), axis_from_last(x, 1), axis_from_last(x, 0)};
  const std::int64_t batch = axes.batch.extent, tokens = axes.token.extent;
  if (batch >= limit || tokens >= limit || (batch > 0 && tokens > (limit - 1) / batch) ||
      axes.channel.extent > 1 << 24)
    arguments.refuse_shape(name, "of fewer than 2^31 tokens, with a width of at most 2^24", x);
  return axes;
}

// Checks a table for tokens of the width C. tokens: T, or -1 for a table of any number of rows.
void check_table(Arguments& arguments, const char* name, const ConstTensor& table,
                 const Embeddings& of, std::int64_t tokens) {
  arguments.check_rows(name, table, 2, 2);
  if (table.extent(1) != of.channel.extent || (tokens >= 0 && table.extent(0) != tokens))
    arguments.refuse_shape(
        name,
        tokens >= 0 ? "[T, C] = [" + text(tokens) + ", " + text(of.channel.extent) + "]"
                    : "[N, C] with C = " + text(of.channel.extent),
        table);
  if (table.extent(0) >= limit) arguments.refuse_shape(name, "of fewer than 2^31 rows", table);
}

RowIds check_ids(Arguments& arguments, const ConstTensor& rows, const Embeddings& of,
                 std::int64_t table_rows) {
  arguments.check("rows", rows, 1, 2);
  arguments.check_type("rows", rows, data_type_of<std::int64_t>);
  const Axis token = axis_from_last(rows, 0), batch = axis_from_last(rows, 1);
  if (token.extent != of.token.extent || (batch.extent != 1 && batch.extent != of.batch.extent))
    arguments.refuse_shape(
        "rows",
        "[B or 1, T] with B = " + text(of.batch.extent) + " and T = " + text(of.token.extent),
        rows);
  return {data<const std::int64_t>(rows), batch.extent == 1 ? 0 : batch.stride, token.stride,
          table_rows};
}

// Whether `width` channels can be moved by vectors of up to 16 bytes.
bool in_vectors(std::int64_t width, const ConstTensor& x, const ConstTensor& table) {
  const auto fits = [&](const ConstTensor& tensor) {
    return aligned(tensor, std::min<std::int64_t>(16, width * tensor.dtype.bits / 8));
  };
  return axis_from_last(x, 0).extent % width == 0 && fits(x) && fits(table);
}

template <typename T>
TypedElements<T> elements_of(const ConstTensor& tensor) {
  return {data<T>(tensor)};
}
template <>
TypedElements<AnyType> elements_of(const ConstTensor& tensor) {
  return {data<void>(tensor), tensor.holds<float>()  ? DType::f32
                              : tensor.holds<Half>() ? DType::f16
                                                     : DType::bf16};
}

// The items that a thread has at once. Few items need more threads instead of more loads per
// thread.
std::int32_t per_group(std::int64_t items, int most, int device) {
  return static_cast<std::int32_t>(
      std::clamp<std::int64_t>(items / (busy * multiprocessors(device)), 1, most));
}

template <typename X, typename T, int width>
void launch_add(const Tensor& x, const Embeddings& of, const ConstTensor& table,
                const RowIds& rows, bool adds, float scale, int device, Stream stream) {
  AddKernel<X, T, width> kernel{};
  kernel.x = elements_of<X>(x);
  kernel.x_row = of.batch.stride;
  kernel.x_token = of.token.stride;
  kernel.table = elements_of<T>(table);
  kernel.table_row = axis_from_last(table, 1).stride;
  kernel.rows = rows;
  kernel.batch = Divisor(of.batch.extent);
  kernel.tokens = static_cast<std::uint32_t>(of.count());
  const std::int64_t vectors = of.channel.extent / width;
  kernel.vectors = Divisor(vectors);
  kernel.adds = adds;
  kernel.scale = scale;
  kernel.tokens_per_group = per_group(of.count() * vectors, kernel.group, device);
  const std::int64_t groups =
      (of.count() + kernel.tokens_per_group - 1) / kernel.tokens_per_group;
  kernel.groups = static_cast<std::uint32_t>(groups);
  kernel.division = divide(groups, vectors, most_per_block, device);
  launch(kernel, {kernel.division.blocks, kernel.division.threads, 0}, stream);
}

void start_add(const char* name, const Tensor& x, const Embeddings& of,
               const ConstTensor& table, const RowIds& rows, bool adds, float scale,
               const Arguments& arguments, Stream stream) {
  by_type(operation, name, x, [&]<typename X>(X) {
    by_type(operation, "table", table, [&]<typename T>(T) {
      if (of.count() == 0 || of.channel.extent == 0) return;
      const DeviceScope scope(arguments.device());
      const auto go = [&](auto launch) {
        launch(x, of, table, rows, adds, scale, arguments.device(), stream);
      };
      constexpr int width = 16 / sizeof(X);
      if (in_vectors(width, x, table)) return go(launch_add<X, T, width>);
      go(launch_add<AnyType, AnyType, 1>);
    });
  });
}

// The tokens of each row of a sum: a list, or nothing for the tokens (b, t) of row t.
struct TokenLists {
  std::int64_t* offsets = nullptr;
  std::int32_t* begins = nullptr;
};

template <typename G, int width>
void launch_sum(const ConstTensor& grad, const Embeddings& of, const TokenLists& lists,
                float scale, const Tensor& table_grad, int device, Stream stream) {
  SumKernel<G, width> kernel{};
  kernel.grad = elements_of<G>(grad);
  kernel.grad_row = of.batch.stride;
  kernel.grad_token = of.token.stride;
  kernel.offsets = lists.offsets;
  kernel.begins = lists.begins;
  kernel.batch = static_cast<std::int32_t>(of.batch.extent);
  kernel.table_grad = elements_of<float>(table_grad);
  kernel.table_row = axis_from_last(table_grad, 1).stride;
  kernel.scale = scale;
  const std::int64_t rows = axis_from_last(table_grad, 1).extent;
  kernel.table_rows = static_cast<std::uint32_t>(rows);
  const std::int64_t vectors = of.channel.extent / width;
  kernel.vectors = Divisor(vectors);
  const std::int64_t items = rows * vectors;
  kernel.rows_per_group =
      lists.begins && items >= busy * kernel.group * multiprocessors(device) ? kernel.group : 1;
  const std::int64_t groups = (rows + kernel.rows_per_group - 1) / kernel.rows_per_group;
  kernel.groups = static_cast<std::uint32_t>(groups);
  Division division = divide(groups, vectors, most_per_block, device);
  if (kernel.rows_per_group > 1) {  // each block waits for the tokens of its rows only once
    division.parts = Divisor(1);
    division.tokens_per_block = std::max(division.tokens_per_block, 8);
    division.blocks = (groups + division.tokens_per_block - 1) / division.tokens_per_block;
  }
  kernel.division = division;
  const auto of_block =
      static_cast<std::size_t>(division.tokens_per_block * kernel.rows_per_group);
  launch(kernel,
         {division.blocks, division.threads,
          2 * of_block * sizeof(std::int64_t) + (of_block + 1) * sizeof(std::int32_t)},
         stream);
}

void start_sum(const ConstTensor& grad, const Embeddings& of, const TokenLists& lists,
               float scale, const Tensor& table_grad, int device, Stream stream) {
  by_type(operation, "grad", grad, [&]<typename G>(G) {
    // Loads of 16 bytes, if there are enough items for all threads.
    constexpr int whole = 16 / sizeof(G), width = 4;
    const std::int64_t items = axis_from_last(table_grad, 1).extent * of.channel.extent / whole;
    if (whole > width && in_vectors(whole, grad, table_grad) &&
        items >= busy * multiprocessors(device))
      return launch_sum<G, whole>(grad, of, lists, scale, table_grad, device, stream);
    if (in_vectors(width, grad, table_grad))
      return launch_sum<G, width>(grad, of, lists, scale, table_grad, device, stream);
    launch_sum<AnyType, 1>(grad, of, lists, scale, table_grad, device, stream);
  });
}

template <int words>
void launch_list(const RowIds& rows, const Embeddings& of, const TokenLists& lists,
                 Stream stream) {
  ListKernel<words> kernel{};
  kernel.rows = rows;
  kernel.grad_row = of.batch.stride;
  kernel.grad_token = of.token.stride;
  kernel.tokens = static_cast<std::uint32_t>(of.count());
  kernel.tokens_per_row = Divisor(of.token.extent);
  kernel.contiguous = of.batch.extent == 1 || rows.row == of.token.extent * rows.token;
  kernel.offsets = lists.offsets;
  kernel.begins = lists.begins;
  constexpr std::int64_t least_per_warp = 4 * warp_size, most_warps = 32;
  const std::int64_t warps =
      std::clamp<std::int64_t>(of.count() / least_per_warp, 1, most_warps);
  kernel.tokens_per_warp = static_cast<std::uint32_t>((of.count() + warps * warp_size - 1) /
                                                      (warps * warp_size) * warp_size);
  launch(
      kernel,
      {(rows.table_rows + kernel.tile - 1) / kernel.tile, static_cast<int>(warps * warp_size),
       static_cast<std::size_t>(warps * (kernel.tile + 1)) * sizeof(std::int32_t)},
      stream);
}

// Checks the workspace, and divides it.
TokenLists check_workspace(Arguments& arguments, const Tensor& workspace, std::int64_t tokens,
                           std::int64_t table_rows) {
  arguments.check_rows("workspace", workspace, 1, 1);
  arguments.check_type("workspace", workspace, data_type_of<std::uint8_t>);
  const std::int64_t bytes = add_rows_backward_workspace(tokens, table_rows);
  if (workspace.extent(0) < bytes)
    refuse(operation, "workspace must have at least " + text(bytes) + " bytes",
           workspace.extent(0));
  auto* const offsets = data<std::int64_t>(workspace);
  if (const auto rest = reinterpret_cast<std::uintptr_t>(offsets) % sizeof(std::int64_t))
    refuse(operation, "the address of workspace must be a multiple of 8 bytes",
           "a remainder of " + std::to_string(rest));
  return {offsets, reinterpret_cast<std::int32_t*>(offsets + tokens)};
}

}  // namespace

void add_table(const Tensor& x, const ConstTensor& table, float scale, Stream stream) {
  Arguments arguments(operation);
  const Embeddings of = check_embeddings(arguments, "x", x);
  check_table(arguments, "table", table, of, of.token.extent);
  start_add("x", x, of, table, {nullptr, 0, 0, of.token.extent}, true, scale, arguments,
            stream);
}

void add_rows(const Tensor& x, const ConstTensor& table, const ConstTensor& rows,
              Stream stream) {
  Arguments arguments(operation);
  const Embeddings of = check_embeddings(arguments, "x", x);
  check_table(arguments, "table", table, of, -1);
  const RowIds ids = check_ids(arguments, rows, of, table.extent(0));
  start_add("x", x, of, table, ids, true, 1.0f, arguments, stream);
}

void gather_rows(const ConstTensor& table, const ConstTensor& rows, const Tensor& out,
                 Stream stream) {
  Arguments arguments(operation);
  const Embeddings of = check_embeddings(arguments, "out", out);
  check_table(arguments, "table", table, of, -1);
  const RowIds ids = check_ids(arguments, rows, of, table.extent(0));
  start_add("out", out, of, table, ids, false, 1.0f, arguments, stream);
}

void add_table_backward(const ConstTensor& grad, float scale, const Tensor& table_grad,
                        Stream stream) {
  Arguments arguments(operation);
  const Embeddings of = check_embeddings(arguments, "grad", grad);
  check_table(arguments, "table_grad", table_grad, of, of.token.extent);
  arguments.check_type("table_grad", table_grad, data_type_of<float>);
  if (of.count() == 0 || of.channel.extent == 0) return;
  const DeviceScope scope(arguments.device());
  start_sum(grad, of, {}, scale, table_grad, arguments.device(), stream);
}

std::int64_t add_rows_backward_workspace(std::int64_t tokens, std::int64_t table_rows) {
  if (tokens < 0 || tokens >= limit) refuse(operation, "tokens must be in [0, 2^31)", tokens);
  if (table_rows < 0 || table_rows >= limit)
    refuse(operation, "table_rows must be in [0, 2^31)", table_rows);
  return 8 * tokens + 4 * (table_rows + 1);
}

void add_rows_backward(const ConstTensor& grad, const ConstTensor& rows,
                       const Tensor& table_grad, const Tensor& workspace, Stream stream) {
  Arguments arguments(operation);
  const Embeddings of = check_embeddings(arguments, "grad", grad);
  check_table(arguments, "table_grad", table_grad, of, -1);
  arguments.check_type("table_grad", table_grad, data_type_of<float>);
  const RowIds ids = check_ids(arguments, rows, of, table_grad.extent(0));
  const TokenLists lists =
      check_workspace(arguments, workspace, of.count(), table_grad.extent(0));
  if (of.count() == 0 || of.channel.extent == 0 || ids.table_rows == 0) return;
  const DeviceScope scope(arguments.device());
  // Small tiles while all blocks fit the device at once: two for each multiprocessor.
  if (ids.table_rows <= std::int64_t{2} * 32 * multiprocessors(arguments.device()))
    launch_list<1>(ids, of, lists, stream);
  else
    launch_list<4>(ids, of, lists, stream);
  start_sum(grad, of, lists, 1.0f, table_grad, arguments.device(), stream);
}

}  // namespace gnomon::cuda
