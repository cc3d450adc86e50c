// GLM and ERNIE 4.5. Source: the code of each family.
#include <cmath>

#include "src/model/families/rules.h"

namespace gnomon::model::internal {
namespace {

void read_chatglm(Reading& r) {
  prepare(r);
  r.rotary_dim = of_head(r.head_dim, r.family.share);
  const double ratio = r.keys.positive({"rope_ratio"}).value_or(1);
  r.keys.find({"original_rope"});
  if (!(10'000 * ratio > 1 && std::isfinite(10'000 * ratio)))
    r.fail_at({"rope_ratio"}, "10000 rope_ratio must be finite and greater than 1, got " +
                                  shown(10'000 * ratio));
  if (!r.keys.boolean({"multi_query_attention"}).value_or(false)) r.fixed_key_heads = 0;
  r.ropes.emplace("", read_rope(r, r.keys.find({"rope_scaling"}), 10'000 * ratio));
  put_ropes(r);
}

}  // namespace

void add_glm(Families& add) {
  using namespace changes;
  add(rotary, {"chatglm"}, read(read_chatglm), pairing(adjacent), share(0.5, any),
      head_dim(128), length(8192), weights(stacked), convertible_if("multi_query_attention"),
      gguf("chatglm", RopeType::adjacent));
  const Family ernie4_5_moe =
      add(rotary, {"ernie4_5_moe"}, pairing(adjacent), base(500'000), length(131'072),
          sizes(28, 20, 2560), key_heads(4), gguf("ernie4_5-moe", RopeType::adjacent));
  add(ernie4_5_moe, {"ernie4_5"}, head_dim(128), sizes(18, 16, 1024), key_heads(2),
      gguf("ernie4_5", RopeType::adjacent));
  add(ernie4_5_moe, {"ernie4_5_vl_moe_text"}, mrope(MRopeOrder::ernie, {22, 22, 20}));
  const Family glm =
      add(rotary, {"glm"}, pairing(adjacent), share(0.5, factor), odd_share(true),
          head_dim(128), length(131'072), sizes(40, 32, 4096), key_heads(2));
  add(glm, {"glm4"}, gguf("glm4", RopeType::adjacent), gguf_keys("rope.dimension_sections"));
  add(glm, {"glm4_moe"}, pairing(halves), head_dim(0), rounds_head_dim(true),
      sizes(46, 96, 4096), key_heads(8), norm(rms, before, head, 1e-5, 0, "use_qk_norm", false),
      gguf("glm4moe", RopeType::halves), gguf_keys("rope.dimension_sections"));
  add(glm, {"glm4v_moe_text"}, pairing(halves), mrope(MRopeOrder::sequential, {8, 12, 12}),
      head_dim(0), rounds_head_dim(true), length(65'536), sizes(46, 96, 4096), key_heads(8));
  const Family glm4v_text =
      add(glm, {"glm4v_text"}, share(1, factor), odd_share(false),
          mrope(MRopeOrder::sequential, {8, 12, 12}), head_dim(by_heads), length(32'768));
  add(glm4v_text, {"glm4v"}, key_heads(0), part("vision_config", "*_vision"));
  const Family glm_image_text = add(rotary, {"glm_image_text"}, share(1, factor),
                                    mrope(MRopeOrder::sequential, {8, 12, 12}), length(131'072),
                                    sizes(40, 32, 4096), key_heads(2));
  add(glm_image_text, {"glm_ocr_text"}, pairing(adjacent), sizes(16, 16, 1024), key_heads(8));
  add(multimodal, {"glm46v", "glmga"}, language("glm4v_text"),
      part("vision_config", "glm4v_vision"));
  add(multimodal, {"glm4v_moe", "glm5_next", "glm_image", "glm_ocr"}, language("*_text"),
      part("vision_config", "*_vision"));
}

}  // namespace gnomon::model::internal
