// `gnomon bias`: the matrix [H, Q, K] that a bias adds to the scores.
#include <fmt/format.h>

#include <memory>

#include "apps/cli/arguments.h"
#include "apps/cli/command.h"
#include "apps/cli/output.h"
#include "apps/cli/tensors.h"
#include "gnomon/bias/alibi.h"
#include "gnomon/bias/clipped.h"
#include "gnomon/bias/fire.h"
#include "gnomon/bias/swin.h"
#include "gnomon/bias/t5.h"
#include "gnomon/error.h"
#include "gnomon/io/safetensors.h"

namespace gnomon::cli {
namespace {

constexpr const char* help =
    R"(Usage: gnomon bias KIND --heads H --queries Q --keys K [options] [-o FILE]

The numbers that a bias adds to the scores: [H, Q, K], of the query at position
offset + q and the key at position k. Without -o: a look at the corner.

  KIND                  alibi, t5, clipped, swin, fire
  --heads H --queries Q --keys K
  --offset O            position of the first query (0), as after O cached keys
  --causal              t5: the buckets of a decoder, which all look back; the
                        others are the same either way (nothing is masked out)
  --max-bias B          alibi: 8
  --head-offset N --local-heads N     alibi: the heads of a shard
  --buckets N --max-distance N        t5: 32, 128
  --before N --after N                clipped: distances with their own number
  --height N --width N --class-tokens N     swin: the window; BEiT has 1 token
  --threshold L --epsilon E           fire: 512, 1e-6
  --parameters F.npy    the trained table: t5 [buckets, H],
                        clipped [H, before + 1 + after], swin [offsets, H];
                        fire: a .safetensors with mlp.0.weight, mlp.0.bias,
                        mlp.2.weight, mlp.2.bias, c and L_multiplier
  --indices             t5, clipped, swin: which row or column of it, [Q, K]
  -o FILE (.npy .csv .json)  --json

Example: gnomon bias alibi --heads 8 --queries 16 --keys 16 -o alibi.npy
)";

struct Options {
  std::string kind, parameters;
  std::int64_t heads = 0, queries = 0, keys = 0, offset = 0;
  bool causal = false, indices = false;
  Alibi alibi;
  T5Bias t5;
  ClippedBias clipped;
  Swin swin;
  Fire fire;
  OutputOptions output;
};

std::unique_ptr<Tensor<float, 2>> read_parameters(const Options& o) {
  if (o.parameters.empty())
    refuse("bias", o.kind + " has a trained table: give --parameters F.npy, or --indices",
           "neither");
  return read_matrix(o.parameters);
}

// index_of(query's position, key's position).
template <typename IndexOf>
void put_indices(const Options& o, const Json& facts, IndexOf index_of) {
  Tensor<std::int64_t, 2> out({o.queries, o.keys});
  for (std::int64_t q = 0; q < o.queries; ++q)
    for (std::int64_t k = 0; k < o.keys; ++k) out.view(q, k) = index_of(q + o.offset, k);
  put_array(o.output, out.array(), facts);
}

// Its trained numbers, by the names of the paper's listing.
ProgressiveBias read_fire(Options& o) {
  if (o.parameters.empty())
    refuse("bias", "fire is trained: give --parameters F.safetensors", "none");
  const io::SafeTensors file(o.parameters);
  const auto read = [&](const char* name) {
    const std::vector<double> numbers = file.tensor(name).to_doubles();
    return std::vector<float>(numbers.begin(), numbers.end());
  };
  const auto w1 = read("mlp.0.weight"), b1 = read("mlp.0.bias"), w2 = read("mlp.2.weight"),
             b2 = read("mlp.2.bias"), c = read("c"), multiplier = read("L_multiplier");
  const auto vector = [](const std::vector<float>& of) {
    return View<const float, 1>(of.data(), {static_cast<std::ptrdiff_t>(of.size())});
  };
  o.fire.heads = o.heads, o.fire.hidden = static_cast<std::int64_t>(w1.size());
  if (w2.size() != w1.size() * b2.size())
    refuse("fire", "mlp.2.weight must have heads x hidden numbers",
           static_cast<std::int64_t>(w2.size()));
  const View<const float, 2> second(w2.data(), {static_cast<std::ptrdiff_t>(b2.size()),
                                                static_cast<std::ptrdiff_t>(w1.size())});
  return lower(o.fire,
               {vector(w1), vector(b1), second, vector(b2), vector(c), vector(multiplier)});
}

void put_form(const Options& o, const Json& facts, const BiasForm& form) {
  Tensor<float, 3> out({heads(form), o.queries, o.keys});
  dense(form, o.offset, out.view);
  put_array(o.output, out.array(), facts);
}

int run(Options& o) {
  check_ending(o.output, {".npy", ".csv", ".json"});
  if (o.queries < 1) refuse("bias", "--queries must be at least 1", o.queries);
  if (o.keys < 1) refuse("bias", "--keys must be at least 1", o.keys);
  constexpr std::int64_t most = std::int64_t{1} << 40;
  for (std::int64_t number : {o.heads, o.queries, o.keys, o.offset, -o.offset})
    if (number > most) refuse("bias", "numbers must be at most 2^40", number);
  Json facts{{"kind", o.kind},
             {"heads", o.heads},
             {"queries", o.queries},
             {"keys", o.keys},
             {"offset", o.offset}};
  // All distances of the matrix.
  const std::int64_t first = -(o.offset + o.queries - 1), count = o.queries + o.keys - 1;

  if (o.kind == "alibi") {
    if (o.indices) refuse("bias", "alibi has no table to index", "--indices");
    o.alibi.heads = o.heads;
    put_form(o, facts, lower(o.alibi));
  } else if (o.kind == "t5") {
    o.t5.heads = o.heads;
    o.t5.direction = o.causal ? T5Direction::causal : T5Direction::bidirectional;
    facts["buckets"] = o.t5.buckets;
    facts["max_distance"] = o.t5.max_distance;
    facts["bidirectional"] = !o.causal;
    if (o.indices)
      put_indices(o, facts, [&](std::int64_t query, std::int64_t key) {
        return bucket(o.t5, key - query);
      });
    else
      put_form(o, facts, strip(o.t5, read_parameters(o)->view, first, count));
  } else if (o.kind == "clipped") {
    o.clipped.heads = o.heads;
    facts["before"] = o.clipped.before;
    facts["after"] = o.clipped.after;
    if (o.indices)
      put_indices(o, facts, [&](std::int64_t query, std::int64_t key) {
        return column(o.clipped, key - query);
      });
    else
      put_form(o, facts, strip(o.clipped, read_parameters(o)->view, first, count));
  } else if (o.kind == "swin") {
    o.swin.heads = o.heads;
    facts["height"] = o.swin.height;
    facts["width"] = o.swin.width;
    facts["class_tokens"] = o.swin.class_tokens;
    if (o.indices)
      put_indices(o, facts, [&](std::int64_t query, std::int64_t key) {
        return offset_index(o.swin, query, key);
      });
    else
      put_form(o, facts, lower(o.swin, read_parameters(o)->view));
  } else if (o.kind == "fire") {
    if (o.indices) refuse("bias", "fire has no table to index", "--indices");
    const ProgressiveBias form = read_fire(o);
    facts["c"] = form.c;
    facts["threshold"] = form.threshold;
    facts["epsilon"] = form.epsilon;
    facts["pieces"] = form.pieces();
    put_form(o, facts, form);
  } else {
    refuse_name("bias", {"alibi", "t5", "clipped", "swin", "fire"}, o.kind);
  }
  return 0;
}

}  // namespace

