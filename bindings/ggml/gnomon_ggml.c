#include "gnomon_ggml.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gnomon_context.h"
#include "gnomon_ggml_team.h"

/* What a layer is made from: a model, or a spec. */
typedef struct source {
  const gnomon_model* model;
  int64_t layer;
  const gnomon_tensor* const* values;
  int64_t count, length;
  gnomon_ggml_spec spec; /* without a model */
} source;

struct gnomon_ggml_layer {
  source from;
  gnomon_layer_plan* plan; /* of the tokens of the running graph */
  int64_t keys;            /* cached + T */
  int64_t* ids;            /* [A, T], the positions in 64 bits */
  int64_t capacity;        /* elements of ids */
  gnomon_ggml_team team;
  gnomon_context* context; /* with the team as its executor */
  int threads;             /* of the context */
  char error[512];         /* "": none */
};

/* --- Layers ------------------------------------------------------------------------------- */

static gnomon_status make_layer(const source* from, gnomon_ggml_layer** out) {
  gnomon_ggml_layer* const layer = calloc(1, sizeof(gnomon_ggml_layer));
  if (!layer) return GNOMON_OUT_OF_MEMORY;
  layer->from = *from;
  *out = layer;
  return GNOMON_OK;
}

gnomon_status gnomon_ggml_layer_from_model(const gnomon_model* model, int64_t layer,
                                           const gnomon_tensor* const* values, int64_t count,
                                           int64_t length, gnomon_ggml_layer** out) {
  const source from = {
      .model = model, .layer = layer, .values = values, .count = count, .length = length};
  return model && out ? make_layer(&from, out) : GNOMON_INVALID_ARGUMENT;
}

gnomon_status gnomon_ggml_layer_create(const gnomon_ggml_spec* spec, gnomon_ggml_layer** out) {
  if (!spec || !out || spec->size != sizeof(gnomon_ggml_spec)) return GNOMON_INVALID_ARGUMENT;
  const source from = {.spec = *spec};
  return make_layer(&from, out);
}

void gnomon_ggml_layer_destroy(gnomon_ggml_layer* layer) {
  if (!layer) return;
  gnomon_layer_plan_destroy(layer->plan);
  gnomon_context_destroy(layer->context);
  free(layer->ids);
  free(layer);
}

const char* gnomon_ggml_layer_error(const gnomon_ggml_layer* layer) {
  return layer && layer->error[0] ? layer->error : NULL;
}

/* Keeps the first error. */
static void fail(gnomon_ggml_layer* layer, const char* format, ...) {
  if (layer->error[0]) return;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(layer->error, sizeof layer->error, format, arguments);
  va_end(arguments);
}

static int succeeds(gnomon_ggml_layer* layer, gnomon_status status) {
  if (status != GNOMON_OK) fail(layer, "%s", gnomon_error_message());
  return status == GNOMON_OK;
}

/* --- Tensors ------------------------------------------------------------------------------ */

/* A tensor [B, T, H, D] of Gnomon with its shape and strides. */
typedef struct heads {
  gnomon_tensor tensor;
  int64_t shape[4], strides[4];
} heads;

static gnomon_data_type type_of(enum ggml_type type) {
  const gnomon_data_type f32 = {2, 32, 1}, f16 = {2, 16, 1}, bf16 = {4, 16, 1};
  return type == GGML_TYPE_F32 ? f32 : type == GGML_TYPE_F16 ? f16 : bf16;
}

/* token_axis: the axis of x of the tokens, 2 for [D, H, T, B] and 1 for [D, T, H, B]. */
static void view_heads(const struct ggml_tensor* x, int token_axis, heads* out) {
  const int axes[4] = {3, token_axis, 3 - token_axis, 0};
  for (int i = 0; i < 4; ++i) {
    out->shape[i] = x->ne[axes[i]];
    out->strides[i] = (int64_t)(x->nb[axes[i]] / ggml_type_size(x->type));
  }
  out->tensor = (gnomon_tensor){.data = x->data,
                                .device = {1, 0},
                                .ndim = 4,
                                .dtype = type_of(x->type),
                                .shape = out->shape,
                                .strides = out->strides};
}

