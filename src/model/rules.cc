#include "src/model/rules.h"

namespace gnomon::model::internal {

std::string_view layers_of(const Family& family) {
  static constexpr struct {
    void (*read)(Reading&);
    std::string_view text;
  } known[] = {
      {afmoe, "sliding layers rotate, full layers do not"},
      {bailing_hybrid, "the last layer of each group has attention"},
      {bamba, "attention in some layers"},
      {cohere2, "sliding layers rotate, full layers do not"},
      {deepseek_v4, "one base for sliding layers, another for the others"},
      {dots3, "sliding layers have other heads and another base"},
      {embedding_gemma2, "full layers have wider heads; one base per layer type"},
      {exaone4, "with a window, only sliding layers rotate"},
      {gemma3, "another base for sliding layers; only full layers are scaled"},
      {gemma3n, "another base for sliding layers; only full layers are scaled"},
      {gemma4, "full layers have wider heads, a quarter of which rotates"},
      {granite_by_layer, "one base per layer"},
      {granite_hybrid, "attention in some layers"},
      {jamba, "attention in some layers"},
      {kimi_linear, "attention in some layers"},
      {laguna, "base, rotated share and number of heads differ by layer"},
      {latent_unscaled, "one layer in four does not rotate"},
      {lfm2, "attention in some layers"},
      {gemma4_vision, "each layer rotates twice, half of the head each time"},
      {lfm3, "attention in some layers; one base for sliding layers"},
      {lfm3_vision, "attention in some layers"},
      {llama4, "one layer in four does not rotate, and has a query temperature"},
      {mimo, "another base for sliding layers"},
      {minimax, "attention in some layers"},
      {mllama, "cross-attention layers (image) do not rotate"},
      {modernbert, "another base for sliding layers"},
      {muse, "one layer in four is full and does not rotate"},
      {nemotron_h, "attention in some layers"},
      {olmo3, "only full layers are scaled"},
      {qwen3_5, "attention in one layer of four"},
      {qwen3_next, "attention in one layer of four"},
      {recurrent_gemma, "attention in one layer of three"},
      {sam, "a window in most layers, the whole image in some"},
      {sam3, "a window in most layers, the whole image in some"},
      {smollm3, "one layer in four does not rotate"},
      {step3, "base and rotated share per layer"},
      {zamba2, "attention in some layers"},
  };
  for (const auto& [read, text] : known)
    if (read == family.read) return text;
  return {};
}

}  // namespace gnomon::model::internal
