"""Splits the projections of a layer into the heads of queries, keys and values."""

import torch

TRIPLES = (
    ("q_proj", "k_proj", "v_proj"),
    ("query", "key", "value"),
    ("q", "k", "v"),
    ("query_proj", "key_proj", "value_proj"),
    ("linear_q", "linear_k", "linear_v"),
)


def heads(flat, head_dim):
    return flat.reshape(*flat.shape[:2], -1, head_dim)


def stacked(x, sizes, head_dim):
    return [heads(part, head_dim) for part in x.split(sizes, dim=-1)]


def latent(m, of):
    """DeepSeek: keys are [nope of each head | rope of all heads]."""
    rope = m.qk_rope_head_dim
    q = heads(of(m.q_proj if m.q_lora_rank is None else m.q_b_proj), m.qk_head_dim)
    sizes = (*q.shape[:2], -1, m.qk_nope_head_dim + m.v_head_dim)
    expanded = of(m.kv_b_proj).reshape(sizes)
    k, v = expanded.split([m.qk_nope_head_dim, m.v_head_dim], dim=-1)
    shared = of(m.kv_a_proj_with_mqa)[..., -rope:].unsqueeze(2)
    return q, torch.cat([k, shared.expand(*k.shape[:3], rope)], -1), v


def mistral_large4(m, of):
    """Mistral Large 4: keys of layers that rotate are [nope of each head | rope of all heads]."""
    q = heads(of(m.q_proj), m.qk_head_dim)
    expanded = of(m.kv_b_proj).reshape(*q.shape[:2], -1, m.qk_nope_head_dim + m.v_head_dim)
    k, v = expanded.split([m.qk_nope_head_dim, m.v_head_dim], dim=-1)
    shared = of(m.kv_a_proj_with_mqa)[..., m.kv_lora_rank:].unsqueeze(2)
    return q, torch.cat([k, shared.expand(*k.shape[:3], shared.shape[-1])], -1), v


def differential(m, of):
    """DiffLlama: each key head has the values of two."""
    q, k, v = (heads(of(x), m.head_dim) for x in (m.q_proj, m.k_proj, m.v_proj))
    return q, k, torch.cat([one.repeat(1, 1, 2, 1) for one in v.chunk(2, dim=2)], -1)


def gated(m, of):
    """Qwen3-Next: q_proj returns [query | gate] for each head."""
    q, _ = heads(of(m.q_proj), 2 * m.head_dim).chunk(2, dim=-1)
    return q, heads(of(m.k_proj), m.head_dim), heads(of(m.v_proj), m.head_dim)


def per_head(name, dims):
    """Fused as [q | k | v] for each head."""

    def split(m, of):
        x = of(getattr(m, name))
        return [t.contiguous() for t in heads(x, 3 * dims(m)).chunk(3, dim=-1)]

    return split


def thirds(name, dims):
    """Fused as [all queries | all keys | all values]."""

    def split(m, of):
        x = of(getattr(m, name))
        return stacked(x, x.shape[-1] // 3, dims(m))

    return split


def head_dim(m):
    return m.head_dim


def phi3(m, of):
    x, kv = of(m.qkv_proj), m.num_key_value_heads * m.head_dim
    return stacked(x, [x.shape[-1] - 2 * kv, kv, kv], m.head_dim)


def bigcode(m, of):
    if not m.multi_query:
        return per_head("c_attn", head_dim)(m, of)
    return stacked(of(m.c_attn), [m.embed_dim, m.kv_dim, m.kv_dim], m.head_dim)


def codegen(m, of):
    """CodeGen: four blocks of [q | v | k], because it was trained on four TPU cores."""
    blocks = of(m.qkv_proj)
    blocks = blocks.reshape(*blocks.shape[:-1], 4, 3, -1)
    q, v, k = (blocks[..., i, :].reshape(*blocks.shape[:2], -1) for i in range(3))
    return [heads(x, m.head_dim) for x in (q, k, v)]


def falcon(m, of):
    x = of(m.query_key_value)
    if not m.new_decoder_architecture and m.multi_query:
        return stacked(x, [m.hidden_size, m.head_dim, m.head_dim], m.head_dim)
    if not m.new_decoder_architecture:
        return per_head("query_key_value", head_dim)(m, of)
    groups = x.reshape(*x.shape[:2], m.num_kv_heads, -1, m.head_dim)
    q = groups[..., :-2, :].flatten(2, 3)
    return q, groups[..., -2, :], groups[..., -1, :]


def deberta(m, of):
    """DeBERTa v1 fuses [q | k | v] for each head and adds biases to queries and values."""
    if not hasattr(m, "in_proj"):
        dim = m.attention_head_size
        return [heads(of(p), dim) for p in (m.query_proj, m.key_proj, m.value_proj)]
    q, k, v = per_head("in_proj", lambda m: m.attention_head_size)(m, of)
    return q + m.q_bias.view(q.shape[2:]), k, v + m.v_bias.view(v.shape[2:])


def vision(m, of):
    """[queries | keys | values] of patches that have no batch axis, or two axes of a grid."""
    x = of(m.qkv)
    batch = x.shape[0] if x.ndim == 4 else 1
    heads_of = getattr(m, "num_heads", None) or m.num_attention_heads
    return x.reshape(batch, -1, 3, heads_of, x.shape[-1] // 3 // heads_of).unbind(2)


FUSED = {
    "VisionAttention": vision,
    "Qwen3VLVisionAttention": vision,
    "Glm4vVisionAttention": vision,
    "SamVisionAttention": vision,
    "DisentangledSelfAttention": deberta,
    "GPTNeoXAttention": per_head("query_key_value", lambda m: m.head_size),
    "PersimmonAttention": per_head("query_key_value", head_dim),
    "Phi3Attention": phi3,
    "GPT2Attention": thirds("c_attn", head_dim),
    "GPTBigCodeAttention": bigcode,
    "ModernBertAttention": thirds("Wqkv", head_dim),
    "DiffLlamaAttention": differential,
    "BloomAttention": per_head("query_key_value", head_dim),
    "MistralLarge4TextAttention": mistral_large4,
    "ZayaAttention": lambda m, of: of(m.qkv_proj),
    "MptAttention": thirds("Wqkv", head_dim),
    "CodeGenAttention": codegen,
    "FalconAttention": falcon,
    "Qwen3NextAttention": gated,
    "Qwen3_5Attention": gated,
}


def split(module, of, q_dim=None, v_dim=None):
    """Returns q, k, v [B, T, H, D] of an attention module. of(m): last output of module m."""
    fused = FUSED.get(type(module).__name__)
    if fused:
        return fused(module, of)
    if hasattr(module, "kv_a_proj_with_mqa"):
        return latent(module, of)
    for names in TRIPLES:
        if all(isinstance(getattr(module, n, None), torch.nn.Module) for n in names):
            q, k, v = (of(getattr(module, n)) for n in names)
            return heads(q, q_dim), heads(k, q_dim), heads(v, v_dim)
    raise LookupError(f"{type(module).__name__}: projections are not known")