Command add_bias(CLI::App& program) {
  CLI::App* app = add_app(program, "bias", help);
  auto o = std::make_shared<Options>();
  app->add_option("KIND", o->kind)->required();
  app->add_option("--heads", o->heads)->required();
  app->add_option("--queries", o->queries)->required();
  app->add_option("--keys", o->keys)->required();
  app->add_option("--offset", o->offset);
  app->add_flag("--causal", o->causal);
  app->add_option("--max-bias", o->alibi.max_bias);
  app->add_option("--head-offset", o->alibi.head_offset);
  app->add_option("--local-heads", o->alibi.local_heads);
  app->add_option("--buckets", o->t5.buckets);
  app->add_option("--max-distance", o->t5.max_distance);
  app->add_option("--before", o->clipped.before);
  app->add_option("--after", o->clipped.after);
  app->add_option("--height", o->swin.height);
  app->add_option("--width", o->swin.width);
  app->add_option("--class-tokens", o->swin.class_tokens);
  app->add_option("--threshold", o->fire.threshold);
  app->add_option("--epsilon", o->fire.epsilon);
  app->add_option("--parameters", o->parameters);
  app->add_flag("--indices", o->indices);
  app->add_option("-o", o->output.path);
  app->add_flag("--json", o->output.json);
  return {app, help, [o] { return run(*o); }};
}

}  // namespace gnomon::cli
