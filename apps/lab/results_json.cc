#include "apps/lab/results_json.h"

#include <algorithm>
#include <concepts>
#include <limits>
#include <stdexcept>
#include <utility>

#include "apps/lab/candidate.h"
#include "apps/lab/results_check.h"
#include "apps/lab/tasks.h"
#include "gnomon/error.h"
#include "gnomon/io/file.h"
#include "src/core/json.h"

namespace gnomon::lab {

// describe() lists the keys of a struct, in the order of the file, for Writer and Reader. A
// field that is absent in some files is `optional`: std::nullopt or an empty list.

template <typename T>
concept Primitive = std::is_arithmetic_v<T> || std::same_as<T, std::string>;

class Writer {
 public:
  template <typename T>
  Writer& operator()(const char* key, const T& value) {
    json_[key] = written(value);
    return *this;
  }
  template <typename T>
  Writer& optional(const char* key, const std::optional<T>& value) {
    return value ? (*this)(key, *value) : *this;
  }
  Writer& optional(const char* key, const std::string& value) {
    return value.empty() ? *this : (*this)(key, value);
  }
  template <typename T>
  Writer& optional(const char* key, const std::vector<T>& value) {
    return value.empty() ? *this : (*this)(key, value);
  }

  template <typename T>
  static Json written(const T& value) {
    if constexpr (Primitive<T> || std::same_as<T, Json>) {
      return value;
    } else if constexpr (std::same_as<T, Stage> || std::same_as<T, Context>) {
      return name(value);
    } else {
      Writer writer;
      describe(writer, const_cast<T&>(value));  // describe() changes fields only in a Reader
      return std::move(writer.json_);
    }
  }
  template <typename T>
  static Json written(const std::vector<T>& list) {
    Json json = Json::array();
    for (const T& one : list) json.push_back(written(one));
    return json;
  }

 private:
  Json json_ = Json::object();
};

class Reader {
 public:
  explicit Reader(const Json& json) : json_(json) {
    if (!json.is_object()) throw std::invalid_argument("a value must be an object");
  }
  template <typename T>
  Reader& operator()(const char* key, T& value) {
    const auto found = json_.find(key);
    if (found == json_.end()) throw std::invalid_argument("no key " + std::string(key));
    if (!read(*found, value))
      throw std::invalid_argument("a value of another type at the key " + std::string(key));
    return *this;
  }
  template <typename T>
  Reader& optional(const char* key, T& value) {
    if (!json_.contains(key)) return *this;
    if constexpr (requires { value.reset(); })
      return (*this)(key, value.emplace());
    else
      return (*this)(key, value);
  }

  // Returns whether the type of the JSON value is that of `value`.
  template <typename T>
  static bool read(const Json& json, T& value) {
    if constexpr (std::same_as<T, Json>) {
      value = json;
    } else if constexpr (std::same_as<T, bool>) {
      if (!json.is_boolean()) return false;
      value = json.get<bool>();
    } else if constexpr (std::integral<T>) {
      if (!json.is_number_integer()) return false;
      value = json.get<T>();
    } else if constexpr (std::floating_point<T>) {
      if (!json.is_number() && !json.is_null()) return false;
      // JSON has no NaN; it is written as null.
      value = json.is_null() ? std::numeric_limits<T>::quiet_NaN() : json.get<T>();
    } else if constexpr (std::same_as<T, std::string>) {
      if (!json.is_string()) return false;
      value = json.get<std::string>();
    } else {
      Reader reader(json);
      describe(reader, value);
    }
    return true;
  }
  template <typename T>
  static bool read(const Json& json, std::vector<T>& list) {
    if (!json.is_array()) return false;
    for (const Json& one : json)
      if (!read(one, list.emplace_back())) return false;
    return true;
  }

