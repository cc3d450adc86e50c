// Each group of every known family and of every released config is lowered, or refused with a
// text that names the missing feature.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "gnomon/error.h"
#include "gnomon/model/config.h"
#include "gnomon/model/layer.h"
#include "testing.h"

namespace gnomon::model {
namespace layer_families_test {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using testing::message_of;

// Matrices of zeros for any parameters.
class Zeros {
 public:
  std::vector<View<const float, 2>> of(const std::vector<Parameter>& parameters) {
    std::vector<View<const float, 2>> all;
    for (const Parameter& one : parameters)
      numbers_.resize(
          std::max(numbers_.size(), static_cast<std::size_t>(one.rows * one.columns)));
    for (const Parameter& one : parameters)
      all.emplace_back(numbers_.data(), std::array<std::ptrdiff_t, 2>{one.rows, one.columns});
    return all;
  }

 private:
  std::vector<float> numbers_;
};

struct Count {
  int lowered = 0, refused = 0;
};

void lower_groups(const ModelDescription& model, Zeros& zeros, Count& count) {
  const Positions positions = consecutive(7);
  for (const LayerGroup& group : model.groups) {
    SCOPED_TRACE(model.model_type + " " + names(group.position));
    if (group.head_dim == 0) continue;  // layers without attention
    EXPECT_GT(group.heads, 0);
    EXPECT_GT(group.key_heads, 0);
    EXPECT_GT(group.attention.softmax_scale, 0);
    LayerTokens tokens;
    if (model.image)
      tokens.image = ImagePatches{1, 2, 2};
    else
      tokens.queries = {&positions, 1};
    const auto parameters = layer_parameters(group);
    for (const Parameter& one : parameters)
      EXPECT_TRUE(std::any_of(group.tensors.begin(), group.tensors.end(),
                              [&](const ParameterTensor& tensor) {
                                return tensor.parameter == one.name;
                              }) ||
                  !group.unsupported.empty())
          << "no tensor is named for " << one.name;
    const std::int64_t layer = group.layers.front();
    if (!group.unsupported.empty()) {
      const std::string says = message_of(
          [&] { lower_layer(model, layer, group.part, tokens, zeros.of(parameters)); });
      EXPECT_NE(says.find(group.unsupported), std::string::npos) << says;
      ++count.refused;
      continue;
    }
    const LayerPlan lowered =
        lower_layer(model, layer, group.part, tokens, zeros.of(parameters));
    EXPECT_GT(lowered.softmax.scale.value_or(lowered.softmax.factor), 0);
    // Each encoding of the mixture has a part in the plan.
    for (const Encoding& one : group.position) {
      const Place place = info(one).enters;
      if (includes(place, Place::embeddings)) {
        EXPECT_TRUE(lowered.table.has_value());
      }
      if (includes(place, Place::queries_and_keys)) {
        EXPECT_TRUE(lowered.query_rotary || !lowered.query_rotations.empty() ||
                    lowered.hidden_rotary);
      }
      if (includes(place, Place::scores)) {
        EXPECT_FALSE(std::holds_alternative<NoBias>(lowered.bias));
      }
      if (includes(place, Place::keys_and_values)) {
        EXPECT_FALSE(lowered.relative.empty());
      }
    }
    ++count.lowered;
  }
}

TEST(LayerFamilies, AllAreLoweredOrRefusedByName) {
  Zeros zeros;
  Count count;
  int read = 0;
  for (const FamilyInfo& family : families()) {
    // The defaults of its class, or a small model if they are unknown.
    const Json small = {{"num_hidden_layers", 4},
                        {"hidden_size", 64},
                        {"num_attention_heads", 4},
                        {"d_model", 64},
                        {"encoder_layers", 2},
                        {"decoder_layers", 2},
                        {"encoder_attention_heads", 4},
                        {"num_layers", 2},
                        {"num_heads", 4},
                        {"max_position_embeddings", 64}};
    for (const bool whole : {true, false}) {
      Json config = whole ? Json::object() : small;
      config["model_type"] = family.model_type;
      ModelDescription model;
      try {
        model = read_config(config.dump());
      } catch (const FormatError&) {
        continue;
      }
      ++read;
      lower_groups(model, zeros, count);
      break;
    }
  }
  EXPECT_GT(read, 340);
  EXPECT_GT(count.lowered, 320);
  std::cout << read << " families: " << count.lowered << " groups lowered, " << count.refused
            << " refused\n";
}

TEST(LayerFamilies, ReleasedConfigsAreLoweredOrRefusedByName) {
  Zeros zeros;
  Count count;
  const fs::path folder = fs::path(GNOMON_SOURCE_DIR) / "tests/model/released";
  for (const auto& entry : fs::directory_iterator(folder)) {
    SCOPED_TRACE(entry.path());
    const Json sample = Json::parse(std::ifstream(entry.path()));
    lower_groups(read_config(sample["config"].dump(), {.part = sample.value("part", "")}),
                 zeros, count);
  }
  EXPECT_GT(count.lowered, 200);
  std::cout << count.lowered << " groups lowered, " << count.refused << " refused\n";
}

}  // namespace layer_families_test
}  // namespace gnomon::model
