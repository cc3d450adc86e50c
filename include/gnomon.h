/* The C interface of Gnomon: positional encodings of Transformers, and attention with them.
 *
 *   gnomon_frequencies* frequencies = NULL;
 *   gnomon_rotary_spec spec = {
 *       .size = sizeof spec, .rotary_dim = 128, .pairing = GNOMON_HALVES, .base = 500000};
 *   gnomon_rotary_table* table = NULL;
 *   if (gnomon_frequencies_create(&spec, &frequencies) ||
 *       gnomon_rotary_table_create(frequencies, &positions, &table) ||
 *       gnomon_rotate(&q, &k, table, GNOMON_FORWARD))
 *     fprintf(stderr, "%s\n", gnomon_error_message());
 *
 * Errors: every function that can fail returns a gnomon_status. No function throws.
 * Handles: opaque pointers. A *_create or *_from_* function makes a handle, the caller owns it,
 * and *_destroy frees it. *_destroy accepts NULL.
 * Structs of arguments: set `size` to sizeof the struct, and members that are not used to 0. A
 * later version may add members, for which 0 is the behaviour of this version.
 * Thread-safe: several threads may read one handle at the same time. Only one thread at a time
 * may modify a handle, and no other thread may read it meanwhile.
 * Arguments: tensors are borrowed for the duration of the call. Outputs are written in place.
 * The order is inputs, plan, options, outputs. Enums are passed as int32_t. A value that is not
 * in the enum gives GNOMON_INVALID_ARGUMENT.
 *
 * The functions of the two sections "Model" are in the component gnomon::model, all others in
 * gnomon::core.
 *
 * Letters: B batch, T query tokens, S key tokens, A position axes, H query heads, Hk key heads,
 * D head dimension of queries and keys, Dv head dimension of values, R rotary dimension,
 * C width of embeddings.
 */
#ifndef GNOMON_H_
#define GNOMON_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- Errors ------------------------------------------------------------------------------- */

typedef enum gnomon_status {
  GNOMON_OK = 0,
  GNOMON_INVALID_ARGUMENT = 1, /* an argument breaks a rule; the message names the rule */
  GNOMON_FORMAT_ERROR = 2,     /* a file does not have the expected format */
  GNOMON_OUT_OF_MEMORY = 3,
  GNOMON_INTERNAL_ERROR = 4
} gnomon_status;

/* Returns the message of the last failed call of this thread, for example "[rotary] dim must be
 * even, got 7"; "" before the first. The pointer is valid until the next failed call. */
const char* gnomon_error_message(void);

/* The version of this header: 10000 major + 100 minor + patch (docs/versions.md). */
#define GNOMON_VERSION_NUMBER 100
/* Returns the version of the library as such a number, and as a text, for example "0.9.0". */
int32_t gnomon_version_number(void);
const char* gnomon_version(void);
/* Returns the instruction set of the kernels: "portable", "sse4", "avx2", "avx512", "neon" or
 * "wasm"; "" if the environment variable GNOMON_ISA names one that is not available here. */
const char* gnomon_isa(void);

/* Frees a string that a function returned through a char** (`json`). */
void gnomon_free(char* text);

/* --- Tensors ------------------------------------------------------------------------------ */

/* A DLPack DLTensor. If <dlpack/dlpack.h> is included first, gnomon_tensor is DLTensor itself;
 * otherwise it is a struct of the same layout, to which a DLTensor* may be cast. */
