#include "src/model/rules.h"

namespace gnomon::model::internal {

std::string_view layers_of(const Family& family) {
  static constexpr struct {
    void (*read)(Reading&);
    std::string_view text;
  } known[] = {
      {afmoe, "those that slide turn, full ones do not"},
      {bailing_hybrid, "the last of each group attends"},
      {bamba, "attention in some"},
      {cohere2, "those that slide turn, full ones do not"},
      {deepseek_v4, "a base for those that slide, one for the others"},
      {dots3, "those that slide have other heads and a base of their own"},
      {embedding_gemma2, "full ones have wider heads; a base for each"},
      {exaone4, "with a window, those that slide turn"},
      {gemma3, "a base for those that slide; the scaling is of the full ones"},
      {gemma3n, "a base for those that slide; the scaling is of the full ones"},
      {gemma4, "full ones have wider heads, of which a quarter turns"},
      {granite_by_layer, "a base for each"},
      {granite_hybrid, "attention in some"},
      {jamba, "attention in some"},
      {kimi_linear, "attention in some"},
      {laguna, "a base, a share and a number of heads for each"},
      {latent_unscaled, "one in four does not turn"},
      {lfm2, "attention in some"},
      {gemma4_vision, "each turns twice, by a half of the head"},
      {lfm3, "attention in some; a base for those that slide"},
      {lfm3_vision, "attention in some"},
      {llama4, "one in four does not turn, and has a query temperature"},
      {mimo, "a base for those that slide"},
      {minimax, "attention in some"},
      {mllama, "those that look at the image do not turn"},
      {modernbert, "a base for those that slide"},
      {muse, "one in four is full and does not turn"},
      {nemotron_h, "attention in some"},
      {olmo3, "the scaling is of the full ones"},
      {qwen3_5, "attention in one of four"},
      {qwen3_next, "attention in one of four"},
      {recurrent_gemma, "attention in one of three"},
      {sam, "a window in most, the whole image in some"},
      {sam3, "a window in most, the whole image in some"},
      {smollm3, "one in four does not turn"},
      {step3, "a base and a share for each"},
      {zamba2, "attention in some"},
  };
  for (const auto& [read, text] : known)
    if (read == family.read) return text;
  return {};
}

}  // namespace gnomon::model::internal
