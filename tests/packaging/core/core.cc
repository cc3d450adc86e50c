// The use of the component core by an engine: rotates queries and keys and calls attention.
// Exits with 0 if every output is the mean of equal values.
#include <gnomon/attention/attention.h>
#include <gnomon/rotary/rotary.h>

#include <cmath>
#include <vector>

int main() {
  constexpr std::ptrdiff_t tokens = 16, query_heads = 4, key_heads = 2, head_dim = 64;
  const gnomon::Rotary spec{
      .rotary_dim = head_dim, .pairing = gnomon::Pairing::halves, .base = 5e5};
  const gnomon::RotaryTable table(spec, gnomon::consecutive(tokens));
  std::vector<float> q(tokens * query_heads * head_dim), k(tokens * key_heads * head_dim);
  for (std::size_t i = 0; i < q.size(); ++i) q[i] = std::sin(static_cast<float>(i));
  for (std::size_t i = 0; i < k.size(); ++i) k[i] = std::cos(static_cast<float>(i));
  const std::vector<float> v(k.size(), 2.0f);
  std::vector<float> out(q.size());
  gnomon::rotate(gnomon::View<float, 3>(q.data(), {tokens, query_heads, head_dim}), table);
  gnomon::rotate(gnomon::View<float, 3>(k.data(), {tokens, key_heads, head_dim}), table);
  const auto heads = [&](const std::vector<float>& x, std::ptrdiff_t count) {
    return gnomon::View<const float, 4>(x.data(), {1, tokens, count, head_dim});
  };
  gnomon::attention({heads(q, query_heads), heads(k, key_heads), heads(v, key_heads)},
                    {.mask = {.visibility = gnomon::Visibility::causal}},
                    gnomon::View<float, 4>(out.data(), {1, tokens, query_heads, head_dim}));
  for (const float x : out)
    if (!(std::fabs(x - 2) <= 0x1p-14f)) return 1;
  return 0;
}
