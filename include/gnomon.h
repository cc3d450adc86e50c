/* Gnomon for C and for bindings: positional encodings of Transformers and attention with them.
 *
 *   gnomon_frequencies* frequencies = NULL;
 *   gnomon_rotary_spec spec = {.rotary_dim = 128, .pairing = GNOMON_HALVES, .base = 500000};
 *   gnomon_rotary_table* table = NULL;
 *   if (gnomon_frequencies_create(&spec, &frequencies) ||
 *       gnomon_rotary_table_create(frequencies, &positions, &table) ||
 *       gnomon_rotate(&q, &k, table, GNOMON_FORWARD))
 *     fprintf(stderr, "%s\n", gnomon_error_message());
 *
 * Every function that can fail returns a gnomon_status; nothing is thrown. Handles are opaque,
 * are made by a *_create or *_from_* function, belong to the caller and end with *_destroy
 * (which takes NULL, too). A handle may be read by several threads at the same time and written
 * by one. Tensors are borrowed for the call. Outputs are written in place; argument order is
 * inputs, plan, options, outputs. Enums are passed as int32_t; other numbers are refused.
 *
 * Functions of the section "Model" are in the component gnomon::model, all others in
 * gnomon::core.
 *
 * Letters: B batch, T query tokens, S key tokens, A position axes, H query heads, Hk key heads,
 * D head_dim, Dv that of values, R rotary_dim, C width of embeddings.
 */
#ifndef GNOMON_H_
#define GNOMON_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- Errors ------------------------------------------------------------------------------- */

typedef enum gnomon_status {
  GNOMON_OK = 0,
  GNOMON_INVALID_ARGUMENT = 1, /* an argument breaks a rule; the message names it */
  GNOMON_FORMAT_ERROR = 2,     /* a file is not what it should be */
  GNOMON_OUT_OF_MEMORY = 3,
  GNOMON_INTERNAL_ERROR = 4
} gnomon_status;

/* The message of the last call of this thread that failed: "[rotary] dim must be even, got 7".
 * Valid until the next call of this thread that fails; "" before the first. */
const char* gnomon_error_message(void);

/* "0.9.0" */
const char* gnomon_version(void);
/* The instruction set of the kernels: "portable", "sse4", "avx2", "avx512" or "neon"; "" if
 * the environment variable GNOMON_ISA names one that this machine lacks. */
const char* gnomon_isa(void);

/* Frees a string that a function of this header returned through a char**. */
void gnomon_free(char* text);

/* --- Tensors -------------------------------------------------------------------------------
 */

/* A DLPack DLTensor. If <dlpack/dlpack.h> is included first, gnomon_tensor is DLTensor itself;
 * otherwise it is a struct of the same layout, to which a DLTensor* may be cast. */
#if defined(DLPACK_VERSION) || defined(DLPACK_MAJOR_VERSION)
typedef DLTensor gnomon_tensor;
#else
typedef struct gnomon_device {
  int32_t device_type; /* 1: cpu, the only one that functions of this header take today */
  int32_t device_id;
} gnomon_device;
typedef struct gnomon_data_type {
  uint8_t code; /* 0 signed integer, 1 unsigned integer, 2 float, 4 bfloat */
  uint8_t bits;
  uint16_t lanes; /* 1 */
} gnomon_data_type;
typedef struct gnomon_tensor {
  void* data;
  gnomon_device device;
  int32_t ndim;
  gnomon_data_type dtype;
  int64_t* shape;   /* [ndim] */
  int64_t* strides; /* [ndim], in elements; NULL: row-major and contiguous */
  uint64_t byte_offset;
} gnomon_tensor;
#endif

/* --- Threads -------------------------------------------------------------------------------
 */

/* Threads that a call of this thread may use; the results do not depend on them. */
gnomon_status gnomon_set_threads(int32_t count);
int32_t gnomon_threads(void);

/* Runs the loops of all calls of the process on the caller's threads. `run` calls
 * task(data, i) once for each i from 0 to count - 1, on any threads, and returns when all calls
 * have returned; count is at most `threads`. run NULL: the default of the build. */
