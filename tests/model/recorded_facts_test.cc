// The facts of all families of models and all GGUF architectures, compared with a recording
// (tests/model/recorded/). A change of a fact is a change of the recording in the same commit.
//
// Each family is read with several configs: its defaults, other sizes, and keys that only some
// families use. The recording has the description of the default config as text, and a hash of
// the text of each other config. GNOMON_RECORD=FOLDER writes the recordings into FOLDER, and
// the texts of all configs into FOLDER/all.txt.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "gnomon/model/config.h"
#include "gnomon/model/conversion.h"
#include "gnomon/model/gguf_model.h"
#include "model/gguf_model.h"
#include "model/hash.h"
#include "src/model/families/family.h"

namespace gnomon::model {
namespace recorded_facts_test {

using testing::hash;

const std::string folder = GNOMON_SOURCE_DIR "/tests/model/recorded/";

template <typename T>
void put(std::ostream& out, const char* name, const std::optional<T>& value) {
  if (value) out << " " << name << " " << *value;
}

void put(std::ostream& out, const char* name, const HeadNorm& norm) {
  out << " " << name << " " << static_cast<int>(norm.kind) << " "
      << static_cast<int>(norm.scope) << " " << norm.epsilon << " " << norm.weight_offset;
  if (norm.limit != 0) out << " limit " << norm.limit;
}

// "0-2 4 6-7"
std::string ranges(const std::vector<std::int64_t>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += " " + std::to_string(numbers[i]);
    if (last > i) text += "-" + std::to_string(numbers[last]);
    i = last;
  }
  return text;
}

std::string text_of(const LayerGroup& group) {
  std::ostringstream out;
  out.precision(17);
  const LayerAttention& a = group.attention;
  out << "  " << group.part << ranges(group.layers) << ": heads " << group.heads << " "
      << group.key_heads << " dims " << group.head_dim << " " << group.value_dim << " scale "
      << a.softmax_scale << (a.visibility == Visibility::causal ? "" : " bidirectional");
  put(out, "left", a.left);
  put(out, "right", a.right);
  put(out, "chunk", a.chunk);
  put(out, "softcap", a.softcap);
  if (a.partition)
    out << " windows " << a.partition->height << " " << a.partition->width << " "
        << a.partition->shift;
  if (a.sinks != Sinks::none) out << " sinks";
  if (a.sinks == Sinks::per_query) out << " of queries " << a.sink_inputs;
  if (a.convolution)
    out << " convolution " << a.convolution->taps << " "
        << static_cast<int>(a.convolution->weights) << " " << a.convolution->scale;
  for (const auto& [norm, name] :
       {std::pair(a.query_norm, "query_norm"), std::pair(a.key_norm, "key_norm")})
    if (norm) {
      put(out, name, norm->norm);
      out << " order " << static_cast<int>(norm->order);
    }
  if (a.value_norm) put(out, "value_norm", *a.value_norm);
  if (a.value_scale != 1) out << " value_scale " << a.value_scale;
  if (a.query_scale)
    out << " query_scale " << a.query_scale->beta << " " << a.query_scale->length << " "
        << a.query_scale->shift;
  if (a.query_scale && a.query_scale->form != TemperatureForm::floored_log)
    out << " form " << static_cast<int>(a.query_scale->form);
  if (a.output_gate != OutputGate::none) out << " gate " << static_cast<int>(a.output_gate);
  if (a.frequency_scale != FrequencyScale::none) out << " learned frequencies";
  if (a.head_pairs != HeadPairs::none) out << " differential";
  put(out, "indexed", a.indexed_keys);
  if (a.query_scale_index != ScaleIndex::position) out << " by row";
  if (a.rotary_input != RotaryInput::queries_and_keys) out << " rotates hidden";
  if (a.table_input != TableInput::embeddings) out << " table in layers";
  if (a.values == ValueSource::keys) out << " values keys";
  if (a.output == OutputRotation::inverse) out << " output inverse";
  if (a.compression)
    out << " compression " << a.compression->keys.rate << " " << a.compression->keys.series
        << " " << a.compression->keys.epsilon << " index " << a.compression->index_heads << " "
        << a.compression->index_dim << " " << a.compression->selected;
  if (!group.stages.empty()) out << " stages" << ranges(group.stages);
  if (!group.unsupported.empty()) out << "\n    unsupported: " << group.unsupported;
  for (const Encoding& one : group.position) out << "\n    " << to_json(one);
  if (group.tensors.empty()) return out.str();
  std::string tensors;
  for (const ParameterTensor& one : group.tensors)
    tensors += one.parameter + " " + std::to_string(static_cast<int>(one.layout)) + " " +
               one.name + "\n";
  return out.str() + "\n    tensors " + hash(tensors);
}

std::string text_of(const ModelDescription& model) {
  std::ostringstream out;
  out << "  " << model.model_type << " layers " << model.layers << " length " << model.length
      << " width " << model.width << "\n";
  for (const LayerGroup& group : model.groups) out << text_of(group) << "\n";
  if (model.image) {
    const ImageTokens& i = *model.image;
    out << "  image " << static_cast<int>(i.order) << " " << static_cast<int>(i.origin) << " "
        << i.merge << " " << i.first_tokens << " " << i.last_tokens << " " << i.frames;
    if (i.table)
      out << " table " << i.table->height << " " << i.table->width << " resize "
          << static_cast<int>(i.resize.kernel) << " " << static_cast<int>(i.resize.corners)
          << " " << static_cast<int>(i.resize.antialias) << " " << i.resize.extra_rows << " "
          << i.resize.size_offset;
    out << "\n";
  }
  for (const std::string& note : model.notes) out << "  note: " << note << "\n";
  return out.str();
}

std::string text_or_error(const std::function<std::string()>& make) {
  try {
    return make();
  } catch (const std::exception& error) {
    return std::string("  error: ") + error.what() + "\n";
  }
}

const std::string sizes =
    R"("num_hidden_layers": 12, "num_layers": 6, "decoder_layers": 6, "encoder_layers": 6,
"num_decoder_layers": 6, "decoder_num_hidden_layers": 6, "encoder_num_hidden_layers": 6,
"num_attention_heads": 8, "num_heads": 8, "encoder_attention_heads": 8,
"decoder_num_attention_heads": 8, "hidden_size": 512, "d_model": 512, "head_dim": 64,
"max_position_embeddings": 4096)";
const std::string types =
    R"("layer_types": ["full_attention", "sliding_attention", "full_attention",
