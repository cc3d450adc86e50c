// Small checkpoints for the tests of commands on weights.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gnomon/io/safetensors.h"
#include "io/temporary.h"
#include "program.h"
#include "testing.h"

namespace gnomon::cli {

// `count` bytes that differ from row to row.
inline std::string pattern(std::size_t count, unsigned seed = 1) {
  std::string bytes(count, '\0');
  std::mt19937 engine(seed);
  for (char& c : bytes) c = static_cast<char>(engine());
  return bytes;
}

// One tensor of any dtype, contents by `seed`.
struct Piece {
  std::string name, dtype;
  io::Array::Shape shape;
  std::size_t element_bytes;
};

// A `.safetensors` file, written directly in the format.
inline std::string safetensors(const std::vector<Piece>& pieces,
                               const std::string& metadata = "", unsigned seed = 1) {
  std::string header = "{", data;
  if (!metadata.empty()) header += "\"__metadata__\":" + metadata;
  for (const Piece& piece : pieces) {
    std::size_t bytes = piece.element_bytes;
    for (const std::int64_t extent : piece.shape) bytes *= static_cast<std::size_t>(extent);
    if (header.size() > 1) header += ",";
    header += nlohmann::json(piece.name).dump() + ":{\"dtype\":\"" + piece.dtype +
              "\",\"shape\":" + nlohmann::json(piece.shape).dump() + ",\"data_offsets\":[" +
              std::to_string(data.size()) + "," + std::to_string(data.size() + bytes) + "]}";
    data += pattern(bytes, seed++);
  }
  header += "}";
  header.append((8 - header.size() % 8) % 8, ' ');
  std::string file(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) file[i] = static_cast<char>(header.size() >> (8 * i));
  return file + header + data;
}

// The attention of a layer of Llama: 4 heads of 8, 2 of keys, width 16.
inline std::vector<Piece> llama_layer(int layer, const std::string& dtype = "BF16",
                                      std::size_t bytes = 2) {
  const std::string prefix = "model.layers." + std::to_string(layer) + ".self_attn.";
  return {{prefix + "q_proj.weight", dtype, {32, 16}, bytes},
          {prefix + "k_proj.weight", dtype, {16, 16}, bytes},
          {prefix + "v_proj.weight", dtype, {16, 16}, bytes},
          {prefix + "o_proj.weight", dtype, {16, 32}, bytes}};
}
inline const char* const llama_config =
    R"({"model_type": "llama", "num_attention_heads": 4, "num_key_value_heads": 2,
        "hidden_size": 32, "num_hidden_layers": 2, "max_position_embeddings": 64,
        "rope_theta": 10000.0})";

// A folder for models and converted models.
class ConvertProgram : public InFolder {
 protected:
  // A model of two shards, with an index and companion files.
  void put_model(const std::string& folder) const {
    std::filesystem::create_directory(file(folder));
    testing::put(file(folder + "/config.json"), llama_config);
    testing::put(file(folder + "/tokenizer.json"), "{}");
    testing::put(file(folder + "/pytorch_model.bin"), "other weights");
    testing::put(file(folder + "/.hidden"), "");
    std::filesystem::create_directory(file(folder + "/original"));
    nlohmann::json map;
    for (int shard = 0; shard < 2; ++shard) {
      const auto pieces = llama_layer(shard);
      testing::put(file(folder + "/" + shard_name(shard)),
                   safetensors(pieces, R"({"format":"pt"})"));
      for (const Piece& piece : pieces) map[piece.name] = shard_name(shard);
    }
    put_index(folder, map);
  }
  // All tensors of Llama with one layer, and a vocabulary that makes the file large: 300 KB.
  void put_llama(const std::string& folder) const {
    const std::string layer = "model.layers.0.";
    std::vector<Piece> pieces = llama_layer(0);
    for (Piece& piece : pieces) piece.shape[piece.name.ends_with("o_proj.weight") ? 0 : 1] = 32;
    for (const std::string& norm : {std::string("model.norm"), layer + "input_layernorm",
                                    layer + "post_attention_layernorm"})
      pieces.push_back({norm + ".weight", "BF16", {32}, 2});
    for (const char* name : {"gate_proj", "up_proj"})
      pieces.push_back({layer + "mlp." + name + ".weight", "BF16", {48, 32}, 2});
    pieces.push_back({layer + "mlp.down_proj.weight", "BF16", {32, 48}, 2});
    pieces.push_back({"model.embed_tokens.weight", "BF16", {4000, 32}, 2});
    std::filesystem::create_directory(file(folder));
    testing::put(file(folder + "/model.safetensors"), safetensors(pieces));
    auto config = nlohmann::json::parse(llama_config);
    config["num_hidden_layers"] = 1;
    config["vocab_size"] = 4000;
    config["rms_norm_eps"] = 1e-6;
    config["tie_word_embeddings"] = true;
    testing::put(file(folder + "/config.json"), config.dump());
  }
  void put_index(const std::string& folder, const nlohmann::json& map) const {
    testing::put(
        file(folder + "/model.safetensors.index.json"),
        nlohmann::json({{"metadata", {{"total_size", 4096}}}, {"weight_map", map}}).dump(2));
  }
  static std::string shard_name(int shard) {
    return "model-0000" + std::to_string(shard + 1) + "-of-00002.safetensors";
  }
};

}  // namespace gnomon::cli