typedef void (*gnomon_task)(void* data, int64_t i);
typedef void (*gnomon_run)(void* context, int64_t count, gnomon_task task, void* data);
gnomon_status gnomon_set_executor(gnomon_run run, void* context, int32_t threads);

/* --- Rotary --------------------------------------------------------------------------------
 */

typedef enum gnomon_pairing {
  GNOMON_HALVES = 1,  /* (i, i + R/2): Llama as converted for Hugging Face, GPT-NeoX */
  GNOMON_ADJACENT = 2 /* (2i, 2i + 1): GPT-J, RoFormer, Llama as released by Meta */
} gnomon_pairing;
typedef enum gnomon_direction { GNOMON_FORWARD = 1, GNOMON_INVERSE = 2 } gnomon_direction;

typedef struct gnomon_rotary_spec {
  int64_t rotary_dim;  /* R, even */
  int32_t pairing;     /* gnomon_pairing; required */
  double base;         /* `rope_theta`; 0: 10000 */
  int64_t head_offset; /* the first rotated element of a head */
} gnomon_rotary_spec;

/* How much each pair of a head turns for each position, in radians. */
typedef struct gnomon_frequencies gnomon_frequencies;
gnomon_status gnomon_frequencies_create(const gnomon_rotary_spec* spec,
                                        gnomon_frequencies** out);
/* inv_freq: float64 [R/2]. axes: int32 [R/2], the position axis of each pair, or NULL: axis 0.
 * table_scale: on cos and sin (YaRN's attention factor), else 1. spec->base is not read. */
gnomon_status gnomon_frequencies_from(const gnomon_rotary_spec* spec,
                                      const gnomon_tensor* inv_freq, const gnomon_tensor* axes,
                                      double table_scale, gnomon_frequencies** out);
/* Copies the frequencies to inv_freq, float64 [R/2]. */
gnomon_status gnomon_frequencies_get(const gnomon_frequencies* frequencies,
                                     const gnomon_tensor* inv_freq);
void gnomon_frequencies_destroy(gnomon_frequencies* frequencies);

/* cos and sin of the tokens of a batch. positions: int64 [T] (shared by the batch), [B, T] or
 * [A, B, T]. */
typedef struct gnomon_rotary_table gnomon_rotary_table;
gnomon_status gnomon_rotary_table_create(const gnomon_frequencies* frequencies,
                                         const gnomon_tensor* positions,
                                         gnomon_rotary_table** out);
/* Copies cos and sin: float32 [B or 1, T, R/2]. */
gnomon_status gnomon_rotary_table_get(const gnomon_rotary_table* table,
                                      const gnomon_tensor* cos, const gnomon_tensor* sin);
void gnomon_rotary_table_destroy(gnomon_rotary_table* table);
/* Fills cos and sin [T, R/2] at positions, int64 [T], without a table: for kernels of the
 * caller. float32, float16, bfloat16 or float64, rounded once, any strides, both of one type.
 * The frequencies must have one axis. */
gnomon_status gnomon_cos_sin(const gnomon_tensor* positions,
                             const gnomon_frequencies* frequencies, const gnomon_tensor* cos,
                             const gnomon_tensor* sin);

/* Rotates q and k in place; k may be NULL. [B, T, H, D] or [T, H, D], any strides, D
 * contiguous; float32, float16, bfloat16 or float64. GNOMON_INVERSE gives gradients. */
gnomon_status gnomon_rotate(const gnomon_tensor* q, const gnomon_tensor* k,
                            const gnomon_rotary_table* table, int32_t direction);
/* The same to another tensor of the same shape and type. */
gnomon_status gnomon_rotate_to(const gnomon_tensor* x, const gnomon_rotary_table* table,
                               int32_t direction, const gnomon_tensor* out);
/* The same without a table, for a step of a decoder: positions int64 [T] or [A, 1 or B, T]. */
gnomon_status gnomon_rotate_at(const gnomon_tensor* q, const gnomon_tensor* k,
                               const gnomon_tensor* positions,
                               const gnomon_frequencies* frequencies);
