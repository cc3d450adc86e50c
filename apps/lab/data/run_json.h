// JSON of settings, runs and measured costs. docs/lab/results.md describes the keys.
#pragma once

#include "apps/lab/data/json_fields.h"
#include "apps/lab/data/run_result.h"

namespace gnomon::lab {

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

// The keys, for json_fields.h.
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
  f.optional("scores", s.scores).optional("seconds", s.seconds).optional("sources", s.sources);
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
