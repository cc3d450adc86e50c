/* gnomon.h of the component model, compiled as C11 with DLPack's own tensors. */
#include <dlpack/dlpack.h>

#include "check.h"

static const char config[] =
    "{\"model_type\": \"llama\", \"hidden_size\": 64, \"num_attention_heads\": 8,"
    " \"num_key_value_heads\": 2, \"num_hidden_layers\": 3, \"max_position_embeddings\": 128,"
    " \"rope_theta\": 500000.0}";

static void test_encodings(void) {
  gnomon_encoding* encoding = NULL;
  OK(gnomon_encoding_from_json(
      "{\"kind\": \"rotary\", \"rotary_dim\": 8, \"pairing\": \"adjacent\", \"base\": 100}",
      &encoding));
  char* json = NULL;
  OK(gnomon_encoding_to_json(encoding, &json));
  CHECK(strstr(json, "\"pairing\":\"adjacent\"") || strstr(json, "\"pairing\": \"adjacent\""));
  gnomon_encoding* again = NULL;
  OK(gnomon_encoding_from_json(json, &again));
  gnomon_free(json);
  gnomon_frequencies* frequencies = NULL;
  OK(gnomon_encoding_frequencies(again, 0, &frequencies));
  DLTensor inv_freq = make_tensor(kDLFloat, 64, 1, 4, 0, 0, 0);
  OK(gnomon_frequencies_get(frequencies, &inv_freq));
  CHECK(fabs(doubles(&inv_freq)[1] - pow(100, -0.25)) < 1e-15);
  gnomon_frequencies_destroy(frequencies);
  gnomon_encoding_destroy(encoding);
  gnomon_encoding_destroy(again);
  OK(gnomon_encoding_check("rotary", 64, 2, 32, 64, &json));
  CHECK(strstr(json, "\"promises\"") && strstr(json, "\"unique\":{\"word\":\"yes\""));
  gnomon_free(json);
  REFUSED(gnomon_encoding_check("rotary", 64, 2, 8, 64, &json),
          "trained must be 16 to 4096, got 8");
  REFUSED(gnomon_encoding_from_json("{\"kind\": \"none such\"}", &encoding), "none such");
  REFUSED(gnomon_encoding_from_json("{", &encoding), "JSON");
  enum { levels = 100000 };
  static char deep[2 * levels + 1];
  memset(deep, '[', levels);
  memset(deep + levels, ']', levels);
  REFUSED(gnomon_encoding_from_json(deep, &encoding), "at most 64 levels");
  REFUSED(gnomon_encoding_from_name("none such", 8, 1, 8, GNOMON_CAUSAL, &encoding),
          "none such");
}

/* The list of encodings, and values of parameters. */
static void test_list(void) {
  char* json = NULL;
  OK(gnomon_encodings(&json));
  CHECK(strstr(json, "[{\"name\":\"none\"") == json);
  const char* const rotary = strstr(json, "\"name\":\"rotary\"");
  CHECK(rotary && strstr(rotary, "\"places\":[\"queries and keys\"]"));
  CHECK(strstr(json, "\"contents\":true") && strstr(json, "\"causal\":true"));
  gnomon_free(json);
  REFUSED(gnomon_encodings(NULL), "json must be given");

  gnomon_encoding* t5 = NULL;
  OK(gnomon_encoding_from_name("t5", 32, 2, 64, GNOMON_CAUSAL, &t5));
  DLTensor buckets = make_tensor(kDLFloat, 32, 2, 32, 2, 0, 0);
  DLTensor numbers = make_tensor(kDLFloat, 32, 1, 64, 0, 0, 0);
  OK(gnomon_encoding_random_parameter(t5, 0, &buckets));
  OK(gnomon_normal(1, &numbers)); /* a table has deviation 1, the first one the seed 1 */
  CHECK(memcmp(buckets.data, numbers.data, 64 * sizeof(float)) == 0);
  double sum = 0, squares = 0;
  for (int i = 0; i < 64; ++i)
    sum += floats(&numbers)[i], squares += pow(floats(&numbers)[i], 2);
  CHECK(fabs(sum / 64) < 0.5 && fabs(squares / 64 - 1) < 0.6);
  REFUSED(gnomon_encoding_random_parameter(t5, 1, &buckets), "one of 1 parameters, got 1");
  REFUSED(gnomon_encoding_random_parameter(t5, 0, &numbers), "values must have 2 axes");
  gnomon_encoding_destroy(t5);
}