/* Rotates new keys on their way into a cache; k stays as it is. slot: the shape of k; its type,
 * or float16 or bfloat16 for float32, or int8 with scales, float32 [B, T, Hk] (else NULL).
 * table NULL: copies, as for values. */
gnomon_status gnomon_append(const gnomon_tensor* k, const gnomon_rotary_table* table,
                            const gnomon_tensor* slot, const gnomon_tensor* scales);
/* Moves cached keys [B, S, Hk, D] by `delta` positions, in place. */
gnomon_status gnomon_shift_keys(const gnomon_tensor* cached,
                                const gnomon_frequencies* frequencies, int64_t delta);

/* --- Tables that are added to embeddings ----------------------------------------------------
 */

typedef enum gnomon_sinusoidal_layout {
  GNOMON_INTERLEAVED = 1,  /* sin cos sin cos ...: Vaswani et al. 2017 */
  GNOMON_HALF_SPLIT = 2,   /* sines, then cosines, of the same frequencies */
  GNOMON_TENSOR2TENSOR = 3 /* sines, then cosines, frequencies to the end: fairseq, XGLM */
} gnomon_sinusoidal_layout;

/* Fills out [T, C] (float32, float16, bfloat16 or float64) at positions, int64 [T]. */
gnomon_status gnomon_sinusoidal(const gnomon_tensor* positions, int32_t layout, double base,
                                const gnomon_tensor* out);
/* x[b, t] += scale table[t]. x: [B, T, C]; table: float32 [T, C]. */
gnomon_status gnomon_add_table(const gnomon_tensor* x, const gnomon_tensor* table, float scale);
/* x[b, t] += table[rows[b, t]]. rows: int64 [B, T]. */
gnomon_status gnomon_add_rows(const gnomon_tensor* x, const gnomon_tensor* table,
                              const gnomon_tensor* rows);
/* table_grad[rows[b, t]] += grad[b, t], in a fixed order. */
gnomon_status gnomon_add_rows_backward(const gnomon_tensor* grad, const gnomon_tensor* rows,
                                       const gnomon_tensor* table_grad);

/* --- The plan of a layer --------------------------------------------------------------------
 */

typedef enum gnomon_visibility {
  GNOMON_CAUSAL = 1,
  GNOMON_BIDIRECTIONAL = 2
} gnomon_visibility;

/* How position enters a layer, with the mask and the softmax. A new plan adds no position. */
typedef struct gnomon_layer_plan gnomon_layer_plan;
gnomon_status gnomon_layer_plan_create(gnomon_layer_plan** out);
void gnomon_layer_plan_destroy(gnomon_layer_plan* plan);

/* offset: keys before those of the queries. left, right: keys that a query sees before and
 * after its own, -1: all (`sliding_window` w is left = w - 1). */
gnomon_status gnomon_layer_plan_set_mask(gnomon_layer_plan* plan, int32_t visibility,
                                         int64_t offset, int64_t left, int64_t right);
/* scale: of q . k; NaN: 1 / sqrt(D). cap: Gemma 2's; 0: none. sinks: float64 [H], or NULL. */
gnomon_status gnomon_layer_plan_set_softmax(gnomon_layer_plan* plan, double scale, double cap,
                                            const gnomon_tensor* sinks);
/* Rotates q and k inside attention; NULL: not there. The tables are shared, not copied. */
gnomon_status gnomon_layer_plan_set_rotary(gnomon_layer_plan* plan,
                                           const gnomon_rotary_table* queries,
                                           const gnomon_rotary_table* keys);
/* -slopes[h] |distance|. slopes: float64 [H]. */
gnomon_status gnomon_layer_plan_set_slopes(gnomon_layer_plan* plan,
                                           const gnomon_tensor* slopes);
/* strip[h, position(key) - position(query) - min_distance]. strip: float64 [H, N]. */
gnomon_status gnomon_layer_plan_set_strip(gnomon_layer_plan* plan, const gnomon_tensor* strip,
                                          int64_t min_distance);
/* A whole bias, float32 [B, H, T, S], any strides; borrowed until the plan is destroyed or has
 * another bias. */