"sliding_attention", "full_attention", "sliding_attention", "full_attention",
"sliding_attention", "full_attention", "sliding_attention", "full_attention",
"sliding_attention"])";

const std::string factors =
    "[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, "
    "2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2]";

// Members of a config besides model_type.
const std::vector<std::string> variants = {
    sizes,
    sizes + R"(, "sliding_window": 64, "attention_window_size": 60, "local_attention": 62,
"window_size": 6, "use_sliding_window": true, "max_window_layers": 4)",
    sizes + R"(, "sliding_window": 64, "use_sliding_window": false, "is_decoder": true)",
    sizes + R"(, "partial_rotary_factor": 0.5, "rotary_pct": 0.25, "rotary_dim": 16,
"rope_interleave": false)",
    sizes + R"(, "partial_rotary_factor": 0.359375, "rotary_pct": 0.265625)",
    sizes + R"(, "use_qk_norm": true, "qk_layernorm": true, "rms_norm_eps": 1e-4,
"layer_norm_eps": 1e-3)",
    sizes + R"(, "use_qk_norm": false, "num_key_value_heads": null, "sliding_window": null,
"attn_logit_softcapping": null, "attention_chunk_size": null, "attention_value_scale": null)",
    sizes + R"(, "num_key_value_heads": 2, "n_head_kv": 4, "v_head_dim": 32,
"attn_logit_softcapping": 30, "swa_num_key_value_heads": 1, "num_global_key_value_heads": 1,
"swa_v_head_dim": 16, )" +
        types,
    sizes + R"(, "rope_theta": 5000, "rope_scaling": {"rope_type": "yarn", "factor": 4,
"original_max_position_embeddings": 1024, "mscale_all_dim": 0.7})",
    sizes + R"(, "rope_parameters": {"rope_type": "default", "rope_theta": 7000,
"partial_rotary_factor": 0.25, "mrope_section": [4, 2, 2]})",
    sizes + R"(, "use_bidirectional_attention": true, "sliding_window": 64,
"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 7000},
"sliding_attention": {"rope_type": "default", "rope_theta": 70}}, )" +
        types,
    sizes + R"(, "alibi": true, "position_embedding_type": "relative_key", "attn_type": "uni",
"multi_query": false, "is_native": true, "relative_attention": true,
"pos_att_type": ["c2p", "p2c"])",
    sizes + R"(, "position_embedding_type": "rotary", "position_embeddings_type": "rotary",
"new_decoder_architecture": true, "multi_query_attention": true, "num_kv_heads": 2,
"multi_query_group_num": 2, "prefix_lm": true, "rotary_value": true)",
    sizes + R"(, "image_size": 64, "patch_size": 8, "num_register_tokens": 4,
"spatial_merge_size": 4, "num_position_embeddings": 81, "layer_types": null,
"use_relative_position_bias": true, "use_absolute_position_embeddings": true)",
    R"("depth": 3, "num_heads": 4, "embed_dim": 64, "hidden_size": 96, "attention_heads": 6,