#if defined(DLPACK_VERSION) || defined(DLPACK_MAJOR_VERSION)
typedef DLTensor gnomon_tensor;
#else
typedef struct gnomon_device {
  int32_t device_type; /* 1: cpu, the only device that this header supports today */
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

/* --- Threads ------------------------------------------------------------------------------ */

/* Sets the largest number of threads that calls of this thread use, 1 to 4096. Results do not
 * depend on the number of threads. */
gnomon_status gnomon_set_threads(int32_t count);
int32_t gnomon_threads(void);

/* Sets the executor of the process: all parallel loops then run on the caller's threads
 * (gnomon_context.h: an executor and working memory for each engine of a process). `run`
 * must call task(data, i) once for each i from 0 to count - 1, on any threads, and must return
 * after all these calls have returned. count is at most `threads`. If run is NULL, the default
 * executor of the build is restored. */
typedef void (*gnomon_task)(void* data, int64_t i);
typedef void (*gnomon_run)(void* context, int64_t count, gnomon_task task, void* data);
gnomon_status gnomon_set_executor(gnomon_run run, void* context, int32_t threads);

/* --- Rotary ------------------------------------------------------------------------------- */

typedef enum gnomon_pairing {
  GNOMON_HALVES = 1,  /* (i, i + R/2): Llama as converted for Hugging Face, GPT-NeoX */
  GNOMON_ADJACENT = 2 /* (2i, 2i + 1): GPT-J, RoFormer, Llama as released by Meta */
} gnomon_pairing;
typedef enum gnomon_direction { GNOMON_FORWARD = 1, GNOMON_INVERSE = 2 } gnomon_direction;

typedef struct gnomon_rotary_spec {
  size_t size;         /* sizeof(gnomon_rotary_spec) */
  int64_t rotary_dim;  /* R, even */
  int32_t pairing;     /* gnomon_pairing; required */
  double base;         /* `rope_theta`; 0 means 10000 */
  int64_t head_offset; /* index of the first rotated element of a head */
} gnomon_rotary_spec;

/* The frequency of each pair, in radians per position. */
typedef struct gnomon_frequencies gnomon_frequencies;
gnomon_status gnomon_frequencies_create(const gnomon_rotary_spec* spec,
                                        gnomon_frequencies** out);
/* Makes frequencies from inv_freq, float64 [R/2]. axes: int32 [R/2], the position axis of each
 * pair; NULL: axis 0. table_scale: a factor on cos and sin (the attention factor of YaRN), 1 if
 * the model has none. spec->base is ignored. */
gnomon_status gnomon_frequencies_from(const gnomon_rotary_spec* spec,
                                      const gnomon_tensor* inv_freq, const gnomon_tensor* axes,
                                      double table_scale, gnomon_frequencies** out);
/* Copies the frequencies to inv_freq, float64 [R/2]. The count is R/2; 0 for NULL. */
gnomon_status gnomon_frequencies_get(const gnomon_frequencies* frequencies,
                                     const gnomon_tensor* inv_freq);
int64_t gnomon_frequencies_count(const gnomon_frequencies* frequencies);
void gnomon_frequencies_destroy(gnomon_frequencies* frequencies);

/* A rotary table: cos and sin of the tokens of a batch. positions: int64 [T] (shared by the
 * batch), [B, T] or [A, B, T]. */
typedef struct gnomon_rotary_table gnomon_rotary_table;
gnomon_status gnomon_rotary_table_create(const gnomon_frequencies* frequencies,
                                         const gnomon_tensor* positions,
                                         gnomon_rotary_table** out);
/* Copies the table to cos and sin: float32 [B or 1, T, R/2]. */
gnomon_status gnomon_rotary_table_get(const gnomon_rotary_table* table,
                                      const gnomon_tensor* cos, const gnomon_tensor* sin);
void gnomon_rotary_table_destroy(gnomon_rotary_table* table);
/* Computes cos and sin [T, R/2] at positions, int64 [T], without a table, for kernels of the
 * caller. cos and sin: float32, float16, bfloat16 or float64, both of one type, any strides;
 * each entry is rounded once. The frequencies must have one axis. */
gnomon_status gnomon_cos_sin(const gnomon_tensor* positions,
                             const gnomon_frequencies* frequencies, const gnomon_tensor* cos,
                             const gnomon_tensor* sin);

/* Rotates q and k in place. k may be NULL, and must not overlap q. Shapes: [B, T, H, D] or
 * [T, H, D], any strides, D contiguous. Types: float32, float16, bfloat16 or float64. The
 * gradient of a rotation is GNOMON_INVERSE applied to the gradient of its output. */
gnomon_status gnomon_rotate(const gnomon_tensor* q, const gnomon_tensor* k,
                            const gnomon_rotary_table* table, int32_t direction);
/* Like gnomon_rotate, but writes the rotated x to out, which has the shape and type of x, and
 * is x itself or does not overlap it. */
gnomon_status gnomon_rotate_to(const gnomon_tensor* x, const gnomon_rotary_table* table,
                               int32_t direction, const gnomon_tensor* out);
/* Rotates q and k in place at positions, int64 [T] or [A, 1 or B, T], without a table: for a
 * decoding step. */
gnomon_status gnomon_rotate_at(const gnomon_tensor* q, const gnomon_tensor* k,
                               const gnomon_tensor* positions,
                               const gnomon_frequencies* frequencies);
/* Rotates new keys and writes them to slot, a part of a KV cache. k is not changed. slot: the
 * shape of k, and the type of k; or float16 or bfloat16 for float32 keys; or int8 with scales,
 * float32 [B, T, Hk] (NULL for other types). If table is NULL, k is copied without rotation:
 * use this for values. */
gnomon_status gnomon_append(const gnomon_tensor* k, const gnomon_rotary_table* table,
                            const gnomon_tensor* slot, const gnomon_tensor* scales);
/* Shifts cached keys [B, S, Hk, D] by `delta` positions, in place. */
gnomon_status gnomon_shift_keys(const gnomon_tensor* cached,
                                const gnomon_frequencies* frequencies, int64_t delta);

/* --- Tables that are added to embeddings -------------------------------------------------- */

typedef enum gnomon_sinusoidal_layout {
  GNOMON_INTERLEAVED = 1,  /* sin cos sin cos ...: Vaswani et al. 2017 */
  GNOMON_HALF_SPLIT = 2,   /* sines, then cosines, of the same frequencies */
  GNOMON_TENSOR2TENSOR = 3 /* sines, then cosines; last frequency is 1/base: fairseq, XGLM */
} gnomon_sinusoidal_layout;

/* Computes the sinusoidal table at positions, int64 [T]. out [T, C]: float32, float16, bfloat16
 * or float64. */
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

/* --- The plan of a layer ------------------------------------------------------------------ */

typedef enum gnomon_visibility {
  GNOMON_CAUSAL = 1,
  GNOMON_BIDIRECTIONAL = 2
} gnomon_visibility;

/* The plan of a layer: its mask, its softmax, and all places in which position enters. A new
 * plan adds no position, and has no mask: attention requires gnomon_layer_plan_set_mask. */
typedef struct gnomon_layer_plan gnomon_layer_plan;
gnomon_status gnomon_layer_plan_create(gnomon_layer_plan** out);
void gnomon_layer_plan_destroy(gnomon_layer_plan* plan);

/* offset: the keys before the key of the first query, n after a cache of n tokens; -1: refused
 * unless there are as many keys as queries. left, right: the most keys that a query sees before
 * and after its own position; -1: no limit. `sliding_window` w of a config: left = w - 1. */
gnomon_status gnomon_layer_plan_set_mask(gnomon_layer_plan* plan, int32_t visibility,
                                         int64_t offset, int64_t left, int64_t right);
/* scale: factor on q . k; NaN: 1 / sqrt(D). cap: soft cap of the scores (Gemma 2); 0: none.
 * sinks: float64 [H], one attention sink for each head (gpt-oss), or NULL. */
gnomon_status gnomon_layer_plan_set_softmax(gnomon_layer_plan* plan, double scale, double cap,
                                            const gnomon_tensor* sinks);
/* allowed: 0 or 1 (default). Whether softmax weights of bfloat16 q, k and v may be rounded to
 * bfloat16 before they are multiplied by values, on processors that multiply bfloat16: twice as
 * fast or faster, with an additional error of at most 2^-8 of the largest |v|. */
gnomon_status gnomon_layer_plan_round_weights(gnomon_layer_plan* plan, int32_t allowed);
/* Sets the tables that rotate q and k inside gnomon_attention; NULL: no rotation there. The
 * tables are shared with the plan, not copied. Refused later if gnomon_prepare rotates, too. */
gnomon_status gnomon_layer_plan_set_rotary(gnomon_layer_plan* plan,
                                           const gnomon_rotary_table* queries,
                                           const gnomon_rotary_table* keys);
/* Sets the bias -slopes[h] |distance|. slopes: float64 [H]. */
gnomon_status gnomon_layer_plan_set_slopes(gnomon_layer_plan* plan,
                                           const gnomon_tensor* slopes);
/* Sets the bias strip[h, position(key) - position(query) - min_distance], float64 [H, N]. */
gnomon_status gnomon_layer_plan_set_strip(gnomon_layer_plan* plan, const gnomon_tensor* strip,
                                          int64_t min_distance);
/* Moves the rotation from gnomon_attention to gnomon_prepare, so that rotated keys can be kept
 * in a cache. A plan of PoPE is not changed. */
gnomon_status gnomon_layer_plan_rotate_in_prepare(gnomon_layer_plan* plan);
/* Sets a dense bias, float32 [B, H, T, S], any strides. The tensor is borrowed until the plan
 * is destroyed or another bias is set. */
gnomon_status gnomon_layer_plan_set_dense(gnomon_layer_plan* plan, const gnomon_tensor* bias);
/* Sets positions (for the bias) and sequences of queries and keys. Positions: int64 [B or 1, T]
 * and [B or 1, S]. Sequences (packing; -1: padding): int32, same shapes; NULL: one. */
gnomon_status gnomon_layer_plan_set_positions(gnomon_layer_plan* plan,
                                              const gnomon_tensor* query_ids,
                                              const gnomon_tensor* query_sequences,
                                              const gnomon_tensor* key_ids,
                                              const gnomon_tensor* key_sequences);
/* Computes the ALiBi slopes of heads first_head to first_head + n - 1 of `heads`. out: float64
 * [n]. */
gnomon_status gnomon_alibi_slopes(int64_t heads, int64_t first_head, const gnomon_tensor* out);
/* Computes the dense bias of a plan, for queries at positions offset + t and keys at positions
 * s. out [H, T, S]: float32 or float64. */
gnomon_status gnomon_layer_plan_bias(const gnomon_layer_plan* plan, int64_t offset,
                                     const gnomon_tensor* out);

/* --- A layer ------------------------------------------------------------------------------ */

/* Adds the table of the plan to x [B, T, C], if the plan adds a table to the embeddings.
 * Otherwise does nothing. */
gnomon_status gnomon_add_position(const gnomon_tensor* x, const gnomon_layer_plan* plan);
/* Changes, in place, the input x [B, T, C] of the projections to q and k: rotates it, or adds a
 * table to it, if the plan does so. */
gnomon_status gnomon_prepare_input(const gnomon_tensor* x, const gnomon_layer_plan* plan,
                                   int64_t heads);
/* Applies the norms, rotations and scales of the plan to projected q, k and v, in place. k and
 * v may be NULL. */
gnomon_status gnomon_prepare(const gnomon_tensor* q, const gnomon_tensor* k,
                             const gnomon_tensor* v, const gnomon_layer_plan* plan);

/* Terms of tokens: the inputs of attention that depend on what the tokens hold, as the forget
 * gates of FoX (docs/attention/token_terms.md). gnomon_encoding_terms computes those of an
 * encoding. Otherwise the caller sets them: name: "log_gates", "angles", ...; values: float32,
 * copied. */
typedef struct gnomon_terms gnomon_terms;
gnomon_status gnomon_terms_create(gnomon_terms** out);
gnomon_status gnomon_terms_set(gnomon_terms* terms, const char* name,
                               const gnomon_tensor* values);
void gnomon_terms_destroy(gnomon_terms* terms);
/* Like gnomon_prepare, with the angles of the tokens, if the plan rotates by them here. If it
 * rotates in attention, attention reads them. */
gnomon_status gnomon_prepare_with(const gnomon_tensor* q, const gnomon_tensor* k,
                                  const gnomon_tensor* v, const gnomon_layer_plan* plan,
                                  const gnomon_terms* terms);

typedef struct gnomon_attention_input {
  size_t size;                   /* sizeof(gnomon_attention_input) */
  const gnomon_tensor* q;        /* [B, T, H, D] */
  const gnomon_tensor* k;        /* [B, S, Hk, D]; type of q, 16 bits for float32, int8, E4M3 */
  const gnomon_tensor* v;        /* [B, S, Hk, Dv]; type of k */
  const gnomon_tensor* k_scales; /* float32 [B, S, Hk] of int8 keys, [1] or [Hk] of E4M3 */
  const gnomon_tensor* v_scales; /* the same, of values */
  const gnomon_tensor* gates;    /* float32 [B or 1, H, T], a factor on the bias; or NULL */
  const gnomon_terms* terms;     /* or NULL; `gates` replaces those of terms */
} gnomon_attention_input;

/* Computes softmax attention. out: [B, T, H, Dv], of the type of q. lse: the log-sum-exp of the
 * scores, float32 [B, H, T] (float64 if q is float64), or NULL. gnomon_attention_backward
 * requires it. A plan that rotates the output back (DeepSeek-V4) is applied whole, and has no
 * gradient here. Plans with compressed keys are refused. */
gnomon_status gnomon_attention(const gnomon_attention_input* input,
                               const gnomon_layer_plan* plan, const gnomon_tensor* out,
                               const gnomon_tensor* lse);

/* Computes the weights and the scores of gnomon_attention as matrices [B, H, T, S], float32 or
 * float64, to look at them. Each is computed in double and rounded once. A score includes scale
 * and bias, and is -infinity for a key that the query does not see. weights or scores may be
 * NULL. input->v is not read, and may be NULL. */
gnomon_status gnomon_attention_weights(const gnomon_attention_input* input,
                                       const gnomon_layer_plan* plan,
                                       const gnomon_tensor* weights,
                                       const gnomon_tensor* scores);

/* Gradients of the parameters that the plan holds: the bias and the relative vectors. */
typedef struct gnomon_plan_gradient gnomon_plan_gradient;
gnomon_status gnomon_plan_gradient_create(gnomon_plan_gradient** out);
/* Copies the gradient of the bias: float64, [H] for slopes, [H, N] for a strip. */
gnomon_status gnomon_plan_gradient_bias(const gnomon_plan_gradient* gradient,
                                        const gnomon_tensor* out);
void gnomon_plan_gradient_destroy(gnomon_plan_gradient* gradient);

typedef struct gnomon_attention_gradient {
  size_t size;                    /* sizeof(gnomon_attention_gradient) */
  const gnomon_tensor *q, *k, *v; /* shapes of the inputs; overwritten */
  gnomon_plan_gradient* plan;     /* or NULL */
  const gnomon_tensor* dense;     /* float32 [B, H, T, S], of a dense bias; or NULL */
  const gnomon_tensor* gates;     /* float32 [B, H, T], or NULL */
  const gnomon_tensor* sinks;     /* float64 [H], contiguous, or NULL */
} gnomon_attention_gradient;
gnomon_status gnomon_attention_backward(const gnomon_attention_input* input,
                                        const gnomon_layer_plan* plan, const gnomon_tensor* out,
                                        const gnomon_tensor* lse, const gnomon_tensor* out_grad,
                                        const gnomon_attention_gradient* gradient);

/* --- Model: encodings by name (component gnomon::model) ----------------------------------- */

/* Lists the encodings as JSON, in the order of `gnomon list`: [{"name": "rotary", "title":
 * "Rotary (RoPE)", "places": ["queries and keys"], "summary", "formula", "source", "users",
 * "page": "rotary/rotary.md", "causal": false, "contents": false, "terms": false}]. causal:
 * causal attention only. contents: scores depend on contents otherwise than by q . k, so that a
 * matrix of biases does not exist. terms: attention requires gnomon_encoding_terms. */
gnomon_status gnomon_encodings(char** json);

/* A positional encoding with its settings. */
typedef struct gnomon_encoding gnomon_encoding;
/* Makes an encoding from JSON, for example
 * {"kind": "rotary", "rotary_dim": 64, "pairing": "halves", "base": 10000.0}. */
gnomon_status gnomon_encoding_from_json(const char* json, gnomon_encoding** out);
/* Makes an encoding with the settings that most models of this shape use. name: a name printed
 * by `gnomon list`. length: the training length, in tokens. reads: a gnomon_visibility, the
 * keys that a query sees. */
gnomon_status gnomon_encoding_from_name(const char* name, int64_t width, int64_t heads,
                                        int64_t length, int32_t reads, gnomon_encoding** out);
gnomon_status gnomon_encoding_to_json(const gnomon_encoding* encoding, char** json);
/* Lists the trained matrices of the encoding: [{"name": "buckets", "rows": 32, "columns": 8,
 * "initial_deviation": 0.02, "initial_mean": 0}], and "initial", row by row, if a matrix does
 * not begin with random values. */
gnomon_status gnomon_encoding_parameters(const gnomon_encoding* encoding, char** json);
/* Fills parameter `index` of the encoding with the values that `gnomon check` and `gnomon plot`
 * use: random, the same on every machine, or those with which training begins. values: float32
 * [rows, columns]. */
gnomon_status gnomon_encoding_random_parameter(const gnomon_encoding* encoding, int64_t index,
                                               const gnomon_tensor* values);
/* Fills out, float32 [N], with normal random numbers of the same generator. */
gnomon_status gnomon_normal(uint64_t seed, const gnomon_tensor* out);
void gnomon_encoding_destroy(gnomon_encoding* encoding);

/* Makes the frequencies of a rotary encoding for a declared context length; 0: the length in
 * the encoding. */
gnomon_status gnomon_encoding_frequencies(const gnomon_encoding* encoding, int64_t length,
                                          gnomon_frequencies** out);
/* Lowers an encoding to a plan. The `queries` tokens are the last of `keys` tokens at positions
 * 0 to keys - 1. values: `count` tensors, float32 [rows, columns], one for each parameter. The
 * caller sets the mask of the plan. */
gnomon_status gnomon_encoding_lower(const gnomon_encoding* encoding,
                                    const gnomon_tensor* const* values, int64_t count,
                                    int64_t queries, int64_t keys, gnomon_layer_plan** out);
/* Computes the terms of an encoding that depends on what the tokens hold, from the input of the
 * layer, x: float32 [B, T, C]. Fails if the encoding has no terms. */
gnomon_status gnomon_encoding_terms(const gnomon_encoding* encoding,
                                    const gnomon_tensor* const* values, int64_t count,
                                    const gnomon_tensor* x, gnomon_terms** out);
/* Adds the gradient with respect to the parameters to grads, which have the shapes of values.
 * gradient: that of the plan. table_grad: float32 [queries, C], the gradient of a table that is
 * added to the embeddings; or NULL. */
gnomon_status gnomon_encoding_lower_backward(const gnomon_encoding* encoding,
                                             const gnomon_tensor* const* values, int64_t count,
                                             int64_t queries, int64_t keys,
                                             const gnomon_plan_gradient* gradient,
                                             const gnomon_tensor* table_grad,
                                             const gnomon_tensor* const* grads);

/* Measures the properties claimed for an encoding of the list and gives a verdict on each, as
 * JSON with the keys of `gnomon check NAME --json` (gnomon/verdicts/verdicts.h). width: C;
 * trained: positions of a training window; length: measured positions. Usual sizes: 128, 4,
 * 128, 512. */
gnomon_status gnomon_encoding_check(const char* name, int64_t width, int64_t heads,
                                    int64_t trained, int64_t length, char** json);

/* --- Model: released models --------------------------------------------------------------- */

/* A released model, read from its configuration. `path`: a config.json, a folder that contains
 * one, or a .gguf file. */
typedef struct gnomon_model gnomon_model;
gnomon_status gnomon_model_open(const char* path, gnomon_model** out);
gnomon_status gnomon_model_from_config(const char* json, gnomon_model** out);
/* The same for a model_type that is not known: its config does not contain the pairing. */
gnomon_status gnomon_model_from_config_assuming(const char* json, int32_t pairing,
                                                gnomon_model** out);
/* Writes the model as JSON, as `gnomon inspect --json` prints it. */
gnomon_status gnomon_model_to_json(const gnomon_model* model, char** json);
/* The same at a declared length in tokens, as `gnomon inspect --length` prints it. */
gnomon_status gnomon_model_to_json_at(const gnomon_model* model, int64_t length, char** json);
void gnomon_model_destroy(gnomon_model* model);

/* Lists the trained matrices of the positions and the attention of a layer, in the order of
 * `values`: [{"name": "sinks", "rows": 64, "columns": 1}]. part: "" for a decoder-only
 * model. */
gnomon_status gnomon_model_layer_parameters(const gnomon_model* model, const char* part,
                                            int64_t layer, char** json);

/* Positions and sequences of the tokens of a forward pass. */
typedef struct gnomon_tokens {
  size_t size;                          /* sizeof(gnomon_tokens) */
  const gnomon_tensor* query_ids;       /* int64 [B or 1, T], or [A, B or 1, T] for M-RoPE */
  const gnomon_tensor* query_sequences; /* int32 [B or 1, T]; -1: padding; NULL: one sequence */
  const gnomon_tensor* key_ids;         /* as query_ids, for all S keys; NULL: see `cached` */
  const gnomon_tensor* key_sequences;   /* int32 [B or 1, S]; NULL: one sequence */
  int64_t cached; /* without key_ids: the keys are `cached` tokens at consecutive positions that
                     precede the queries, then the queries */
  int64_t length; /* declared context length (dynamic NTK, LongRoPE); 0: training length */
} gnomon_tokens;

/* Makes the plan of a layer, with its mask. values: `count` float32 tensors, one for each
 * parameter. A tensor whose data is NULL means norm weights of 1 and biases of 0.
 * gnomon_prepare applies the rotations. */
gnomon_status gnomon_model_lower_layer(const gnomon_model* model, const char* part,
                                       int64_t layer, const gnomon_tokens* tokens,
                                       const gnomon_tensor* const* values, int64_t count,
                                       gnomon_layer_plan** out);

#ifdef __cplusplus
}
#endif

#endif /* GNOMON_H_ */
