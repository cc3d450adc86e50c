#include <fmt/format.h>

#include <memory>

#include "apps/cli/attention_call.h"
#include "apps/cli/kernel_parts.h"
#include "apps/cli/kernels.h"

namespace gnomon::cli {
namespace {

using std::int64_t;

enum class Pass {
  forward = 1,
  backward,
  both,  // and the gradient of the table
};

struct Case {
  Term term = {};
  Pass pass = {};
  int64_t tokens = 0, size = 64;
};

const char* name(Term term) {
  switch (term) {
    case Term::plain:
      return "plain";
    case Term::alibi:
      return "alibi";
    case Term::t5:
      return "t5";
    case Term::dense:
      return "dense";
  }
  return "";
}

// Operations for each visible pair and element of a head: two products of two operations
// forward, five products backward.
double products(Pass pass) {
  return pass == Pass::forward ? 4 : pass == Pass::backward ? 10 : 14;
}

constexpr int64_t few = 8;  // heads

template <typename T>
Kernel attention_kernel(const Case& c) {
  const AttentionSizes sizes{c.tokens, c.tokens, few, few, c.size};
  const auto call = std::make_shared<AttentionCall<T>>(sizes, c.term, c.pass != Pass::forward);
  const Multiplier multiplier = best_multiplier();
  Kernel kernel;
  kernel.name = "attention";
  kernel.detail = fmt::format("{}{} {} [{}, {}, {}]", name(c.term),
                              c.pass == Pass::forward    ? ""
                              : c.pass == Pass::backward ? " backward"
                                                         : " and gradients",
                              gnomon::name(dtype_of<T>), c.tokens, few, c.size);
  kernel.roof = Roof::arithmetic;
  kernel.work = sizes.pairs() * few * static_cast<double>(c.size) * products(c.pass);
  kernel.run_roof = multiplier.run;
  kernel.roof_work = multiplier.operations;
  kernel.roof_name = multiplier.name;
  const auto tokens = static_cast<double>(c.tokens);
  if (c.term == Term::alibi || c.term == Term::t5)
    kernel.dense_bytes = few * tokens * tokens * 4;
  switch (c.pass) {
    case Pass::forward:
      kernel.run = [=] { call->forward(); };
      kernel.error = [=] { return call->forward_error(); };
      break;
    case Pass::backward:
      call->forward();
      kernel.run = [=] { call->backward(); };
      kernel.error = [=] { return call->gradient_error(); };
      break;
    case Pass::both:
      kernel.run = [=] { call->train(); };
      kernel.error = [=] { return std::max(call->forward_error(), call->gradient_error()); };
      break;
  }
  return kernel;
}

// Decoding: the last queries of a sequence with its cache.
template <typename T>
Kernel decoding_kernel(int64_t keys, int64_t queries) {
  constexpr int64_t heads = 32, key_heads = 8, size = 128;
  const AttentionSizes sizes{queries, keys, heads, key_heads, size};
  const auto call = std::make_shared<AttentionCall<T>>(sizes, Term::plain, false);
  const int64_t bytes = call->keys().view.size() * static_cast<int64_t>(sizeof(T));
  const auto read =
      reading({{call->keys().data.get(), bytes}, {call->values().data.get(), bytes}});
  return {"attention",
          fmt::format("{} {} {} [{}, {} + {}, {}]", queries, queries == 1 ? "query" : "queries",
                      gnomon::name(dtype_of<T>), keys, heads, key_heads, size),
          Roof::memory,
          2.0 * static_cast<double>(bytes),
          [=] { call->forward(); },
          [=] { read(); },
          [=] { return call->forward_error(); }};
}

}  // namespace

std::vector<KernelMaker> attention_kernels(std::optional<int64_t> only) {
  std::vector<KernelMaker> all;
  const auto add = [&](const Case& c) {
    all.push_back(
        {std::string("attention ") + name(c.term), [=] { return attention_kernel<float>(c); }});
  };
  const auto lengths = only ? std::vector{*only} : std::vector<int64_t>{128, 512, 2048, 8192};
  for (const int64_t tokens : lengths) {
    const bool long_enough = only || tokens >= 2048;
    for (const int64_t size : {64, 128}) {
      if (size == 128 && !long_enough) continue;
      for (const Term term : {Term::plain, Term::alibi, Term::t5})
        add({term, Pass::forward, tokens, size});
    }
    if (tokens <= 8192) add({Term::dense, Pass::forward, tokens});
    add({Term::t5, Pass::both, tokens});
    if (!long_enough) continue;
    if (only || tokens == 2048) add({Term::plain, Pass::backward, tokens});
    const Case alibi{Term::alibi, Pass::forward, tokens};
    all.push_back({"attention alibi", [=] { return attention_kernel<Half>(alibi); }});
    all.push_back({"attention alibi", [=] { return attention_kernel<BFloat16>(alibi); }});
  }
  const int64_t keys = only.value_or(32768);
  for (const int64_t queries : {1, 4}) {
    if (queries > keys) continue;
    all.push_back({"attention decode", [=] { return decoding_kernel<float>(keys, queries); }});
    all.push_back(
        {"attention decode", [=] { return decoding_kernel<BFloat16>(keys, queries); }});
  }
  return all;
}

}  // namespace gnomon::cli