gnomon_status gnomon_layer_plan_set_dense(gnomon_layer_plan* plan, const gnomon_tensor* bias);
/* Positions (for the bias) and sequences (packing; -1: padding) of the rows: int64 and int32,
 * [B or 1, T] and [B or 1, S]. Sequences NULL: all in one. */
gnomon_status gnomon_layer_plan_set_positions(gnomon_layer_plan* plan,
                                              const gnomon_tensor* query_ids,
                                              const gnomon_tensor* query_sequences,
                                              const gnomon_tensor* key_ids,
                                              const gnomon_tensor* key_sequences);
/* ALiBi's slopes of heads first_head to first_head + n - 1 of `heads`: out, float64 [n]. */
gnomon_status gnomon_alibi_slopes(int64_t heads, int64_t first_head, const gnomon_tensor* out);
/* The whole bias of a plan: out [H, T, S], float32 or float64. */
gnomon_status gnomon_layer_plan_bias(const gnomon_layer_plan* plan, int64_t offset,
                                     const gnomon_tensor* out);

/* --- A layer --------------------------------------------------------------------------------
 */

/* x [B, T, C] += the table of the plan, if it is added to the embeddings. */
gnomon_status gnomon_add_position(const gnomon_tensor* x, const gnomon_layer_plan* plan);
/* The layer's input to q and k [B, T, C], rotated or with the table, if the plan says so. */
gnomon_status gnomon_prepare_input(const gnomon_tensor* x, const gnomon_layer_plan* plan,
                                   int64_t heads);
/* Norms, rotations and scales of projected q, k and v, in place; k and v may be NULL. */
gnomon_status gnomon_prepare(const gnomon_tensor* q, const gnomon_tensor* k,
                             const gnomon_tensor* v, const gnomon_layer_plan* plan);

typedef struct gnomon_attention_input {
  const gnomon_tensor* q;        /* [B, T, H, D] */
  const gnomon_tensor* k;        /* [B, S, Hk, D]; type of q, or 16 bits for float32, or int8 */
  const gnomon_tensor* v;        /* [B, S, Hk, Dv]; type of k */
  const gnomon_tensor* k_scales; /* float32 [B, S, Hk] of int8 keys; else NULL */
  const gnomon_tensor* v_scales; /* the same of values */
  const gnomon_tensor* gates;    /* float32 [B or 1, H, T], a factor on the bias; or NULL */
} gnomon_attention_input;

/* out: [B, T, H, Dv] of the type of q. lse: float32 (float64 for float64) [B, H, T], or NULL;
 * gnomon_attention_backward needs it. */
gnomon_status gnomon_attention(const gnomon_attention_input* input,
                               const gnomon_layer_plan* plan, const gnomon_tensor* out,
                               const gnomon_tensor* lse);

/* Gradients of what a plan holds beside the tensors: of the bias and of relative vectors. */
typedef struct gnomon_plan_gradient gnomon_plan_gradient;
gnomon_status gnomon_plan_gradient_create(gnomon_plan_gradient** out);
/* Copies that of the bias: float64, [H] of slopes, [H, N] of a strip. */
gnomon_status gnomon_plan_gradient_bias(const gnomon_plan_gradient* gradient,
                                        const gnomon_tensor* out);
void gnomon_plan_gradient_destroy(gnomon_plan_gradient* gradient);

typedef struct gnomon_attention_gradient {
  const gnomon_tensor *q, *k, *v; /* shaped as the inputs; overwritten */
  gnomon_plan_gradient* plan;     /* or NULL */
  const gnomon_tensor* dense;     /* float32 [B, H, T, S] of a whole bias, or NULL */
  const gnomon_tensor* gates;     /* float32 [B, H, T], or NULL */
  const gnomon_tensor* sinks;     /* float64 [H], contiguous, or NULL */
} gnomon_attention_gradient;
gnomon_status gnomon_attention_backward(const gnomon_attention_input* input,
                                        const gnomon_layer_plan* plan, const gnomon_tensor* out,
                                        const gnomon_tensor* lse, const gnomon_tensor* out_grad,
                                        const gnomon_attention_gradient* gradient);

