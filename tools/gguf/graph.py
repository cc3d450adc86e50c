"""The attention of each layer in a graph of llama.cpp: q, k and v of the projections, and output.

The softmax of a layer is found by its name. From there, the graph is read backwards: through
rotations, norms, scales and the KV cache to the outputs of the projections. Arrays have the axes
of GGML reversed: tokens, heads, elements of a head.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass, field

import llama_cpp
import numpy as np

LARGEST = 1 << 24  # bytes of a copied tensor
VIEWS = ("VIEW", "PERMUTE", "TRANSPOSE", "RESHAPE")


@dataclass
class Node:
    """A node of the graph, or a tensor that the graph reads (`op` is NONE)."""

    op: str
    name: str
    shape: tuple[int, ...]
    steps: tuple[int, ...]
    address: int  # of the values
    values: np.ndarray | None
    parameters: list[int]
    source: list[Node] = field(default_factory=list)


@dataclass
class Attention:
    """The attention of a layer. q, k, v: [T or S, heads, elements]; out: [T, heads, elements]."""

    layer: int
    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    out: np.ndarray
    cached: bool  # keys and values are read from the KV cache


class Recorder:
    """Collects the nodes of a graph. It is called after each node."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._known: dict[int, Node] = {}

    def clear(self) -> None:
        self.nodes.clear()
        self._known.clear()

    def __call__(self, tensor: llama_cpp.Tensor) -> None:
        node = self._node(tensor, llama_cpp.LIBRARY.ggml_op_name(tensor.op).decode())
        for one in tensor.src:
            if one:
                known = self._known.get(ctypes.addressof(one.contents))
                node.source.append(known or self._node(one.contents, "NONE"))
        self.nodes.append(node)

    def _node(self, tensor: llama_cpp.Tensor, op: str) -> Node:
        small = tensor.nb[3] * tensor.ne[3] <= LARGEST
        node = Node(op, tensor.name.decode(errors="replace"), tuple(tensor.ne[::-1]),
                    tuple(tensor.nb[::-1]), tensor.data or 0,
                    llama_cpp.array(tensor) if small else None, list(tensor.op_params))
        self._known[ctypes.addressof(tensor)] = node
        return node

    def attentions(self) -> Iterator[Attention]:
        for node in self.nodes:
            # A layer without key heads may have an empty softmax.
            if node.op == "SOFT_MAX" and node.name.startswith("kq_soft_max-") and all(node.shape):
                found = self._attention(node)
                if found.k.size:
                    yield found

    def _attention(self, softmax: Node) -> Attention:
        scores = softmax.source[0]
        while scores.op in ("SCALE", "UNARY", "ADD"):
            scores = scores.source[0]
        key, query = scores.source[:2]
        out = self._product(softmax)
        value = out.source[0]
        _, key_heads, _, head_dim = key.shape
        key_rows, value_rows = self._stored(key), self._stored(value)
        expanded = self._product(out)
        if expanded is not None and expanded.name.startswith("kqv_mla"):
            out = expanded
            q, k, v = absorbed(query, key_rows or key, out.source[0])
        else:
            q = raw(query)[0].transpose(1, 0, 2)
            k = (raw(key_rows).reshape(-1, key_heads, head_dim) if key_rows
                 else raw(key)[0].transpose(1, 0, 2))
            v = (raw(value_rows).reshape(-1, key_heads, value.shape[2]) if value_rows
                 else raw(value)[0].transpose(2, 0, 1))
        layer = int(softmax.name.rsplit("-", 1)[1])
        # MiMo-V2 scales the values, llama.cpp the output of the projection.
        scale = next((np.array(one.parameters[:1], np.int32).view(np.float32)[0]
                      for one in self.nodes if one.name == f"attn_out_scaled-{layer}"), 1)
        return Attention(layer, q, k, v, known(out)[0].transpose(1, 0, 2) * scale,
                         key_rows is not None)

    def _product(self, node: Node) -> Node | None:
        """Returns the product that has `node` as its right factor."""
        found = [one for one in self.nodes if one.op == "MUL_MAT" and one.source[1] is node]
        return found[0] if found else None

    def _stored(self, node: Node) -> Node | None:
        """Returns the rows that were written to the cache that `node` reads, if it reads one."""
        while node.source and node.op in (*VIEWS, "CONT", "CPY"):
            node = node.source[0]
        if not node.name.startswith("cache_"):
            return None
        # A row of the cache has other extents in each view; its first element has one address.
        rows = next(one.source[0] for one in reversed(self.nodes)
                    if one.op == "SET_ROWS" and one.address == node.address)
        owner = rows
        while owner.op in VIEWS:
            owner = owner.source[0]
        # Values are padded to the size of the layer with the most key heads.
        padded = owner.op == "PAD" and node.name.startswith("cache_v")
        return owner.source[0] if padded else rows