"num_attention_heads": 4, "num_hidden_layers": 5, "per_layer_config":
{"1": {"num_attention_heads": 6}}, "no_rope_layers": [1, 0, 1, 0, 1], "clip_qkv": 3)",
    R"("num_hidden_layers": 2, "num_attention_heads": 7, "hidden_size": 100)",
    sizes + R"(, "rope_scaling": {"type": "yarn", "original_max_position_embeddings": 1024,
"short_factor": [1, 1, 1, 1], "long_factor": [2, 2, 2, 3]}, "partial_rotary_factor": 0.125)",
    sizes + R"(, "rope_scaling": {"type": "su", "original_max_position_embeddings": 1024,
"short_factor": )" +
        factors + R"(, "long_factor": )" + factors + "}",
};

std::string config(const std::string& model_type, const std::string& members) {
  return R"({"model_type": ")" + model_type + "\"" + (members.empty() ? "" : ", " + members) +
         "}";
}

std::string read(const std::string& model_type, const std::string& members) {
  return text_or_error([&] { return text_of(read_config(config(model_type, members))); });
}

std::string layout_of(const std::string& model_type) {
  return text_or_error([&] {
    std::ostringstream out;
    const WeightLayout layout = projection_layout(model_type);
    out << "  weights " << static_cast<int>(layout.fused) << " "
        << static_cast<int>(layout.query) << " " << static_cast<int>(layout.outputs) << "\n";
    weight_layout(model_type);
    return out.str();
  });
}

const std::vector<std::string> part_names = {"text_config",
                                             "vision_config",
                                             "audio_config",
                                             "audio_video_config",
                                             "backbone_config",
                                             "decoder",
                                             "decoder_config",
                                             "depth_decoder_config",
                                             "detector_config",
                                             "diarization_config",
                                             "dit_config",
                                             "encoder",
                                             "encoder_config",
                                             "esmc_config",
                                             "fov_model_config",
                                             "global_config",
                                             "high_res_vision_config",
                                             "image_config",
                                             "image_model_config",
                                             "patch_model_config",
                                             "patcher_config",
                                             "qformer_config",
                                             "sam_config",
                                             "semantic_model_config",
                                             "talker_config",
                                             "thinker_config",
                                             "token2wav_config",
                                             "tracker_config",
                                             "video_config",
                                             "vlm_config",
                                             "llm_config",
                                             "language_config"};

// The types that a whole gives to its parts, and what it changes in its language model.
std::string parts_of(const std::string& model_type) {
  std::string text;
  for (const std::string& name : part_names) {
    const std::string whole =
        R"({"model_type": ")" + model_type + R"(", ")" + name + "\": {" + sizes +
        (name == "decoder" || name == "encoder" ? R"(, "model_type": ")" + model_type + "\"}}"
                                                : "}}");
    ConfigOptions options;
    options.part = name;
    options.assume_pairing = {};
    std::string type;
    try {
      type = read_config(whole, options).model_type;
    } catch (const std::exception& error) {
      type = "?";
      const std::string why = error.what();
      const auto at = why.find("model_type ");
      if (at != why.npos) type = why.substr(at + 11, why.find(' ', at + 11) - at - 11) + "?";
    }
    if (type != "unknown?" && type != model_type + "?" && type != model_type)
      text += " " + name + "=" + type;
  }
  const std::string language =
      R"({"model_type": ")" + model_type + R"(", "text_config": {)" + sizes + "}}";
  return "  parts" + text + "\n  whole " +
         hash(text_or_error([&] { return text_of(read_config(language)); })) + "\n";
}

