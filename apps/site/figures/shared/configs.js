// Fields of config.json of released models that decide the position encoding, from the models'
// pages on huggingface.co; Qwen2.5 with the addition that its page gives for long texts.
import {phi3} from './scalings.js';

const models = {
  'llama-3.1': ['Llama 3.1 8B', {
    model_type: 'llama', hidden_size: 4096, num_attention_heads: 32, num_key_value_heads: 8,
    num_hidden_layers: 32, max_position_embeddings: 131072, rope_theta: 500000,
    rope_scaling: {rope_type: 'llama3', factor: 8, low_freq_factor: 1, high_freq_factor: 4,
                   original_max_position_embeddings: 8192},
  }],
  'qwen2.5': ['Qwen2.5 7B, YaRN', {
    model_type: 'qwen2', hidden_size: 3584, num_attention_heads: 28, num_key_value_heads: 4,
    num_hidden_layers: 28, max_position_embeddings: 32768, rope_theta: 1000000,
    rope_scaling: {type: 'yarn', factor: 4, original_max_position_embeddings: 32768},
  }],
  'phi-3': ['Phi-3 mini 128k', {
    model_type: 'phi3', hidden_size: 3072, num_attention_heads: 32, num_key_value_heads: 32,
    num_hidden_layers: 32, max_position_embeddings: 131072,
    original_max_position_embeddings: 4096, rope_theta: 10000,
    rope_scaling: {type: 'longrope', short_factor: phi3.short, long_factor: phi3.long},
  }],
  'internlm2': ['InternLM2 7B', {
    model_type: 'internlm2', hidden_size: 4096, num_attention_heads: 32, num_key_value_heads: 8,
    num_hidden_layers: 32, max_position_embeddings: 32768, rope_theta: 1000000,
    rope_scaling: {type: 'dynamic', factor: 2},
  }],
  'gemma-3': ['Gemma 3 4B', {
    model_type: 'gemma3_text', hidden_size: 2560, num_attention_heads: 8, num_key_value_heads: 4,
    head_dim: 256, num_hidden_layers: 34, max_position_embeddings: 131072, sliding_window: 1024,
    rope_theta: 1000000, rope_local_base_freq: 10000,
    rope_scaling: {rope_type: 'linear', factor: 8},
  }],
  'llama-2': ['Llama 2 7B', {
    model_type: 'llama', hidden_size: 4096, num_attention_heads: 32, num_key_value_heads: 32,
    num_hidden_layers: 32, max_position_embeddings: 4096, rope_theta: 10000, rope_scaling: null,
  }],
  'mpt': ['MPT 7B (ALiBi)', {
    model_type: 'mpt', d_model: 4096, n_heads: 32, n_layers: 32, max_seq_len: 2048,
    attn_config: {alibi: true, alibi_bias_max: 8},
  }],
};

// Two spaces, but a list of numbers on one line.
const written = config => JSON.stringify(config, null, 2)
    .replace(/\[[^\]]*\]/g, list => list.replace(/\s+/g, ' '));

/** [{value, title, text}]: the text is a config.json. */
export const configs = Object.entries(models).map(
    ([value, [title, config]]) => ({value, title, text: written(config)}));
