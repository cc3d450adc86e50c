#include "apps/lab/data/run_json.h"

#include "apps/lab/data/json_fields.h"

namespace gnomon::lab {

void describe(auto& f, EntryRate& s) {
  f("encoding", s.encoding)("learning_rate", s.learning_rate);
}
void keys(auto& f, Settings& s) {
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
void keys(auto& f, Protocol& s) { f("sha256", s.sha256); }
void keys(auto& f, StoredSettings& s) {
  f("settings", s.settings)("fingerprint", s.fingerprint).optional("command", s.command);
  f.optional("gnomon", s.gnomon).optional("format", s.format).optional("protocol", s.protocol);
}

void describe(auto& f, LengthLoss& s) {
  f("length", s.length)("applicable", s.applicable);
  if (!s.applicable) return;
  f("tail_bits", s.tail_bits)("window_bits", s.window_bits)("accuracy", s.accuracy);
  f("windows", s.windows)("tail_by_segment", s.tail_by_segment);
}
void keys(auto& f, ModelConfig& s) {
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
void keys(auto& f, RunResult& s) {
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
void keys(auto& f, MemoryUse& s) {
  f("tokens", s.tokens)("bytes", s.bytes)("spread", s.spread);
  f.optional("extra_bytes", s.extra_bytes);
}
void keys(auto& f, RelativeTime& s) { f("median", s.median)("low", s.low)("high", s.high); }
void keys(auto& f, MeasuredCost& s) {
  f("encoding", s.encoding)("memory", s.memory).optional("step_seconds", s.step_seconds);
  f.optional("relative_step", s.relative_step);
}

void keys(auto& f, SweptRate& s) {
  f("encoding", s.encoding)("learning_rate", s.learning_rate);
  f("validation_bits", s.validation_bits);
}
void keys(auto& f, LeftOut& s) { f("name", s.name)("reason", s.reason); }

void describe(Writer& writer, Settings& one) { keys(writer, one); }
void describe(Reader& reader, Settings& one) { keys(reader, one); }
void describe(Writer& writer, Protocol& one) { keys(writer, one); }
void describe(Reader& reader, Protocol& one) { keys(reader, one); }
void describe(Writer& writer, StoredSettings& one) { keys(writer, one); }
void describe(Reader& reader, StoredSettings& one) { keys(reader, one); }
void describe(Writer& writer, RunResult& one) { keys(writer, one); }
void describe(Reader& reader, RunResult& one) { keys(reader, one); }
void describe(Writer& writer, MeasuredCost& one) { keys(writer, one); }
void describe(Reader& reader, MeasuredCost& one) { keys(reader, one); }
void describe(Writer& writer, MemoryUse& one) { keys(writer, one); }
void describe(Reader& reader, MemoryUse& one) { keys(reader, one); }
void describe(Writer& writer, RelativeTime& one) { keys(writer, one); }
void describe(Reader& reader, RelativeTime& one) { keys(reader, one); }
void describe(Writer& writer, ModelConfig& one) { keys(writer, one); }
void describe(Reader& reader, ModelConfig& one) { keys(reader, one); }
void describe(Writer& writer, LeftOut& one) { keys(writer, one); }
void describe(Reader& reader, LeftOut& one) { keys(reader, one); }
void describe(Writer& writer, SweptRate& one) { keys(writer, one); }
void describe(Reader& reader, SweptRate& one) { keys(reader, one); }

Json to_json(const Settings& settings) { return Writer::written(settings); }
Json to_json(const StoredSettings& stored) { return Writer::written(stored); }
Json to_json(const RunResult& run) { return Writer::written(run); }
Json to_json(const std::vector<MeasuredCost>& costs) { return Writer::written(costs); }
Json to_json(const std::vector<SweptRate>& swept) { return Writer::written(swept); }
Json to_json(const ModelConfig& config) { return Writer::written(config); }
Json to_json(const LengthLoss& loss) { return Writer::written(loss); }
Json to_json(const Stretch& stretch) { return Writer::written(stretch); }

}  // namespace gnomon::lab