 private:
  const Json& json_;
};

void describe(auto& f, Settings& s) {
  f("preset", s.preset)("task", s.task)("encodings", s.encodings)("extend", s.extend);
  f("texts", s.texts)("tokens", s.tokens)("train_length", s.train_length)("eval_lengths",
                                                                          s.eval_lengths);
  f("layers", s.layers)("width", s.width)("heads", s.heads)("seeds", s.seeds);
  f("steps", s.steps)("batch", s.batch)("learning_rate", s.learning_rate);
  f("eval_segments", s.eval_segments)("device", s.device);
  f.optional("micro_batches", s.micro_batches).optional("finetune", s.finetune);
}
void describe(auto& f, StoredSettings& s) {
  f("settings", s.settings)("fingerprint", s.fingerprint)("command", s.command);
  f.optional("gnomon", s.gnomon).optional("shard", s.shard);
}

void describe(auto& f, LengthLoss& s) {
  f("length", s.length)("applicable", s.applicable);
  if (!s.applicable) return;
  f("tail_bits", s.tail_bits)("window_bits", s.window_bits)("accuracy", s.accuracy);
  f("windows", s.windows)("tail_by_segment", s.tail_by_segment);
}
void describe(auto& f, ModelConfig& s) {
  f("model_type", s.model_type)("gnomon", s.gnomon)("encoding", s.encoding)("seed", s.seed);
  f("position", s.position)("settings", s.settings).optional("lengths", s.lengths);
}
void describe(auto& f, PositionLoss& s) {
  f("length", s.length)("positions", s.positions)("bits", s.bits);
}
void describe(auto& f, Stretch& s) {
  f("from", s.from)("to", s.to)("up_to", s.up_to)("applicable", s.applicable);
  if (!s.applicable) return;
  f("examples", s.examples)("score", s.score)("second", s.second)("bits", s.bits);
  f("chance_score", s.chance_score)("chance_second", s.chance_second);
}
void describe(auto& f, ExtensionMethod& s) {
  f("method", s.method)("tune_length", s.tune_length)("specification", s.specification);
  f("without", s.without)("after", s.after);
}
void describe(auto& f, Extension& s) {
  f("factor", s.factor)("steps", s.steps)("before", s.before)("methods", s.methods);
}
void describe(auto& f, SampledMatrix& s) {
  f("row_step", s.row_step)("column_step", s.column_step)("values", s.values);
}
void describe(auto& f, RotaryDecay& s) { f("distances", s.distances)("scores", s.scores); }
void describe(auto& f, BiasByDistance& s) { f("distances", s.distances)("heads", s.heads); }
void describe(auto& f, Picture& s) {
  f.optional("table", s.table).optional("similarity", s.similarity);
  f.optional("rotary", s.rotary).optional("bias", s.bias);
  f.optional("initial_table", s.initial_table).optional("initial_bias", s.initial_bias);
}
void describe(auto& f, Sample& s) {
  f("context", s.context)("prompt", s.prompt)("text", s.text)("expected", s.expected);
}
void describe(auto& f, AttentionMap& s) {
  f("layer", s.layer)("head", s.head)("weights", s.weights);
}
void describe(auto& f, HeadAttention& s) {
  f("layer", s.layer)("head", s.head)("mean_distance", s.mean_distance)("shares", s.shares);
}
void describe(auto& f, TrainedAttention& s) {
  f("distances", s.distances)("shares", s.shares)("text", s.text)("maps", s.maps);
  f.optional("range_ends", s.range_ends).optional("heads", s.heads);
}
void describe(auto& f, CurvePoint& s) {
  f("step", s.step)("train_bits", s.train_bits).optional("validation_bits", s.validation_bits);
}
// A run that is read is finished. Otherwise `unfinished` is the last key.
void describe(auto& f, RunResult& s) {
  f("encoding", s.encoding)("seed", s.seed)("specification", s.specification);
  f("parameters", s.parameters)("position_parameters", s.position_parameters);
  f("steps", s.steps)("trained_tokens", s.trained_tokens)("train_seconds", s.train_seconds);
  f("tokens_per_second", s.tokens_per_second)("curve", s.curve);
  f.optional("extension", s.extension);
  if (s.unfinished) {
    f("unfinished", s.unfinished);
    return;
  }
  f("test_seconds", s.test_seconds).optional("lengths", s.tests.lengths);
  f.optional("by_position", s.tests.by_position).optional("stretches", s.tests.stretches);
  f("picture", s.picture).optional("samples", s.samples).optional("attention", s.attention);
}
void describe(auto& f, MemoryUse& s) {
  f("tokens", s.tokens)("bytes", s.bytes)("spread", s.spread);
  f.optional("extra_bytes", s.extra_bytes);
}
void describe(auto& f, RelativeTime& s) { f("median", s.median)("low", s.low)("high", s.high); }
void describe(auto& f, MeasuredCost& s) {
  f("encoding", s.encoding)("memory", s.memory).optional("step_seconds", s.step_seconds);
  f.optional("relative_step", s.relative_step);
}

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
  if (!s.lengths.empty())
    f("lengths", s.lengths)("holds_to", s.holds_to);
  else
    f("stretches", s.stretches)("ranges", s.ranges)("answered_to", s.answered_to);
  f("tokens_per_second", s.tokens_per_second)("train_seconds", s.train_seconds);
  f("test_seconds", s.test_seconds);
}
void describe(auto& f, Choice& s) { f("name", s.name)("title", s.title)("use", s.use); }
void describe(auto& f, Recommendation& s) {
  f("from", s.from)("to", s.to)("choices", s.choices)("next", s.next);
  f("difference", s.difference)("margin", s.margin)("seeds", s.seeds);
  f("confidence", s.confidence);
}
void describe(auto& f, RankedEncoding& s) {
  f("name", s.name)("title", s.title).optional("bits", s.bits);
  if (!s.bits) f("score", s.score)("second", s.second);
  f("tied", s.tied);
}
void describe(auto& f, Ranking& s) {
  s.from ? f("from", s.from)("to", s.to) : f("length", s.to);
  f("order", s.order);
}
void describe(auto& f, Way& s) {
  f("name", s.name)("title", s.title)("context", s.context)("method", s.method);
  f("bits", s.bits)("tied", s.tied);
}
void describe(auto& f, Ways& s) { f("length", s.length)("order", s.order); }
void describe(auto& f, ExtensionRow& s) {
  f("method", s.method)("title", s.title)("stage", s.stage)("bits", s.bits);
  f("deviation", s.deviation)("uncertainty", s.uncertainty);
}
void describe(auto& f, ExtensionResult& s) {
  f("name", s.name)("title", s.title)("seeds", s.seeds)("factor", s.factor);
  f("steps", s.steps);
  f("lengths", s.lengths)("rows", s.rows);
}
void describe(auto& f, EncodingCost& s) {
  f("name", s.name)("title", s.title)("position_parameters", s.position_parameters);
  f.optional("step_seconds", s.step_seconds).optional("relative_step", s.relative_step);
  f("memory", s.memory).optional("step_noise", s.step_noise);
}
void describe(auto& f, SizeResult& s) {
  f("name", s.name)("layers", s.layers)("width", s.width)("heads", s.heads);
  f("parameters", s.parameters);
}
void describe(auto& f, Metric& s) { f("name", s.name)("what", s.what)("chance", s.chance); }
void describe(auto& f, LeftOut& s) { f("name", s.name)("reason", s.reason); }
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
  f("answer", s.answer);
  f("settings", s.settings)("length_unit", std::string(length_unit(s.settings)));
  f("metric", s.metric)("texts", s.texts)("runs_asked", s.runs_asked);
  f.optional("shard", s.shard).optional("size", s.size).optional("sizes", s.sizes);
  f("left_out", s.left_out)("stopped", s.stopped)("encodings", s.encodings);
  f("rankings", s.rankings).optional("ways", s.ways);
  f("recommendations", s.recommendations)("extensions", s.extensions)("cost", s.cost);
  f("runs", s.runs);
  f("unfinished", s.unfinished)("machine", s.machine)("seconds", s.seconds);
}

