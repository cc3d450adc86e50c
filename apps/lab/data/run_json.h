// JSON of settings, runs and measured costs, written and read by one list of the keys of each
// struct. docs/lab/results.md describes the keys.
#pragma once

#include <concepts>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "apps/lab/data/task.h"

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
  template <typename List>
  Writer& optional(const char* key, const List& value) {
    return value.empty() ? *this : (*this)(key, value);
  }
  Writer& seeds(const char* key, const std::vector<std::int64_t>& value) {
    return (*this)(key, value);
  }

  template <typename T>
  static Json written(const T& value) {
    if constexpr (Primitive<T> || std::same_as<T, Json>) {
      return value;
    } else if constexpr (std::same_as<T, const Task*>) {
      return std::string(value->name);
    } else if constexpr (std::is_enum_v<T>) {
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
  // A list of seeds. Up to schema 3: the number N, for 1, ..., N.
  Reader& seeds(const char* key, std::vector<std::int64_t>& value) {
    const auto found = json_.find(key);
    if (found == json_.end() || !found->is_number_integer()) return (*this)(key, value);
    const auto count = found->get<std::int64_t>();
    if (count < 1 || count > most_seeds) throw std::invalid_argument("a number of seeds");
    value = seeds_up_to(count);
    return *this;
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
    } else if constexpr (std::same_as<T, const Task*>) {
      if (!json.is_string()) return false;
      value = &find_task(json.get<std::string>());
    } else {
      Reader reader(json);
      describe(reader, value);
    }
    return true;
  }
  template <typename T>
  static bool read(const Json& json, std::vector<T>& list) {
    if (!json.is_array()) return false;
    list.clear();  // of its default
    for (const Json& one : json)
      if (!read(one, list.emplace_back())) return false;
    return true;
  }

 private:
  const Json& json_;
};

// The contents of settings.json: the settings, a hash of the texts, the command line (empty:
// another program wrote the folder), the version of the library, that of the layout, and with
// --protocol the hash of its file.
struct StoredSettings {
  Settings settings;
  std::string fingerprint, command;
  std::optional<std::string> gnomon = {};
  std::optional<std::int64_t> format = run_format;
  std::optional<Protocol> protocol = {};
};

// JSON of a struct with describe(), or of a list of them.
template <typename T>
Json to_json(const T& value) {
  return Writer::written(value);
}

void describe(auto& f, EntryRate& s) {
  f("encoding", s.encoding)("learning_rate", s.learning_rate);
}
void describe(auto& f, Settings& s) {
  f("preset", s.preset)("task", s.task)("encodings", s.encodings)("extend", s.extend);
  f("texts", s.texts)("tokens", s.tokens)("train_length", s.train_length)("eval_lengths",
                                                                          s.eval_lengths);
  f("layers", s.layers)("width", s.width)("heads", s.heads);
  f.seeds("seeds", s.seeds)("steps", s.steps)("batch", s.batch)("learning_rate",
                                                                s.learning_rate);
  f("eval_segments", s.eval_segments)("device", s.device);
  f.optional("rates", s.rates)("position_rate", s.position_rate);
  f.optional("micro_batches", s.micro_batches).optional("finetune", s.finetune);
  f.optional("drop_position", s.drop_position).optional("model", s.model);
  f.optional("ponder_cost", s.ponder_cost);
}
void describe(auto& f, Protocol& s) { f("sha256", s.sha256); }
void describe(auto& f, StoredSettings& s) {
  f("settings", s.settings)("fingerprint", s.fingerprint).optional("command", s.command);
  f.optional("gnomon", s.gnomon).optional("format", s.format).optional("protocol", s.protocol);
}

void describe(auto& f, LengthLoss& s) {
  f("length", s.length)("applicable", s.applicable);
  if (!s.applicable) return;
  f("tail_bits", s.tail_bits)("window_bits", s.window_bits)("accuracy", s.accuracy);
  f("windows", s.windows)("tail_by_segment", s.tail_by_segment).optional("steps", s.steps);
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
  f.optional("scores", s.scores).optional("seconds", s.seconds).optional("sources", s.sources);
  f.optional("steps", s.steps);
}
void describe(auto& f, ExtensionMethod& s) {
  f("method", s.method)("tune_length", s.tune_length)("specification", s.specification);
  f("without", s.without)("after", s.after);
  f.optional("without_by_segment", s.without_by_segment);
  f.optional("after_by_segment", s.after_by_segment);
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
  f.optional("format", s.format).optional("trainer", s.trainer);
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

void describe(auto& f, SweptRate& s) {
  f("encoding", s.encoding)("learning_rate", s.learning_rate);
  f("validation_bits", s.validation_bits);
}
void describe(auto& f, LeftOut& s) { f("name", s.name)("reason", s.reason); }

}  // namespace gnomon::lab
