#include "apps/lab/statistics/results.h"

#include <fmt/format.h>

#include "apps/lab/data/lists.h"
#include "apps/lab/data/run_json.h"
#include "apps/lab/tasks/settings_check.h"
#include "apps/lab/tasks/stored.h"

namespace gnomon::lab {

void describe(auto& f, LengthMean& s) {
  f("length", s.length)("applicable", s.applicable);
  if (!s.applicable) return;
  f("tail_bits", s.tail_bits)("tail_deviation", s.tail_deviation);
  f("uncertainty", s.uncertainty)("window_bits", s.window_bits);
  f("accuracy", s.accuracy)("cut_bits", s.cut_bits)("change", s.change)("windows", s.windows);
}
void describe(auto& f, Interval& s) { f("low", s.low)("high", s.high); }
void describe(auto& f, StretchMean& s) {
  f("from", s.from)("to", s.to)("applicable", s.applicable);
  if (!s.applicable) return;
  f("examples", s.examples)("score", s.score)("score_deviation", s.score_deviation);
  f("second", s.second)("bits", s.bits);
  f("chance_score", s.chance_score)("chance_second", s.chance_second);
  f("score_interval", s.score_interval)("second_interval", s.second_interval);
}
void describe(auto& f, EncodingResult& s) {
  f("name", s.name)("title", s.title)("enters", s.enters)("summary", s.summary);
  f("source", s.source)("specification", s.specification)("seeds", s.seeds);
  f("parameters", s.parameters)("position_parameters", s.position_parameters);
  f("training", s.training).optional("fall", s.fall);
  if (!s.lengths.empty())
    f("lengths", s.lengths)("holds_to", s.holds_to);
  else
    f("stretches", s.stretches)("ranges", s.ranges)
        .optional("depths", s.depths)("answered_to", s.answered_to);
  f("tokens_per_second", s.tokens_per_second)("train_seconds", s.train_seconds);
  f("test_seconds", s.test_seconds);
}
void describe(auto& f, Choice& s) { f("name", s.name)("title", s.title)("use", s.use); }
void describe(auto& f, Recommendation& s) {
  f("from", s.from)("to", s.to)("choices", s.choices)("decided", s.decided)("next", s.next);
  f("difference", s.difference)("margin", s.margin)("seeds", s.seeds);
  f("confidence", s.confidence);
}
void describe(auto& f, Way& s) {
  f("name", s.name)("title", s.title);
  if (s.context) f("context", *s.context)("method", s.method);
  f(s.second ? "score" : "bits", s.value).optional("second", s.second);
  f("verdict", s.verdict);
}
void describe(auto& f, Ranking& s) {
  s.from ? f("from", s.from)("to", s.to) : f("length", s.to);
  f("order", s.order);
}
void describe(auto& f, ExtensionRow& s) {
  f("method", s.method)("title", s.title)("stage", s.stage)("bits", s.bits);
  f("deviation", s.deviation)("uncertainty", s.uncertainty);
}
void describe(auto& f, ExtensionResult& s) {
  f("name", s.name)("title", s.title)("seeds", s.seeds)("factor", s.factor);
  f("steps", s.steps)("lengths", s.lengths)("rows", s.rows);
}
void describe(auto& f, EncodingCost& s) {
  f("name", s.name)("title", s.title)("position_parameters", s.position_parameters);
  f.optional("step_seconds", s.step_seconds).optional("relative_step", s.relative_step);
  f("memory", s.memory).optional("step_noise", s.step_noise);
  f.optional("equal_time_bits", s.equal_time_bits);
}
void describe(auto& f, SizeResult& s) {
  f("name", s.name)("layers", s.layers)("width", s.width)("heads", s.heads);
  f("parameters", s.parameters);
}
void describe(auto& f, Metric& s) { f("name", s.name)("what", s.what)("chance", s.chance); }
void describe(auto& f, TextSize& s) { f("name", s.name)("bytes", s.bytes); }
void describe(auto& f, TextsResult& s) {
  f("source", s.source)("split", s.split)("byte_frequency_bits", s.byte_frequency_bits);
  f("byte_frequency_accuracy", s.byte_frequency_accuracy)("byte_pair_bits", s.byte_pair_bits);
  f.optional("bytes_per_token", s.bytes_per_token);
  f.optional("token_frequency_bits", s.token_frequency_bits);
  f("train", s.train)("validation", s.validation)("test", s.test);
}
void describe(auto& f, Machine& s) {
  f("processor", s.processor)("cores", s.cores)("device", s.device)("isa", s.isa);
  f("libtorch", s.libtorch);
}
void describe(auto& f, Results& s) {
  f("gnomon", s.gnomon)("schema", s.schema)("date", s.date)("command", s.command);
  f.optional("protocol", s.protocol)("answer", s.answer);
  f("settings", s.settings)("length_unit", std::string(length_unit(s.settings)));
  f("metric", s.metric)("texts", s.texts)("runs_asked", s.runs_asked);
  f.optional("size", s.size).optional("sizes", s.sizes);
  f("left_out", s.left_out)("stopped", s.stopped).optional("missing", s.missing);
  f("encodings", s.encodings);
  f("rankings", s.rankings).optional("ways", s.ways);
  f("recommendations", s.recommendations)("extensions", s.extensions)("cost", s.cost);
  f.optional("sweep", s.sweep);
  f("runs", s.runs)("unfinished", s.unfinished)("machine", s.machine)("seconds", s.seconds);
}

namespace {

// The keys of results.json that are measurements.
struct Measurements {
  Results results;
};
void describe(auto& f, Measurements& s) {
  Results& r = s.results;
  f("gnomon", r.gnomon)("schema", r.schema);
  if (r.schema != Results{}.schema)
    throw std::invalid_argument(fmt::format("schema {}, not {}", r.schema, Results{}.schema));
  f("date", r.date)("command", r.command)("settings", r.settings);
  f("metric", r.metric)("texts", r.texts)("runs_asked", r.runs_asked)("machine", r.machine);
  f("runs", r.runs);
}

void check_measurements(const Measurements& found) {
  const Settings& settings = found.results.settings;
  const TextsResult& texts = found.results.texts;
  check_settings(settings);
  need_finite({texts.byte_frequency_bits, texts.byte_frequency_accuracy, texts.byte_pair_bits,
               texts.bytes_per_token.value_or(1), texts.token_frequency_bits.value_or(0)});
  for (const RunResult& run : found.results.runs) {
    need_same(contains(settings.encodings, run.encoding), "encoding of a run");
    check_run(run, settings);
  }
}

}  // namespace

const char* name(Stage stage) { return name_of(stage, {"before", "without", "after"}); }
const char* name(Context context) {
  return name_of(context, {"whole", "cut", "extended", "tuned"});
}

Json to_json(const Results& results) { return Writer::written(results); }

Results read_results(const std::filesystem::path& path) {
  return read_file<Measurements>(path, check_measurements).results;
}

Results read_results(const Json& stored) {
  return read_value<Measurements>(stored, check_measurements).results;
}

}  // namespace gnomon::lab