/* Whether the elements and strides of x can be those of a gnomon_tensor. */
static int fits(gnomon_ggml_layer* layer, const char* name, const struct ggml_tensor* x) {
  if (!x) {
    fail(layer, "[ggml] %s must be given, got NULL", name);
    return 0;
  }
  const int is_float =
      x->type == GGML_TYPE_F32 || x->type == GGML_TYPE_F16 || x->type == GGML_TYPE_BF16;
  if (!is_float) {
    fail(layer, "[ggml] %s must be of F32, F16 or BF16, got %s", name, ggml_type_name(x->type));
    return 0;
  }
  const size_t element = ggml_type_size(x->type);
  int is_whole = x->nb[0] == element;
  for (int i = 1; i < GGML_MAX_DIMS; ++i) is_whole = is_whole && x->nb[i] % element == 0;
  if (!is_whole)
    fail(layer, "[ggml] %s must have a contiguous first axis and strides of whole elements",
         name);
  return is_whole;
}

/* --- Tokens ------------------------------------------------------------------------------- */

static gnomon_tensor ids_tensor(int64_t* data, int64_t* shape, int32_t rank) {
  return (gnomon_tensor){
      .data = data, .device = {1, 0}, .ndim = rank, .dtype = {0, 64, 1}, .shape = shape};
}

/* The plan of a layer without a model. positions: [1, T]. */
static gnomon_status lower_spec(const gnomon_ggml_spec* spec, const gnomon_tensor* positions,
                                int64_t cached, gnomon_layer_plan* plan) {
  gnomon_status status =
      gnomon_layer_plan_set_mask(plan, spec->visibility, cached, spec->left, spec->right);
  if (!status)
    status = gnomon_layer_plan_set_softmax(plan, spec->scale == 0 ? NAN : spec->scale,
                                           spec->cap, spec->sinks);
  if (!status && spec->slopes) status = gnomon_layer_plan_set_slopes(plan, spec->slopes);
  if (status || !spec->frequencies) return status;
  gnomon_rotary_table* table = NULL;
  status = gnomon_rotary_table_create(spec->frequencies, positions, &table);
  if (!status) status = gnomon_layer_plan_set_rotary(plan, table, table);
  if (!status) status = gnomon_layer_plan_rotate_in_prepare(plan);
  gnomon_rotary_table_destroy(table);
  return status;
}

static gnomon_status lower(const source* from, const gnomon_tensor* positions, int64_t cached,
                           gnomon_layer_plan** out) {
  if (from->model) {
    const gnomon_tokens tokens = {.size = sizeof(gnomon_tokens),
                                  .query_ids = positions,
                                  .cached = cached,
                                  .length = from->length};
    return gnomon_model_lower_layer(from->model, "", from->layer, &tokens, from->values,
                                    from->count, out);
  }
  gnomon_layer_plan* plan = NULL;
  gnomon_status status = gnomon_layer_plan_create(&plan);
  if (!status) status = lower_spec(&from->spec, positions, cached, plan);
  if (status) {
    gnomon_layer_plan_destroy(plan);
    return status;
  }
  *out = plan;
  return GNOMON_OK;
}

/* --- Work of thread 0 --------------------------------------------------------------------- */

/* Results of a computation that failed: NaN in each of the types. */
static void fill_with_nan(const struct ggml_tensor* x) {
  for (int64_t b = 0; b < x->ne[3]; ++b)
    for (int64_t i = 0; i < x->ne[2]; ++i)
      for (int64_t j = 0; j < x->ne[1]; ++j)
        memset(
            (char*)x->data + (size_t)b * x->nb[3] + (size_t)i * x->nb[2] + (size_t)j * x->nb[1],
            0xff, (size_t)x->ne[0] * x->nb[0]);
}