std::string gguf(const std::string& architecture, int variant) {
  Sizes small{.layers = 12, .heads = 8, .width = 512, .length = 4096};
  if (variant == 1) small.layers = 46;
  if (variant == 2) small.layers = 62;
  if (variant == 3) small.heads = 40, small.width = 5120;
  Model model(architecture, small);
  const std::vector<std::int32_t> sections = {8, 12, 12, 0};
  if (variant != 0) model.integers(".rope.dimension_sections", sections);
  if (const auto* row = internal::find_architecture(architecture); row && variant != 9) {
    const internal::GgufSliding& sliding = row->gguf.sliding;
    if (sliding.size == internal::by_file && variant != 4 && variant != 5)
      model.size(".attention.sliding_window", 96);
    if (sliding.every == internal::by_file)
      model.integers(".attention.sliding_window_pattern",
                     std::vector<std::int32_t>(small.layers, 1));
  }
  if (variant == 4)
    model.size(".attention.sliding_window", 64).size(".attention.head_count_kv", 4);
  if (variant == 5) {
    model.size(".attention.sliding_window", 64);
    if (model.file().find("sliding_window_pattern") == std::string::npos)
      model.size(".attention.sliding_window_pattern", 3);
    model.number(".attn_logit_softcapping", 20).number(".rope.freq_base_swa", 500);
  }
  const auto floats = [](std::size_t count) { return std::vector<float>(count, 1.0f); };
  if (variant == 6) {
    model.factors("blk.0.attn_q_norm.weight", floats(64));
    model.factors("blk.0.attn_sinks.weight", floats(8));
  }
  if (variant == 7) {
    model.factors("blk.0.attn_q_norm.weight", floats(512));
    model.number(".attention.max_alibi_bias", 4);
  }
  if (variant == 8) {
    model.word(".rope.scaling.type", "yarn").number(".rope.scaling.factor", 4);
    model.number(".rope.scaling.yarn_log_multiplier", 0.05f);
    model.size(".rope.scaling.original_context_length", 1024);
    model.size(".attention.kv_lora_rank", 64).size(".rope.dimension_count", 32);
    model.size(".attention.value_length_mla", 32).size(".attention.chunk_size", 100);
  }
  if (variant == 9) {
    model.size(".attention.relative_buckets_count", 32);
    model.entry(model.key(".attention.causal"), testing::gguf_bool, std::string(1, '\1'));
    model.number(".attention.temperature_scale", 0.2f);
    model.booleans(".attention.sliding_window_pattern", {1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0});
    model.size(".attention.sliding_window", 128).size(".attention.key_length_swa", 32);
  }
  return text_or_error([&] {
    const std::string bytes = model.file();
    const Gguf file(std::as_bytes(std::span(bytes.data(), bytes.size())), "a.gguf");
    return text_of(read_gguf(file));
  });
}

// The sections of a recording: "== name", then lines.
using Recording = std::map<std::string, std::string>;

Recording read_recording(const std::string& name) {
  Recording recording;
  std::ifstream in(folder + name);
  std::string section;
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("== "))
      recording[section = line.substr(3)];
    else
      recording[section] += line + "\n";
  return recording;
}

// Compares, or writes the recording.
void compare(const std::string& name, const Recording& recording, const Recording& now) {
  if (const char* const to = std::getenv("GNOMON_RECORD")) {
    std::ofstream out(std::string(to) + "/" + name);
    for (const auto& [section, text] : now) out << "== " << section << "\n" << text;
    return;
  }
  for (const auto& [section, text] : recording) {
    const auto found = now.find(section);
    EXPECT_EQ(text, found == now.end() ? "" : found->second) << name << ": " << section;
  }
  for (const auto& [section, text] : now)
    EXPECT_TRUE(recording.contains(section))
        << name << " has no section for " << section
        << "; GNOMON_RECORD=tests/model/recorded records all";
}

std::ofstream all_texts() {
  const char* const to = std::getenv("GNOMON_RECORD");
  return to ? std::ofstream(std::string(to) + "/all.txt", std::ios::app) : std::ofstream();
}

TEST(RecordedFacts, OfEachFamily) {
  const Recording recording = read_recording("families.txt");
  std::set<std::string> names;  // also wholes, which are no families of their own
  for (const auto& [name, text] : recording) names.insert(name);
  for (const FamilyInfo& one : families()) names.insert(one.model_type);
  std::map<std::string, FamilyInfo> infos;
  for (const FamilyInfo& one : families()) infos[one.model_type] = one;
  std::ofstream all = all_texts();
  Recording now;
  for (const std::string& name : names) {
    std::string text;
    if (const auto info = infos.find(name); info != infos.end())
      text = "  " + info->second.position + " | " + info->second.base + " | " +
             info->second.rotated + " | " + info->second.head_dim + " | " +
             info->second.layers + "\n";
    text += layout_of(name) + parts_of(name) + read(name, "") + "  others";
    for (std::size_t i = 0; i < variants.size(); ++i) {
      const std::string other = read(name, variants[i]);
      text += " " + hash(other);
      if (all.is_open()) all << "== " << name << " " << i << "\n" << other;
    }
    now[name] = text + "\n";
  }
  compare("families.txt", recording, now);
}

TEST(RecordedFacts, OfEachArchitecture) {
  const Recording recording = read_recording("architectures.txt");
  std::set<std::string> names;  // also names that have no row
  for (const auto& [name, text] : recording) names.insert(name);
  for (const internal::Family& row : internal::all_families())
    if (!row.gguf.architecture.empty()) names.emplace(row.gguf.architecture);
  std::ofstream all = all_texts();
  Recording now;
  for (const std::string& name : names) {
    now[name] = gguf(name, 0) + "  others";
    for (int variant = 1; variant < 10; ++variant) {
      const std::string other = gguf(name, variant);
      now[name] += " " + hash(other);
      if (all.is_open()) all << "== gguf " << name << " " << variant << "\n" << other;
    }
    now[name] += "\n";
  }
  compare("architectures.txt", recording, now);
}

}  // namespace recorded_facts_test
}  // namespace gnomon::model
