// Reading rules of each family, taken from the code of the family.
#pragma once

#include "src/model/reading.h"

namespace gnomon::model::internal {

// Names of layers in `layer_types`.
constexpr const char* full = "full_attention";
constexpr const char* sliding = "sliding_attention";

// rules_rotary.cc: all layers rotate in the same way, or as a list defines.
void by_rotary_dim(Reading& r);  // GPT-J, CodeGen
void chatglm(Reading& r);
void dbrx(Reading& r);
void dia(Reading& r);
void falcon_h1(Reading& r);
void granite(Reading& r);
void laguna(Reading& r);
void llama4(Reading& r);
void minimax_m2(Reading& r);
void minimax_m3(Reading& r);
void ministral3(Reading& r);
void mllama(Reading& r);
void moonshine(Reading& r);
void nanochat(Reading& r);
void qwen1(Reading& r);
void smollm3(Reading& r);

// rules_sliding.cc: full attention in some layers, a sliding window in the others.
void afmoe(Reading& r);
void cohere2(Reading& r);
void exaone4(Reading& r);
void gemma2(Reading& r);
void gemma3(Reading& r);
void gemma3n(Reading& r);
void embedding_gemma2(Reading& r);
void gemma4(Reading& r);
void muse(Reading& r);
void granite_by_layer(Reading& r);
void lfm3(Reading& r);
void mimo(Reading& r);
void modernbert(Reading& r);
void olmo3(Reading& r);
void step3(Reading& r);

// rules_hybrid.cc: attention in some layers only.
void bamba(Reading& r);
void granite_hybrid(Reading& r);
void jamba(Reading& r);
void kimi_linear(Reading& r);
void lfm2(Reading& r);
void minimax(Reading& r);
void nemotron_h(Reading& r);
void qwen3_next(Reading& r);
void recurrent_gemma(Reading& r);
void zamba2(Reading& r);

// rules_latent.cc: multi-head latent attention, which rotates the last part of a head.
void latent(Reading& r);
void latent_unscaled(Reading& r);  // no mscale_all_dim in the softmax scale
void deepseek_v2(Reading& r);
void deepseek_v4(Reading& r);
void dots3(Reading& r);
void longcat(Reading& r);
void mistral4(Reading& r);
void bailing_hybrid(Reading& r);

// rules_mrope.cc: positions on several axes.
void qwen2_vl(Reading& r);
void qwen3_vl(Reading& r);
void qwen3_5(Reading& r);
void glm4v(Reading& r);
void ernie_vl(Reading& r);

// rules_tower.cc: image towers with a rotation over a grid.
void dinov3(Reading& r);
void gemma4_vision(Reading& r);
void inkling_vision(Reading& r);
void kimi_vision(Reading& r);
void lfm3_vision(Reading& r);
void llama4_tower(Reading& r);
void minimax_vision(Reading& r);
void muse_vision(Reading& r);
void pixtral(Reading& r);
void sam2_video(Reading& r);
void sam3(Reading& r);
void step_vision(Reading& r);
void tower(Reading& r);           // Qwen2-VL: rows, then columns
void tower_on_grid(Reading& r);   // GLM-4V: also a learned grid of the image's size
void tower_on_table(Reading& r);  // Qwen3-VL: also a grid of num_position_embeddings
void vjepa2(Reading& r);

// rules_vision.cc: image towers with tables and biases.
void beit(Reading& r);
void detr(Reading& r);
void image_grid(Reading& r);     // ViT: a learned grid, and rows for class tokens
void image_patches(Reading& r);  // SigLIP 2: a learned grid of num_patches
void largest_grid(Reading& r);
void mae(Reading& r);
void mllama_vision(Reading& r);
void perceiver(Reading& r);
void pix2struct_vision(Reading& r);
void sam(Reading& r);
void spectrogram(Reading& r);
void videomae(Reading& r);
void vivit(Reading& r);

// rules_other.cc: tables and biases.
void axial_learned(Reading& r);
void baichuan(Reading& r);
void bert(Reading& r);
void bloom(Reading& r);
void conformer(Reading& r);
void deberta(Reading& r);
void encoder_decoder(Reading& r);                // BART without an offset
void encoder_decoder_after_two(Reading& r);      // BART
void encoder_decoder_sinusoidal(Reading& r);     // Marian, Pegasus
void encoder_decoder_tensor2tensor(Reading& r);  // M2M-100, NLLB
void esm(Reading& r);
void falcon(Reading& r);
void gpt2(Reading& r);
void learned(Reading& r);
void learned_after_two(Reading& r);  // OPT
void mpnet(Reading& r);
void mpt(Reading& r);
void nowhere(Reading& r);
void layoutlm(Reading& r);
void speecht5(Reading& r);
void wavlm(Reading& r);
void roberta(Reading& r);
void sinusoidal(Reading& r);
void tensor2tensor_after_two(Reading& r);  // XGLM
void swin(Reading& r);
void t5(Reading& r);
void transformer_xl(Reading& r);
void unscaled_learned(Reading& r);  // GPT-Neo
void whisper(Reading& r);

// Differences between the layers of a family, in a few words. Empty: none.
std::string_view layers_of(const Family& family);

// Helpers shared by the rules.
// Cells of the training image of a tower, from image_size and patch_size.
struct Cells {
  std::int64_t height = 0, width = 0;
};
Cells image_cells(Reading& r);
// Returns the layers that attend to the whole image, from global_attn_indexes.
std::set<std::int64_t> image_layers(Reading& r, std::set<std::int64_t> otherwise);
// Reads the sizes of an image tower. Returns the width of its embeddings.
std::int64_t read_tower(Reading& r);
// Puts a table [rows, width] that is added to the embeddings of all layers.
void put_image_table(Reading& r, std::int64_t rows, std::int64_t width);
// Reads the sizes of a model with unlimited positions.
void read_sizes_without_length(Reading& r);
// Layers of an encoder and a decoder, which have separate keys.
struct Stacks {
  std::int64_t encoder, decoder;
};
Stacks read_stacks(Reading& r);
// Puts a table that is added to the embeddings of all layers of a part.
void put_learned(Reading& r, std::int64_t rows, std::int64_t offset, std::int64_t layers = -1,
                 const std::string& part = {});
void prepare(Reading& r);     // sizes and layer types
void read_heads(Reading& r);  // query heads of single layers; call after the types are read
// Sets the types of layers to type(layer), unless layer_types is given.
template <typename Type>
void type_layers(Reading& r, Type type) {
  if (r.keys.find({"layer_types"})) return;
  for (std::size_t l = 0; l < r.layers.size(); ++l) {
    r.layers[l].type = type(static_cast<std::int64_t>(l));
    r.layers[l].attends = !keeps_state(r.layers[l].type);
  }
}
// Every n-th layer has full attention, the others a sliding window.
void slide_all_but_every(Reading& r, std::int64_t n);
void set_nope_layers(Reading& r, std::string_view type);
void rotate_by_list(Reading& r, std::int64_t interval);  // no_rope_layers: 1: the layer rotates
// Returns the layer numbers of a list, counted from 0. The list counts from `first`.
std::vector<std::int64_t> layer_numbers(const Reading& r, const Json& list,
                                        std::string_view name, std::int64_t first = 0);
// Throws FormatError unless the list has an entry for each layer.
void require_length(const Reading& r, const Json& list, std::size_t size,
                    std::string_view name);
// Reads llama_4_scaling_beta, if given.
void read_temperature(Reading& r, const Json& dictionary);
bool has_ropes_by_type(Reading& r);  // rope_parameters is a dictionary of dictionaries

}  // namespace gnomon::model::internal
