/* Positions and attention of Gnomon as operators of ggml graphs.
 *
 *   gnomon_model_open("model.gguf", &model);
 *   gnomon_ggml_layer_from_model(model, 0, NULL, 0, 0, &layer);  // one for each kind of layer
 *   ...                                                          // a graph:
 *   tokens = gnomon_ggml_tokens(ctx, layer, positions, NULL);       // I32 [T]
 *   q = gnomon_ggml_prepare_queries(ctx, layer, q, tokens);         // ggml_rope_ext
 *   k = gnomon_ggml_prepare_keys(ctx, layer, k, tokens);
 *   ...                                                             // k and v go to the cache
 *   out = gnomon_ggml_attend(ctx, layer, q, keys, values, tokens);  // ggml_flash_attn_ext
 *
 * The operators run on the CPU backend, on the threads of ggml. Results have the same bits for
 * any number of threads. Compile gnomon_ggml.c with the program, or bindings/ggml as a library.
 *
 * Shapes are in the order of ggml, innermost first. Letters: D head dimension of q and k, Dv of
 * v, H query heads, Hk key heads, T tokens of the graph, S rows of the cache, B batch, A axes.
 */
#ifndef GNOMON_GGML_H_
#define GNOMON_GGML_H_

#include "ggml.h"
#include "gnomon.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The operators of layers with equal positions: frequencies, norms, mask, bias and softmax. One
 * graph at a time may use it, and computes its tokens once. */
typedef struct gnomon_ggml_layer gnomon_ggml_layer;

/* A layer of a model, with the arguments of gnomon_model_lower_layer. model, values and their
 * tensors are borrowed until the layer is destroyed. length: the declared context length; 0:
 * that of training. Layers of one kind, as gnomon_model_to_json lists them, can share one. */
gnomon_status gnomon_ggml_layer_from_model(const gnomon_model* model, int64_t layer,
                                           const gnomon_tensor* const* values, int64_t count,
                                           int64_t length, gnomon_ggml_layer** out);

/* A layer without a model. Pointers are borrowed until the layer is destroyed. */
typedef struct gnomon_ggml_spec {
  size_t size;                           /* sizeof(gnomon_ggml_spec) */
  const gnomon_frequencies* frequencies; /* NULL: no rotation */
  int32_t visibility;                    /* gnomon_visibility; required */
  int64_t left, right;                   /* as in gnomon_layer_plan_set_mask; -1: no limit */
  double scale;                          /* on q . k; 0: 1 / sqrt(D) */
  double cap;                            /* soft cap of the scores; 0: none */
  const gnomon_tensor* sinks;            /* float64 [H]; NULL: none */
  const gnomon_tensor* slopes;           /* float64 [H], of ALiBi; NULL: none */
} gnomon_ggml_spec;
gnomon_status gnomon_ggml_layer_create(const gnomon_ggml_spec* spec, gnomon_ggml_layer** out);
void gnomon_ggml_layer_destroy(gnomon_ggml_layer* layer);

/* Returns the message of the first failure since the last gnomon_ggml_tokens, or NULL: of an
 * operator that was not made, or of the last computation, whose results are then NaN. */
const char* gnomon_ggml_layer_error(const gnomon_ggml_layer* layer);

/* The following functions add a node to a graph. They return NULL if shapes or types do not
 * fit, and the layer has the error. */

/* Reads the positions of the tokens when the graph runs: tables and masks of this layer are
 * made once, for all nodes that use the result. positions: I32 [T], or [T, A] (the rows t, h, w
 * of M-RoPE). cached: I32 [1], the number of tokens that precede them in the cache; NULL: the
 * first position. So one graph serves all steps of decoding. */
struct ggml_tensor* gnomon_ggml_tokens(struct ggml_context* ctx, gnomon_ggml_layer* layer,
                                       struct ggml_tensor* positions,
                                       struct ggml_tensor* cached);
/* Applies norms, rotations and scales of the layer in place, as gnomon_prepare: the result is a
 * view of q or k, as that of ggml_rope_ext_inplace. q: [D, H, T, B]. k: [D, Hk, T, B]. */
struct ggml_tensor* gnomon_ggml_prepare_queries(struct ggml_context* ctx,
                                                gnomon_ggml_layer* layer, struct ggml_tensor* q,
                                                struct ggml_tensor* tokens);
struct ggml_tensor* gnomon_ggml_prepare_keys(struct ggml_context* ctx, gnomon_ggml_layer* layer,
                                             struct ggml_tensor* k, struct ggml_tensor* tokens);
/* Attention to the first cached + T rows of k and v, as ggml_flash_attn_ext. q: F32 [D, T, H,
 * B]. k: F32, F16 or BF16 [D, S, Hk, B]. v: [Dv, S, Hk, B], of the type of k. Any strides, the
 * first axis contiguous. Returns F32 [Dv, H, T, B]. */
struct ggml_tensor* gnomon_ggml_attend(struct ggml_context* ctx, gnomon_ggml_layer* layer,
                                       struct ggml_tensor* q, struct ggml_tensor* k,
                                       struct ggml_tensor* v, struct ggml_tensor* tokens);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* GNOMON_GGML_H_ */