static void compute_tokens(gnomon_ggml_layer* layer, struct ggml_tensor* out) {
  const struct ggml_tensor *positions = out->src[0], *cached = out->src[1];
  const int64_t tokens = positions->ne[0], axes = positions->ne[1];
  layer->error[0] = '\0';
  gnomon_layer_plan_destroy(layer->plan);
  layer->plan = NULL;
  if (tokens * axes > layer->capacity) {
    free(layer->ids);
    layer->ids = malloc((size_t)(tokens * axes) * sizeof(int64_t));
    layer->capacity = layer->ids ? tokens * axes : 0;
    if (!layer->ids) {
      fail(layer, "out of memory");
      return;
    }
  }
  for (int64_t a = 0; a < axes; ++a) {
    const char* const row = (const char*)positions->data + (size_t)a * positions->nb[1];
    memcpy((char*)out->data + (size_t)a * out->nb[1], row, (size_t)tokens * sizeof(int32_t));
    for (int64_t t = 0; t < tokens; ++t) layer->ids[a * tokens + t] = ((const int32_t*)row)[t];
  }
  const int64_t before = cached ? *(const int32_t*)cached->data : layer->ids[0];
  layer->keys = before + tokens;
  int64_t shape[3] = {axes, 1, tokens};
  const int is_plain = axes == 1; /* [1, T] */
  const gnomon_tensor ids = ids_tensor(layer->ids, shape + is_plain, 3 - is_plain);
  succeeds(layer, lower(&layer->from, &ids, before, &layer->plan));
}

static void prepare(gnomon_ggml_layer* layer, const struct ggml_tensor* x, int is_keys) {
  heads given, other;
  view_heads(x, 2, &given);
  other = given; /* skipped */
  other.tensor.shape = other.shape, other.tensor.strides = other.strides;
  other.tensor.data = NULL;
  const int is_done =
      layer->plan &&
      succeeds(layer, gnomon_prepare(is_keys ? &other.tensor : &given.tensor,
                                     is_keys ? &given.tensor : NULL, NULL, layer->plan));
  if (!is_done) fill_with_nan(x);
}

static void attend(gnomon_ggml_layer* layer, const struct ggml_tensor* out) {
  heads q, k, v, to;
  view_heads(out->src[0], 1, &q);
  view_heads(out->src[1], 1, &k);
  view_heads(out->src[2], 1, &v);
  view_heads(out, 2, &to);
  if (layer->plan && layer->keys > k.shape[1])
    fail(layer, "[ggml] k and v must have a row for each of %lld tokens, got %lld",
         (long long)layer->keys, (long long)k.shape[1]);
  k.shape[1] = v.shape[1] = layer->keys;
  const gnomon_attention_input from = {
      .size = sizeof(gnomon_attention_input), .q = &q.tensor, .k = &k.tensor, .v = &v.tensor};
  const int is_done = layer->plan && !layer->error[0] &&
                      succeeds(layer, gnomon_attention(&from, layer->plan, &to.tensor, NULL));
  if (!is_done) fill_with_nan(out);
}

/* --- Operators ---------------------------------------------------------------------------- */

enum kind { of_tokens, of_queries, of_keys, of_attention };

/* The context of a layer, made again if ggml's number of threads has changed. NULL, for the
 * executor of the process, if it cannot be made. */
static gnomon_context* context_of(gnomon_ggml_layer* layer, int threads) {
  if (layer->context && layer->threads == threads) return layer->context;
  gnomon_context_destroy(layer->context);
  layer->context = NULL;
  layer->threads = threads;
  gnomon_context_create_on(gnomon_ggml_team_run, &layer->team, threads, &layer->context);
  return layer->context;
}

static void run(struct ggml_tensor* out, int thread, int threads, gnomon_ggml_layer* layer,
                enum kind kind) {
  if (thread == 0) {
    gnomon_context* const before = gnomon_context_use(context_of(layer, threads));
    if (kind == of_tokens)
      compute_tokens(layer, out);
    else if (kind == of_attention)
      attend(layer, out);
    else
      prepare(layer, out, kind == of_keys);
    gnomon_context_use(before);
  } else {
    gnomon_ggml_team_help(&layer->team);
  }
  gnomon_ggml_team_leave(&layer->team, thread, threads);
}

static void run_tokens(struct ggml_tensor* out, int thread, int threads, void* layer) {
  run(out, thread, threads, layer, of_tokens);
}
static void run_queries(struct ggml_tensor* out, int thread, int threads, void* layer) {
  run(out, thread, threads, layer, of_queries);
}
static void run_keys(struct ggml_tensor* out, int thread, int threads, void* layer) {
  run(out, thread, threads, layer, of_keys);
}
static void run_attention(struct ggml_tensor* out, int thread, int threads, void* layer) {
  run(out, thread, threads, layer, of_attention);
}