/* T5's buckets: the bias, and the gradient of the table. */
static void test_trained(void) {
  gnomon_encoding* t5 = NULL;
  OK(gnomon_encoding_from_name("t5", 32, 2, 64, GNOMON_CAUSAL, &t5));
  char* parameters = NULL;
  OK(gnomon_encoding_parameters(t5, &parameters));
  CHECK(strstr(parameters, "\"rows\":32") && strstr(parameters, "\"columns\":2"));
  gnomon_free(parameters);
  DLTensor buckets = make_tensor(kDLFloat, 32, 2, 32, 2, 0, 0), grads = buckets;
  grads.data = keep((64) * sizeof(float));
  draw(&buckets, 9);
  const DLTensor *values[] = {&buckets}, *to[] = {&grads};
  gnomon_layer_plan* plan = NULL;
  OK(gnomon_encoding_lower(t5, values, 1, 4, 4, &plan));
  OK(gnomon_layer_plan_set_mask(plan, GNOMON_CAUSAL, -1, -1, -1));
  DLTensor bias = make_tensor(kDLFloat, 64, 3, 2, 4, 4, 0);
  OK(gnomon_layer_plan_bias(plan, 0, &bias));
  CHECK(doubles(&bias)[16 + 0] == (double)floats(&buckets)[1]); /* head 1, distance 0 */

  DLTensor q = make_tensor(kDLFloat, 32, 4, 1, 4, 2, 16), k = q, v = q, out = q, out_grad = q;
  DLTensor* all[] = {&k, &v, &out, &out_grad};
  for (int i = 0; i < 4; ++i) all[i]->data = keep((4 * 2 * 16) * sizeof(float));
  draw(&q, 1), draw(&k, 2), draw(&v, 3), draw(&out_grad, 4);
  DLTensor lse = make_tensor(kDLFloat, 32, 3, 1, 2, 4, 0);
  gnomon_attention_input input = {.size = sizeof input, .q = &q, .k = &k, .v = &v};
  OK(gnomon_attention(&input, plan, &out, &lse));
  DLTensor q_grad = make_tensor(kDLFloat, 32, 4, 1, 4, 2, 16), k_grad = q_grad, v_grad = q_grad;
  k_grad.data = keep((128) * sizeof(float)), v_grad.data = keep((128) * sizeof(float));
  gnomon_plan_gradient* gradient = NULL;
  OK(gnomon_plan_gradient_create(&gradient));
  gnomon_attention_gradient wanted = {
      .size = sizeof wanted, .q = &q_grad, .k = &k_grad, .v = &v_grad, .plan = gradient};
  OK(gnomon_attention_backward(&input, plan, &out, &lse, &out_grad, &wanted));
  OK(gnomon_encoding_lower_backward(t5, values, 1, 4, 4, gradient, NULL, to));
  double sum = 0, size = 0; /* a constant added to all keys does not change the softmax */
  for (int i = 0; i < 64; ++i) sum += floats(&grads)[i], size += fabs(floats(&grads)[i]);
  CHECK(size > 0.01 && fabs(sum) < 1e-5 * size + 1e-6);
  REFUSED(gnomon_encoding_lower(t5, NULL, 1, 4, 4, &plan), "values must be given");
  REFUSED(gnomon_encoding_lower(t5, values, 0, 4, 4, &plan),
          "values must have a tensor for each of 1 parameters, got 0");
  gnomon_plan_gradient_destroy(gradient);
  gnomon_layer_plan_destroy(plan);
  gnomon_encoding_destroy(t5);
}