/* --- Model: encodings by name (component gnomon::model) -------------------------------------
 */

/* One encoding with its settings. */
typedef struct gnomon_encoding gnomon_encoding;
/* {"kind": "rotary", "dim": 64, "pairing": "halves", "base": 10000.0} */
gnomon_status gnomon_encoding_from_json(const char* json, gnomon_encoding** out);
/* The settings that most models of this shape use. `name` as in `gnomon list`. */
gnomon_status gnomon_encoding_from_name(const char* name, int64_t width, int64_t heads,
                                        int64_t length, int32_t reads, gnomon_encoding** out);
gnomon_status gnomon_encoding_to_json(const gnomon_encoding* encoding, char** json);
/* The trained matrices: [{"name": "buckets", "rows": 32, "columns": 8,
 * "initial_deviation": 0.02, "initial_mean": 0}]. */
gnomon_status gnomon_encoding_parameters(const gnomon_encoding* encoding, char** json);
void gnomon_encoding_destroy(gnomon_encoding* encoding);

/* The frequencies of a rotary encoding for a declared context length; 0: its own. */
gnomon_status gnomon_encoding_frequencies(const gnomon_encoding* encoding, int64_t length,
                                          gnomon_frequencies** out);
/* The plan for `queries` tokens that are the last of `keys` at positions 0 to keys - 1. values:
 * float32 [rows, columns], one for each parameter. The mask is left to the caller. */
gnomon_status gnomon_encoding_lower(const gnomon_encoding* encoding,
                                    const gnomon_tensor* const* values, int64_t count,
                                    int64_t queries, int64_t keys, gnomon_layer_plan** out);
/* Adds the gradient of the plan to grads, shaped as values. table_grad: float32 [queries, C],
 * of a table that is added to embeddings; or NULL. */
gnomon_status gnomon_encoding_lower_backward(const gnomon_encoding* encoding,
                                             const gnomon_tensor* const* values, int64_t count,
                                             int64_t queries, int64_t keys,
                                             const gnomon_plan_gradient* gradient,
                                             const gnomon_tensor* table_grad,
                                             const gnomon_tensor* const* grads);

/* --- Model: released models -----------------------------------------------------------------
 */

/* What a config.json says. `path`: the file, a folder with it, or a .gguf file. */
typedef struct gnomon_model gnomon_model;
gnomon_status gnomon_model_open(const char* path, gnomon_model** out);
gnomon_status gnomon_model_from_config(const char* json, gnomon_model** out);
/* As `gnomon inspect --json` prints it. */
gnomon_status gnomon_model_to_json(const gnomon_model* model, char** json);
void gnomon_model_destroy(gnomon_model* model);

/* The trained matrices of a layer's position and attention, in the order of `values`:
 * [{"name": "sinks", "rows": 64, "columns": 1}]. part: "" for a decoder-only model. */
gnomon_status gnomon_model_layer_parameters(const gnomon_model* model, const char* part,
                                            int64_t layer, char** json);

/* The tokens of a forward pass. */
typedef struct gnomon_tokens {
  const gnomon_tensor* query_ids;       /* int64 [B or 1, T], or [A, B or 1, T] for M-RoPE */
  const gnomon_tensor* query_sequences; /* int32 [B or 1, T]; -1: padding; NULL: one sequence */
  const gnomon_tensor* key_ids;         /* the same of all S keys; NULL: `cached` tokens at */
  const gnomon_tensor* key_sequences;   /* consecutive positions, then those of the queries */
  int64_t cached;
  int64_t length; /* declared context length of dynamic NTK and LongRoPE; 0: trained for */
} gnomon_tokens;

/* The plan of a layer. values: float32, one for each parameter; a tensor whose data is NULL
 * stands for norm weights of 1 and biases of 0. Rotations are applied by gnomon_prepare. */
gnomon_status gnomon_model_lower_layer(const gnomon_model* model, const char* part,
                                       int64_t layer, const gnomon_tokens* tokens,
                                       const gnomon_tensor* const* values, int64_t count,
                                       gnomon_layer_plan** out);

#ifdef __cplusplus
}
#endif

#endif /* GNOMON_H_ */
