"""Names and shapes of trained parameters in state dicts: those of the released models."""

from __future__ import annotations

import re
from typing import NamedTuple

from torch import Tensor

from .. import specs
from .._spec import Encoding, Parameter


class Stored(NamedTuple):
    """A parameter of an encoding as a state dict contains it.

    path: its name, with dots. shape: its shape. transposed: if the matrix [rows, columns] is the
    transpose of the stored one.
    """

    parameter: Parameter
    path: str
    shape: tuple[int, ...]
    transposed: bool

    def matrix(self, stored: Tensor) -> Tensor:
        """Returns the matrix [rows, columns] of a stored tensor; differentiable, no copy."""
        if self.transposed:
            return stored.t()
        return stored.reshape(self.parameter.rows, self.parameter.columns)


# Names in Hugging Face Transformers, unless a comment names another code. Parameters that are not
# listed have the name of spec.parameters().
_PATHS: dict[str, dict[str, str]] = {
    "learned": {"table": "weight"},  # any nn.Embedding: GPT-2 wpe, BERT, OPT
    "t5": {"buckets": "relative_attention_bias.weight"},
    "kerple": {"r1": "bias_a", "r2": "bias_p"},  # the authors' code, power kernel
    "kerple-logarithmic": {"r1": "bias_p", "r2": "bias_a"},
    "fire": {"w1": "mlp.0.weight", "b1": "mlp.0.bias", "w2": "mlp.2.weight", "b2": "mlp.2.bias",
             "c": "c", "multiplier": "L_multiplier"},  # listing of the paper, appendix E
    "swin": {"table": "relative_position_bias_table"},
    "swin-v2": {"w1": "continuous_position_bias_mlp.0.weight",
                "b1": "continuous_position_bias_mlp.0.bias",
                "w2": "continuous_position_bias_mlp.2.weight", "logit_scale": "logit_scale"},
    "wavlm": {"buckets": "rel_attn_embed.weight", "gate_weight": "gru_rel_pos_linear.weight",
              "gate_bias": "gru_rel_pos_linear.bias", "gate_constant": "gru_rel_pos_const"},
    "layout": {"text": "rel_pos_bias.weight", "x": "rel_pos_x_bias.weight",
               "y": "rel_pos_y_bias.weight"},
    "graphormer": {"spatial": "spatial_pos_encoder.weight"},
    "degree": {"in_degrees": "in_degree_encoder.weight",
               "out_degrees": "out_degree_encoder.weight"},
    "fourier-learned": {"frequencies": "Wr.weight"},  # W_r in the paper
    "cross-modal": {"types": "token_type_embeddings.weight"},
    "shaw": {"keys": "distance_embedding.weight"},
    "transformer-xl": {"w": "r_net.weight", "u": "r_w_bias", "v": "r_r_bias"},
    "deberta": {"embeddings": "rel_embeddings.weight", "key": "pos_proj.weight",
                "query": "pos_q_proj.weight", "query_bias": "pos_q_proj.bias",
                "norm_weight": "LayerNorm.weight", "norm_bias": "LayerNorm.bias"},
    "decomposed": {"height": "rel_pos_h", "width": "rel_pos_w"},
}
_CONFORMER = {"w": "linear_pos.weight", "u": "pos_bias_u", "v": "pos_bias_v"}
_VECTORS = {"c", "multiplier", "gate_bias", "query_bias", "norm_weight", "norm_bias"}


def stored(spec: Encoding) -> list[Stored]:
    """Returns the parameters of a spec, in the order of spec.parameters(), as they are stored."""
    return [_stored(spec, one) for one in spec.parameters()]


def _stored(spec: Encoding, one: Parameter) -> Stored:
    names = _PATHS.get(spec.kind, {})
    if isinstance(spec, specs.TransformerXl) and spec.sinusoid == "interleaved":
        names = _CONFORMER
    if isinstance(spec, specs.Kerple) and spec.kernel == "logarithmic":
        names = _PATHS["kerple-logarithmic"]
    path = names.get(one.name, one.name)
    if isinstance(spec, specs.AxialLearned) and spec.join == "concatenated":
        path = f"weights.{one.name.removeprefix('axis')}"  # Reformer
    shape: tuple[int, ...] = (one.rows, one.columns)
    transposed = isinstance(spec, specs.LayoutBias)  # stored as weights of a Linear
    if transposed:
        shape = (one.columns, one.rows)
    elif isinstance(spec, specs.Kerple) or one.name == "logit_scale":
        shape = (one.rows, 1, 1)
    elif one.name == "gate_constant":
        shape = (1, one.rows, 1, 1)
    elif path.startswith("weights."):
        axis, axes = int(path[8:]), len(spec.parameters())
        shape = tuple(one.rows if a == axis else 1 for a in range(axes)) + (one.columns,)
    elif one.name in _VECTORS or re.fullmatch(r"b\d+", one.name):
        shape = (one.rows * one.columns,)
    return Stored(one, path, shape, transposed)