/* Forget gates (FoX): computed from the input of the layer, or set by the caller. */
static void test_terms(void) {
  enum { length = 5, heads = 2, size = 8, width = heads * size };
  gnomon_encoding* fox = NULL;
  OK(gnomon_encoding_from_name("fox", width, heads, 64, GNOMON_CAUSAL, &fox));
  char* json = NULL;
  OK(gnomon_encoding_parameters(fox, &json));
  CHECK(strstr(json, "\"rows\":16") || strstr(json, "\"columns\":16"));
  gnomon_free(json);
  DLTensor weight = make_tensor(kDLFloat, 32, 2, heads, width, 0, 0);
  DLTensor bias = make_tensor(kDLFloat, 32, 2, heads, 1, 0, 0);
  const DLTensor* values[] = {&weight, &bias};
  gnomon_layer_plan* plan = NULL;
  OK(gnomon_encoding_lower(fox, values, 2, length, length, &plan));
  OK(gnomon_layer_plan_set_mask(plan, GNOMON_CAUSAL, -1, -1, -1));
  DLTensor x = make_tensor(kDLFloat, 32, 3, 1, length, width, 0);
  DLTensor q = make_tensor(kDLFloat, 32, 4, 1, length, heads, size), k = q;
  k.data = keep(length * width * sizeof(float));
  draw(&x, 1), draw(&q, 2), draw(&k, 3);
  gnomon_attention_input input = {.size = sizeof input, .q = &q, .k = &k};
  DLTensor weights = make_tensor(kDLFloat, 64, 4, 1, heads, length, length);
  REFUSED(gnomon_attention_weights(&input, plan, &weights, NULL), "log_gates must be given");

  /* Weights and biases of 0: every gate is 1/2, so a key that is d back loses d ln 2. */
  gnomon_terms* terms = NULL;
  OK(gnomon_encoding_terms(fox, values, 2, &x, &terms));
  memset(q.data, 0, length * width * sizeof(float));
  input.terms = terms;
  OK(gnomon_attention_weights(&input, plan, &weights, NULL));
  for (int j = 0; j < length; ++j)
    CHECK(fabs(doubles(&weights)[4 * length + j] - pow(2, j) / 31) < 1e-6);
  gnomon_terms_destroy(terms);

  /* Token 2 forgets all before it. */
  OK(gnomon_terms_create(&terms));
  DLTensor gates = make_tensor(kDLFloat, 32, 3, 1, heads, length, 0);
  floats(&gates)[2] = floats(&gates)[length + 2] = -1000;
  REFUSED(gnomon_terms_set(terms, "gate", &gates), "name must be that of a token term");
  REFUSED(gnomon_terms_set(terms, "log_gates", &q), "3");
  OK(gnomon_terms_set(terms, "log_gates", &gates));
  OK(gnomon_terms_set(terms, "log_gates", &gates)); /* replaces the first */
  input.terms = terms;
  OK(gnomon_attention_weights(&input, plan, &weights, NULL));
  for (int j = 0; j < length; ++j)
    CHECK(fabs(doubles(&weights)[4 * length + j] - (j < 2 ? 0 : 1.0 / 3)) < 1e-6);
  DLTensor v = k, out = k;
  out.data = keep(length * width * sizeof(float));
  input.v = &v;
  OK(gnomon_prepare_with(&q, &k, NULL, plan, terms));
  OK(gnomon_attention(&input, plan, &out, NULL));
  CHECK(floats(&out)[0] == floats(&v)[0]);
  gnomon_terms_destroy(terms);
  gnomon_layer_plan_destroy(plan);
  gnomon_encoding_destroy(fox);
  OK(gnomon_encoding_from_name("rotary", width, heads, 64, GNOMON_CAUSAL, &fox));
  REFUSED(gnomon_encoding_terms(fox, NULL, 0, &x, &terms), "");
  gnomon_encoding_destroy(fox);
}