namespace {

// The keys of results.json that are measurements.
struct Measurements {
  Results results;
};
void describe(auto& f, Measurements& s) {
  Results& r = s.results;
  f("gnomon", r.gnomon)("date", r.date)("command", r.command)("settings", r.settings);
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
    need_same(std::find(settings.encodings.begin(), settings.encodings.end(), run.encoding) !=
                  settings.encodings.end(),
              "encoding of a run");
    check_run(run, settings);
  }
}

// Reads a value that fulfils check(value), which throws std::invalid_argument otherwise.
template <typename T, typename Check>
T read_file(const std::filesystem::path& path, Check&& check) {
  try {
    const io::MappedFile file(path);
    const Json json = internal::parse_json<Json>(file.text(), "lab", "the file");
    T value;
    if (!Reader::read(json, value)) throw std::invalid_argument("no list");
    check(value);
    return value;
  } catch (const std::invalid_argument& error) {
    refuse("lab", path.string() + " must be as an earlier session wrote it", error.what());
  }
}

}  // namespace

const char* name(Stage stage) {
  return stage == Stage::before ? "before" : stage == Stage::without ? "without" : "after";
}

const char* name(Context context) {
  switch (context) {
    case Context::whole:
      return "whole";
    case Context::cut:
      return "cut";
    case Context::extended:
      return "extended";
    case Context::tuned:
      return "tuned";
  }
  return "";
}