struct ggml_tensor* gnomon_ggml_tokens(struct ggml_context* ctx, gnomon_ggml_layer* layer,
                                       struct ggml_tensor* positions,
                                       struct ggml_tensor* cached) {
  layer->error[0] = '\0';
  if (!positions || positions->type != GGML_TYPE_I32 || positions->nb[0] != sizeof(int32_t) ||
      positions->ne[0] < 1 || positions->ne[2] != 1 || positions->ne[3] != 1)
    fail(layer, "[ggml] positions must be I32 [T] or [T, A], T at least 1");
  else if (cached && (cached->type != GGML_TYPE_I32 || ggml_nelements(cached) != 1))
    fail(layer, "[ggml] cached must be I32 [1]");
  if (layer->error[0]) return NULL;
  struct ggml_tensor* arguments[] = {positions, cached};
  return ggml_custom_4d(ctx, GGML_TYPE_I32, positions->ne[0], positions->ne[1], 1, 1, arguments,
                        cached ? 2 : 1, run_tokens, GGML_N_TASKS_MAX, layer);
}

static struct ggml_tensor* prepared(struct ggml_context* ctx, gnomon_ggml_layer* layer,
                                    const char* name, struct ggml_tensor* x,
                                    struct ggml_tensor* tokens, ggml_custom_op_t op) {
  if (!tokens) fail(layer, "[ggml] tokens must be given, got NULL");
  if (!fits(layer, name, x) || !tokens) return NULL;
  if (x->ne[2] != tokens->ne[0]) {
    fail(layer, "[ggml] %s must have %lld tokens, got %lld", name, (long long)tokens->ne[0],
         (long long)x->ne[2]);
    return NULL;
  }
  return ggml_custom_inplace(ctx, x, &tokens, 1, op, GGML_N_TASKS_MAX, layer);
}

struct ggml_tensor* gnomon_ggml_prepare_queries(struct ggml_context* ctx,
                                                gnomon_ggml_layer* layer, struct ggml_tensor* q,
                                                struct ggml_tensor* tokens) {
  return prepared(ctx, layer, "q", q, tokens, run_queries);
}
struct ggml_tensor* gnomon_ggml_prepare_keys(struct ggml_context* ctx, gnomon_ggml_layer* layer,
                                             struct ggml_tensor* k,
                                             struct ggml_tensor* tokens) {
  return prepared(ctx, layer, "k", k, tokens, run_keys);
}

struct ggml_tensor* gnomon_ggml_attend(struct ggml_context* ctx, gnomon_ggml_layer* layer,
                                       struct ggml_tensor* q, struct ggml_tensor* k,
                                       struct ggml_tensor* v, struct ggml_tensor* tokens) {
  if (!fits(layer, "q", q) || !fits(layer, "k", k) || !fits(layer, "v", v)) return NULL;
  if (!tokens || q->ne[1] != tokens->ne[0])
    fail(layer, "[ggml] q must have the tokens of gnomon_ggml_tokens, got %lld",
         (long long)q->ne[1]);
  else if (q->type != GGML_TYPE_F32)
    fail(layer, "[ggml] q must be of F32, got %s", ggml_type_name(q->type));
  else if (k->type != v->type)
    fail(layer, "[ggml] v must be of the type of k, %s, got %s", ggml_type_name(k->type),
         ggml_type_name(v->type));
  else if (q->ne[0] != k->ne[0] || k->ne[1] != v->ne[1] || k->ne[2] != v->ne[2] ||
           q->ne[2] % k->ne[2] || q->ne[3] != k->ne[3] || q->ne[3] != v->ne[3])
    fail(layer, "[ggml] q [D, T, H, B], k [D, S, Hk, B] and v [Dv, S, Hk, B] do not fit");
  if (layer->error[0]) return NULL;
  struct ggml_tensor* arguments[] = {q, k, v, tokens};
  return ggml_custom_4d(ctx, GGML_TYPE_F32, v->ne[0], q->ne[2], q->ne[1], q->ne[3], arguments,
                        4, run_attention, GGML_N_TASKS_MAX, layer);
}