/* From a config to attention: the second pass, with a cache, repeats the whole pass. */
static void test_model(void) {
  gnomon_model* model = NULL;
  OK(gnomon_model_from_config(config, &model));
  char* json = NULL;
  OK(gnomon_model_to_json(model, &json));
  CHECK(strstr(json, "llama") != NULL);
  gnomon_free(json);
  OK(gnomon_model_to_json_at(model, 77, &json));
  CHECK(strstr(json, "\"length\":77") || strstr(json, "\"length\": 77"));
  gnomon_free(json);
  OK(gnomon_model_layer_parameters(model, "", 1, &json));
  CHECK(strcmp(json, "[]") == 0);
  gnomon_free(json);

  enum { length = 6, head_dim = 8, heads = 8, key_heads = 2 };
  DLTensor ids = make_tensor(kDLInt, 64, 2, 1, length, 0, 0);
  for (int t = 0; t < length; ++t) ((int64_t*)ids.data)[t] = t;
  gnomon_tokens tokens = {.size = sizeof tokens, .query_ids = &ids};
  gnomon_layer_plan* plan = NULL;
  OK(gnomon_model_lower_layer(model, "", 1, &tokens, NULL, 0, &plan));
  DLTensor q = make_tensor(kDLFloat, 64, 4, 1, length, heads, head_dim), out = q, last = q;
  DLTensor k = make_tensor(kDLFloat, 64, 4, 1, length, key_heads, head_dim), v = k;
  out.data = keep((length * heads * head_dim) * 8), v.data = keep((length * 2 * head_dim) * 8);
  draw(&q, 1), draw(&k, 2), draw(&v, 3);
  /* The last token alone, before all tokens are rotated in place. */
  DLTensor one = make_tensor(kDLFloat, 64, 4, 1, 1, heads, head_dim);
  DLTensor new_key = make_tensor(kDLFloat, 64, 4, 1, 1, key_heads, head_dim);
  memcpy(one.data, doubles(&q) + 5 * heads * head_dim, 8 * heads * head_dim);
  memcpy(new_key.data, doubles(&k) + 5 * key_heads * head_dim, 8 * key_heads * head_dim);
  OK(gnomon_prepare(&q, &k, &v, plan));
  gnomon_attention_input input = {.size = sizeof input, .q = &q, .k = &k, .v = &v};
  OK(gnomon_attention(&input, plan, &out, NULL));
  gnomon_layer_plan_destroy(plan);

  DLTensor id = make_tensor(kDLInt, 64, 2, 1, 1, 0, 0);
  ((int64_t*)id.data)[0] = 5;
  gnomon_tokens step = {.size = sizeof step, .query_ids = &id, .cached = 5};
  OK(gnomon_model_lower_layer(model, NULL, 1, &step, NULL, 0, &plan));
  OK(gnomon_prepare(&one, &new_key, NULL, plan));
  CHECK(memcmp(new_key.data, doubles(&k) + 5 * key_heads * head_dim,
               8 * key_heads * head_dim) == 0);
  last = make_tensor(kDLFloat, 64, 4, 1, 1, heads, head_dim);
  gnomon_attention_input decode = {.size = sizeof decode, .q = &one, .k = &k, .v = &v};
  OK(gnomon_attention(&decode, plan, &last, NULL));
  for (int i = 0; i < heads * head_dim; ++i)
    CHECK(fabs(doubles(&last)[i] - doubles(&out)[5 * heads * head_dim + i]) < 1e-12);
  gnomon_layer_plan_destroy(plan);

  REFUSED(gnomon_model_lower_layer(model, "", 3, &tokens, NULL, 0, &plan), "layer");
  CHECK(gnomon_model_from_config("{\"model_type\": 3}", &model) != GNOMON_OK);
  const char* unknown =
      "{\"model_type\": \"newmodel\", \"hidden_size\": 64, \"num_attention_heads\": 8, "
      "\"num_hidden_layers\": 2, \"max_position_embeddings\": 64, \"rope_theta\": 10000}";
  gnomon_model* assumed = NULL;
  CHECK(gnomon_model_from_config(unknown, &assumed) != GNOMON_OK);
  REFUSED(gnomon_model_from_config_assuming(unknown, (gnomon_pairing)0, &assumed), "pairing");
  REFUSED(gnomon_model_from_config_assuming(config, GNOMON_HALVES, &assumed), "only for");
  OK(gnomon_model_from_config_assuming(unknown, GNOMON_ADJACENT, &assumed));
  OK(gnomon_model_to_json(assumed, &json));
  CHECK(strstr(json, "\"adjacent\"") != NULL);
  gnomon_free(json);
  gnomon_model_destroy(assumed);
  REFUSED(gnomon_model_open("/nowhere/config.json", &model), "/nowhere");
  gnomon_model_destroy(model);
}

int main(void) {
  test_encodings();
  test_list();
  test_trained();
  test_terms();
  test_model();
  free_kept();
  printf("%d failures\n", failures);
  return failures != 0;
}
