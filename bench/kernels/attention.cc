#include "gnomon/attention/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include "bench/kernels/attention_call.h"
#include "bench/kernels/kernels.h"
#include "gnomon/attention/cosine.h"
#include "gnomon/attention/segment_memory.h"

namespace gnomon::bench {
namespace {

using std::int64_t;

enum class Pass {
  forward = 1,
  backward,
  both,  // as backward, and the gradient of the table
};

struct Case {
  Term term = {};
  Pass pass = {};
  int64_t tokens = 0, size = 64, heads = 8, key_heads = 8;
  int64_t page = 0;  // tokens of a page of the cache; 0: contiguous
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

template <typename T>
Kernel attention_kernel(const Case& c) {
  const AttentionSizes sizes{c.tokens, c.tokens, c.heads, c.key_heads, c.size};
  const auto call = std::make_shared<AttentionCall<T>>(sizes, c.term, c.pass != Pass::forward);
  if (c.page) call->store_in_pages(c.page);
  Kernel kernel;
  kernel.name = "attention";
  kernel.detail =
      fmt::format("{}{} {} [{}, {}, {}]{}", name(c.term),
                  c.pass == Pass::forward    ? ""
                  : c.pass == Pass::backward ? " backward"
                                             : " and gradients",
                  gnomon::name(dtype_of<T>), c.tokens, c.heads, c.size, pages_text(c.page));
  kernel.roof = Roof::arithmetic;
  kernel.work = sizes.pairs() * static_cast<double>(c.heads) * static_cast<double>(c.size) *
                products(c.pass);
  kernel.make_roof = best_multiplier;
  const auto tokens = static_cast<double>(c.tokens);
  if (c.term == Term::alibi || c.term == Term::t5)
    kernel.dense_bytes = static_cast<double>(c.heads) * tokens * tokens * 4;
  if (c.pass == Pass::forward) kernel.explain = [=] { return call->explain(); };
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

// The norms of cosine attention, in place.
template <typename T>
Kernel normalise_kernel(int64_t tokens, Pass pass) {
  const std::array<std::ptrdiff_t, 4> shape{1, tokens, 8, 64};
  const std::vector<double> scales(8, 10.0);
  const auto x = random_block<T, 4>(shape, 1), grad = random_block<T, 4>(shape, 2),
             x_grad = zeros<T, 4>(shape);
  const bool forward = pass == Pass::forward;
  // The backward pass reads two arrays and writes a third.
  const int64_t bytes =
      x->view.size() * static_cast<int64_t>(sizeof(T)) * (forward ? 2 : 3) / 2;
  return {"normalise",
          fmt::format("{}{} [{}, 8, 64]", forward ? "" : "backward ", gnomon::name(dtype_of<T>),
                      tokens),
          Roof::memory,
          static_cast<double>(bytes),
          [=] {
            if (forward)
              normalise(x->view, scales, x->view);
            else
              normalise_backward(x->view, grad->view, scales, x_grad->view);
          },
          [=] { return touching(bytes); },
          [=] {
            const auto fresh = random_block<T, 4>(shape, 1);
            double worst = 0;
            for (int64_t t = 0; t < tokens; t += 7) {
              const int64_t h = t % 8;
              const View<T, 1> of = fresh->view[0][t][h],
                               in = forward ? of : grad->view[0][t][h],
                               out = (forward ? x : x_grad)->view[0][t][h];
              double square = 0, along = 0;
              for (int64_t d = 0; d < 64; ++d) {
                square += as_double(of(d)) * as_double(of(d));
                along += as_double(of(d)) * as_double(in(d));
              }
              for (int64_t d = 0; d < 64; ++d) {
                const double exact =
                    10 / std::sqrt(square) *
                    (as_double(in(d)) - (forward ? 0 : along / square * as_double(of(d))));
                worst = std::max(worst, std::fabs(exact - as_double(out(d))));
              }
            }
            return worst;
          }};
}

// Stores the keys and values of a segment.
Kernel segment_kernel(int64_t segment, int64_t memory) {
  const SegmentMemoryShape shape{
      .memory = memory, .segment = segment, .heads = 8, .head_dim = 64, .value_dim = 64};
  const auto past = std::make_shared<SegmentMemory<float>>(shape);
  const auto k = random_block<float, 4>({1, segment, 8, 64}, 1),
             v = random_block<float, 4>({1, segment, 8, 64}, 2);
  const int64_t bytes = 2 * k->view.size() * 4;
  return {"segment",
          fmt::format("{} to memory of {} [{}, 8, 64]", segment, memory, segment),
          Roof::memory,
          static_cast<double>(bytes),
          [=] { past->append(k->view, v->view); },
          [=] { return touching(bytes); },
          [=] {
            const Segment<float> all = past->append(k->view, v->view);
            double worst = 0;
            for (int64_t t = 0; t < segment; ++t)
              for (int64_t d = 0; d < 64; ++d)
                worst = std::max(worst, std::fabs(double{all.keys(0, all.offset + t, 7, d)} -
                                                  k->view(0, t, 7, d)));
            return worst;
          }};
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
    const Case trained{Term::t5, Pass::both, tokens};
    add(trained);
    if (!long_enough) continue;
    if (only || tokens == 2048) {
      const Case backward{Term::plain, Pass::backward, tokens};
      all.push_back({"attention t5", [=] { return attention_kernel<BFloat16>(trained); }});
      add(backward);
      all.push_back({"attention plain", [=] { return attention_kernel<BFloat16>(backward); }});
    }
    for (const int64_t size : {64, 128}) {
      const Case plain{Term::plain, Pass::forward, tokens, size};
      all.push_back({"attention plain", [=] { return attention_kernel<Half>(plain); }});
      all.push_back({"attention plain", [=] { return attention_kernel<BFloat16>(plain); }});
    }
    const Case alibi{Term::alibi, Pass::forward, tokens};
    all.push_back({"attention alibi", [=] { return attention_kernel<Half>(alibi); }});
    all.push_back({"attention alibi", [=] { return attention_kernel<BFloat16>(alibi); }});
  }
  // Beside each other, because they are compared.
  Case paged{.term = Term::plain,
             .pass = Pass::forward,
             .tokens = only.value_or(2048),
             .size = 128,
             .heads = 32,
             .key_heads = 8};
  for (const int64_t page : {0, 16, 32}) {
    paged.page = page;
    all.push_back({"attention paged", [=] { return attention_kernel<float>(paged); }});
    all.push_back({"attention paged", [=] { return attention_kernel<BFloat16>(paged); }});
  }
  const int64_t tokens = only.value_or(1024);
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    all.push_back({"normalise", [=] { return normalise_kernel<float>(tokens, pass); }});
    all.push_back({"normalise", [=] { return normalise_kernel<BFloat16>(tokens, pass); }});
  }
  for (const int64_t segment : {1, 128})
    all.push_back({"segment", [=] { return segment_kernel(segment, only.value_or(512)); }});
  return all;
}

std::vector<CountedKernel> counted_attention() {
  const auto plain = [](Pass pass) {
    return attention_kernel<float>(
        {.term = Term::plain, .pass = pass, .tokens = 64, .heads = 4, .key_heads = 2});
  };
  return {{"attention_forward", 64 * 4 * 64, [=] { return plain(Pass::forward); }},
          {"attention_backward", 64 * (4 + 2 + 2) * 64, [=] { return plain(Pass::backward); }}};
}

}  // namespace gnomon::bench
