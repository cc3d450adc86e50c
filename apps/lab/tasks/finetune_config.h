// The models of --finetune: folders in the format of Hugging Face, with config.json and
// model.safetensors (or its shards). The position encodings come from the reader of the library
// (gnomon/model/config.h), never from keys that are read here. A method of --extend edits
// config.json as transformers writes it, and the reader reads the edited file, so the saved
// folder has exactly the encoding that was tested.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "apps/lab/data/settings.h"
#include "apps/lab/data/task.h"
#include "apps/lab/model/candidate.h"
#include "gnomon/model/description.h"
#include "gnomon/model/scheme.h"

namespace gnomon::lab::finetune {

enum class Layout { llama = 1, gpt2, bert };  // Mistral and Qwen2 have the layout of Llama
enum class Activation { silu = 1, gelu, gelu_tanh, relu };  // of the feed-forward layers

struct Config {
  Json json;  // as in the file
  model::ModelDescription description;
  model::Scheme scheme;  // encodings of the layers
  Layout layout = {};
  Activation activation = {};
  std::int64_t vocabulary = 0, width = 0, inner = 0;  // inner: width of the feed-forward layers
  std::int64_t token_types = 0;                       // BERT
  double norm_epsilon = 0;
  bool tied = false;  // the head is the embedding
  // Llama: of q, k and v, of the projection after attention, and of the feed-forward layers.
  bool attention_bias = false, output_bias = false, feed_bias = false;

  std::int64_t length() const { return description.length; }  // trained context, in tokens
  bool masked() const { return layout == Layout::bert; }
};

// Throws std::invalid_argument, with the file and the reason, if the text is not a config of
// one of the layouts, or if it has a feature that this program does not compute.
Config parse_config(const Json& json, const std::string& name);
Config read_config(const std::filesystem::path& folder);

// The config for a context `factor` times as long, by a method of --extend. The keys are those
// that transformers reads: rope_parameters if the config has it, else rope_scaling. Throws
// std::invalid_argument unless all layers have a plain rotary encoding.
Config extended(const Config& config, const std::string& method, std::int64_t factor);

// An entry that is compared: "released", "yarn"; and "yarn@tuned" after the fine-tune.
struct Entry {
  std::string method;  // --extend method, or "released"
  bool tuned = false;
};
Entry parse_entry(const std::string& name);
std::vector<std::string> entries(const std::vector<std::string>& methods);
// The texts of an entry for the report. `specification`: that of its runs. The folder of the
// model need not exist any more.
Candidate describe_entry(const std::string& name, const Settings& settings,
                         const Json& specification);

// Reads the model and tokenizes the texts. Throws std::invalid_argument if the model cannot be
// read, or if the parts have fewer tokens than the longest window.
void add_data(const Settings& settings, Corpus& corpus);

// Sets the task, sizes, and the training length if it is 0. Returns the defaults of options.
TaskDefaults take_sizes(Settings& settings, const Config& config);
// Throws std::invalid_argument if the settings do not fit to the model.
void check(const Settings& settings, const Config& config);

}  // namespace gnomon::lab::finetune
