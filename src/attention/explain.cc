#include <string>

#include "src/attention/problem.h"
#include "src/attention/tile.h"

namespace gnomon::internal {
namespace {

// "4 rows of a key head (at most 8)"; of a ragged batch "at most 8 rows of a key head".
std::string rows_text(const AttentionProblem& problem, std::int64_t most) {
  const std::string limit = "at most " + std::to_string(most);
  if (problem.ragged) return limit + " rows of a key head";
  return std::to_string(problem.queries * problem.group()) + " rows of a key head (" + limit +
         ")";
}

template <typename A>
std::string text_of(ForwardProblem<A>& problem) {
  const ForwardChoice choice = choose_forward(problem);
  std::string text;
  const auto add = [&](std::int64_t sequences, const std::string& what, bool pairs) {
    if (!sequences) return;
    if (!text.empty()) text += "; ";
    if (problem.ragged) text += std::to_string(sequences) + " x ";
    text += what + (sizeof(A) == 8 ? "; double products"
                    : pairs        ? "; bfloat16 products, weights rounded"
                                   : "; float products");
  };
  add(choice.direct,
      "direct: " + rows_text(problem, direct_rows) + " read keys and values where they are",
      choice.pairs_over_cache);
  add(choice.blocks,
      "blocks: " +
          rows_text(problem,
                    problem.keys < long_cache ? block_rows_of_any : block_rows_of_long) +
          " are multiplied by blocks of tokens of all heads",
      choice.pairs_over_cache);
  add(choice.others,
      (choice.by_parts ? "parts: threads share the keys of "
                       : "pieces: keys are transposed once for ") +
          std::to_string(choice.queries) + " queries",
      choice.pairs);
  return text.empty() ? "nothing: there is no query" : text;
}

}  // namespace

std::string explain(ForwardProblem<float>& problem) { return text_of(problem); }
std::string explain(ForwardProblem<double>& problem) { return text_of(problem); }

}  // namespace gnomon::internal
