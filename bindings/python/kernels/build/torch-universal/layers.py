"""Layers that `kernels.kernelize` puts in place of the forward of layers of a model."""

from torch import Tensor, nn

from gnomon import torch as gnomon_torch

# `kernels` requires classes without constructor and without other members than these two.


class apply_rotary_transformers(nn.Module):  # noqa: N801, the name that transformers uses
    """The function apply_rotary_pos_emb of Llama and others; layer name "rotary_pos_emb"."""

    has_backward = True
    can_torch_compile = True

    def forward(self, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor,
                unsqueeze_dim: int = 1) -> tuple[Tensor, Tensor]:
        return gnomon_torch.apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=unsqueeze_dim)


class CausalAttention(nn.Module):
    """Causal attention of q [B, H, T, D] and k, v [B, Hk, S, D]; Hk divides H.

    If the replaced module has an attribute `encoding` (a spec, or several), its rotation or bias
    is applied, and its parameters are those of the attribute `matrices`, a sequence of tensors.
    The queries are the last T of the S tokens (bottom-right mask).
    """

    has_backward = True
    can_torch_compile = True

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return gnomon_torch.attention(q, k, v, getattr(self, "encoding", None),
                                      getattr(self, "matrices", ()), layout="heads_tokens")