Json to_json(const Settings& settings) { return Writer::written(settings); }
Json to_json(const StoredSettings& stored) { return Writer::written(stored); }
Json to_json(const RunResult& run) { return Writer::written(run); }
Json to_json(const std::vector<MeasuredCost>& costs) { return Writer::written(costs); }
Json to_json(const Results& results) { return Writer::written(results); }
Json to_json(const ModelConfig& config) { return Writer::written(config); }
Json to_json(const LengthLoss& loss) { return Writer::written(loss); }
Json to_json(const Stretch& stretch) { return Writer::written(stretch); }

StoredSettings read_settings(const std::filesystem::path& path) {
  return read_file<StoredSettings>(
      path, [](const StoredSettings& stored) { check_settings(stored.settings); });
}

StoredSettings read_settings(const Json& stored) {
  StoredSettings value;
  if (!Reader::read(stored, value)) throw std::invalid_argument("no settings");
  check_settings(value.settings);
  return value;
}

RunResult read_run(const std::filesystem::path& path, const Settings& settings,
                   const std::string& encoding, std::int64_t seed) {
  return read_file<RunResult>(path, [&](const RunResult& run) {
    need_same(run.encoding == encoding && run.seed == seed, "encoding or seed");
    check_run(run, settings);
  });
}

Results read_results(const std::filesystem::path& path) {
  return read_file<Measurements>(path, check_measurements).results;
}

Results read_results(const Json& stored) {
  Measurements value;
  if (!Reader::read(stored, value)) throw std::invalid_argument("no results");
  check_measurements(value);
  return value.results;
}

std::vector<MeasuredCost> read_costs(const std::filesystem::path& path) {
  return read_file<std::vector<MeasuredCost>>(path, [](const auto&) {});
}

ModelConfig read_model_config(const std::filesystem::path& path) {
  return read_file<ModelConfig>(path, [](const ModelConfig& config) {
    need_same(config.model_type == "gnomon-lab", "model_type");
    // A session with --extend stores it for all encodings, but only rotary can be extended.
    Settings settings = config.settings;
    settings.extend.clear();
    check_settings(settings);
    find_candidate(config.encoding);
  });
}

}  // namespace gnomon::lab
