// Family without a row: the keys of its config are used, or refused if they are not
// sufficient.
#include "src/model/families/rules.h"

namespace gnomon::model::internal {

void read_unknown(Reading& r) {
  const auto has = [&](Keys::Names names) { return r.keys.find(names).has_value(); };
  r.note("the family " + r.out.model_type + " is unknown: the keys of the config are used");
  const std::string type =
      r.keys.string({"position_embedding_type", "pos_embedding_type"}).value_or("");
  if (r.keys.boolean({"alibi", "use_alibi"}).value_or(false) || type == "alibi") {
    read_sizes(r);
    put(r, Alibi{.heads = r.heads});
  } else if (has({"relative_attention_num_buckets"})) {
    read_t5(r);
  } else if (type == "absolute" || type == "learned" || type == "learned_absolute") {
    read_learned(r);
  } else if (type == "none" || type == "nope") {
    read_nowhere(r);
  } else if (has({"rope_theta", "rope_scaling", "rope_parameters", "rotary_dim", "rotary_pct",
                  "rotary_emb_base", "partial_rotary_factor"}) ||
             type == "rope" || type == "rotary") {
    if (has({"qk_rope_head_dim"}))
      r.fail("multi-head latent attention of the unknown family " + r.out.model_type +
             " is not understood");
    const auto& pairing = r.options.assume_pairing;
    if (!pairing)
      r.fail_at({"model_type"},
                "model_type " + r.out.model_type +
                    " is unknown and no key gives the pairing of its rotation: "
                    "assume_pairing (--assume-pairing) must be halves or adjacent");
    read_rotary(r);
    for (Encoding& one : r.encodings) std::get<ScaledRotary>(one).rotary.pairing = *pairing;
    r.note(std::string("the pairing is an assumption: ") +
           (*pairing == Pairing::halves ? "halves" : "adjacent"));
  } else {
    r.fail("model_type " + r.out.model_type +
           " is unknown and no key gives its position encoding");
  }
}

}  // namespace gnomon::model::internal
