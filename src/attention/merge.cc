#include "gnomon/attention/merge.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "gnomon/error.h"
#include "gnomon/parallel.h"
#include "src/core/tensor.h"

namespace gnomon {
namespace {

constexpr internal::Argument argument(std::string_view name) {
  return {"merge_attention", name};
}

template <typename T, typename A>
void merge(View<T, 4> out, View<A, 3> lse, View<const T, 4> other, View<const A, 3> other_lse) {
  const std::int64_t tokens = out.extent(1), heads = out.extent(2), size = out.extent(3);
  parallel_for(out.extent(0) * tokens, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n)
      for (std::int64_t h = 0; h < heads; ++h) {
        const std::int64_t b = n / tokens, t = n % tokens;
        const A one = lse(b, h, t), two = other_lse(b, h, t);
        if (two == -std::numeric_limits<A>::infinity()) continue;
        const A most = std::max(one, two);
        const A first = std::exp(one - most),
                second = std::exp(two - most);  // one of them is 1
        const A sum = first + second;
        for (std::int64_t d = 0; d < size; ++d) {
          T& to = out(b, t, h, d);
          to = static_cast<T>((first / sum) * static_cast<A>(to) +
                              (second / sum) * static_cast<A>(other(b, t, h, d)));
        }
        lse(b, h, t) = most + std::log(sum);
      }
  });
}

}  // namespace

void merge_attention(const Tensor& out, const Tensor& lse, const ConstTensor& other,
                     const ConstTensor& other_lse) {
  internal::by_type(argument("out"), out, [&]<typename T>(T) {
    using A = Accumulator<T>;
    const auto to = internal::write<T, 4>(argument("out"), out);
    const auto to_lse = internal::write<A, 3>(argument("lse"), lse);
    const auto from = internal::read<T, 4>(argument("other"), other);
    const auto from_lse = internal::read<A, 3>(argument("other_lse"), other_lse);
    if (from.extents() != to.extents())
      refuse("merge_attention", "other must be " + shape_text(to.extents()),
             shape_text(from.extents()));
    const std::array<std::int64_t, 3> rows{to.extent(0), to.extent(2), to.extent(1)};
    for (const auto& [name, extents] :
         {std::pair("lse", to_lse.extents()), {"other_lse", from_lse.extents()}})
      if (extents != rows)
        refuse("merge_attention", std::string(name) + " must be " + shape_text(rows),
               shape_text(extents));
    merge<T, A>(to, to_lse, from, from_lse);
  });
}

}  // namespace gnomon