def absorbed(query: Node, key: Node, up: Node) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns q, k, v of latent attention. The graph has its up-projections in q and `up`."""
    content, turned = parts(query)
    latent, turned_key = parts(key)
    while content.op != "MUL_MAT":
        content = content.source[0]
    down, nope = content.source[:2]  # [H, latent, nope], [H, T, nope]
    heads, tokens = nope.shape[1:3]
    small = known(latent).reshape(tokens, -1)
    q = raw(nope)[0].transpose(1, 0, 2)
    k = np.einsum("hrd,tr->thd", known(down)[0], small)
    if turned and turned_key:  # one rotated key for all heads
        rotated = raw(turned).reshape(tokens, heads, -1)
        shared = np.broadcast_to(raw(turned_key).reshape(tokens, 1, -1), rotated.shape)
        q, k = np.concatenate([q, rotated], 2), np.concatenate([k, shared], 2)
    return q, k, np.einsum("hdr,tr->thd", known(up)[0], small)


def parts(node: Node) -> tuple[Node, Node | None]:
    """Returns the parts without and with rotation of a latent query or key."""
    while node.op in (*VIEWS, "CONT", "MUL"):  # MUL: the scale by position
        node = node.source[0]
    return (node.source[0], node.source[1]) if node.op == "CONCAT" else (node, None)


def known(node: Node) -> np.ndarray:
    if node.values is None:
        raise ValueError(f"the values of {node.name} were not copied")
    return node.values


def is_norm(node: Node) -> bool:
    """Whether a product or sum with a weight belongs to a norm."""
    while node.op in ("MUL", "ADD", "RESHAPE"):
        node = node.source[0]
    return node.op in ("NORM", "RMS_NORM", "L2_NORM")


def raw(node: Node) -> np.ndarray:
    """Returns the values of a node without rotations, norms and scales after the projection."""
    if node.op in ("ROPE", "RMS_NORM", "NORM", "L2_NORM", "SCALE", "CONT", "CPY", "DUP"):
        return raw(node.source[0]).reshape(node.shape)
    if node.op in ("MUL", "ADD") and (is_norm(node) or "attn_scale" in node.source[1].name):
        return raw(node.source[0]).reshape(node.shape)
    if node.op in VIEWS:
        owner = node
        while owner.op in VIEWS:
            owner = owner.source[0]
        inner = np.ascontiguousarray(raw(owner)).reshape(-1)
        begin = (node.address - owner.address) // inner.itemsize
        return np.lib.stride_tricks.as_strided(inner[begin:], node.shape, node.steps).copy()
    if node.op == "CONCAT":
        return np.concatenate([raw(one) for one in node.source[:2]], 3 - node.parameters[0])
    if node.op == "REPEAT":
        inner = raw(node.source[0])
        return np.tile(inner, [n // m for n, m in zip(node.shape, inner.shape)])
    return known(node)


def describe(nodes: list[Node]) -> list[str]:
    """Returns a line for each node, to find the names of an architecture."""
    return [f"{one.op:10} {one.name:40} {one.shape} <- "
            + ", ".join(source.name for source in one.source) for one in nodes]
