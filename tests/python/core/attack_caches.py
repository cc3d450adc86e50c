"""Hand-made calls of caches, graphs, tables, compressed keys, convolutions and DAPE for attack.py.

Their arguments fit each other, so that many calls succeed.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from attack_values import CONFIG, SPECS, Draw

import gnomon
import gnomon.model
from gnomon import _core


def _compressed_plan() -> gnomon.Plan:
    model = gnomon.model.from_pretrained(
        {
            "model_type": "deepseek_v4", "num_hidden_layers": 1, "num_attention_heads": 2,
            "hidden_size": 16, "head_dim": 8, "qk_rope_head_dim": 4, "layer_types":
            ["compressed_sparse_attention"], "index_n_heads": 2, "index_head_dim": 8,
        }
    )  # fmt: skip
    zeros = [np.zeros((one.rows, one.columns), np.float32) for one in model.parameters(0)]
    return model.lower(0, 8, parameters=zeros)


COMPRESSED = _compressed_plan()
INKLING = {
    "model_type": "inkling_text", "hidden_size": 8, "num_hidden_layers": 1,
    "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4,
    "swa_num_attention_heads": 2, "swa_num_key_value_heads": 1, "swa_head_dim": 4,
    "sliding_window_size": 5, "d_rel": 6, "rel_extent": 9, "log_scaling_n_floor": 4,
    "layer_types": ["hybrid"], "conv_kernel_size": 4, "max_position_embeddings": 64,
}  # fmt: skip


def _with_terms() -> tuple[gnomon.model.Model, gnomon.Plan]:
    model = gnomon.model.from_pretrained(INKLING)
    ones = [np.ones((one.rows, one.columns), np.float32) for one in model.parameters(0)]
    return model, model.lower(0, 3, parameters=ones)


TERMS, TERMS_PLAN = _with_terms()
LAYER = gnomon.model.from_pretrained(json.loads(CONFIG)).lower(0, 3)
PLAIN = gnomon.lower(None, 3, visibility="causal")
VJEPA = gnomon.lower(
    gnomon.Vjepa2(head_dim=24, grid=(1, 1, 3)), 3, visibility="bidirectional"
)


def _small(x: Any) -> Any:
    """Without broadcast arrays of 2^31 rows, whose resampling takes minutes."""
    return None if np.size(x) > 10**6 else x


def calls(d: Draw) -> dict[str, Any]:
    t = 3
    x = lambda: d.array(1, t, 2, 4)  # noqa: E731
    maybe = lambda make: make() if d.one_in(4) else None  # noqa: E731
    number = lambda: d.few() if d.one_in(4) else 0  # noqa: E731
    packed = lambda: d.random.choice([COMPRESSED] * 3 + [d.of(d.plans)])  # noqa: E731
    network = lambda: [d.array(3, 4), d.array(3), d.array(2, 3), d.array(2)]  # noqa: E731

    def started(**options: Any) -> gnomon.PagedKvCache:
        cache = gnomon.PagedKvCache(**options)
        cache.start(), cache.start()
        return cache

    return {
        "KvCache": lambda: d.keep(
            d.caches,
            gnomon.KvCache(
                capacity=d.integer() if d.one_in(3) else 8,
                heads=d.integer() if d.one_in(5) else 2,
                head_dim=d.integer() if d.one_in(5) else 4,
                batch=d.integer() if d.one_in(5) else 1,
                axes=d.integer() if d.one_in(5) else 1,
                encoding=d.random.choice([SPECS[0], None, d.spec()]),
                dtype=d.text("float32", "float16"),
                window=d.integer() if d.one_in(3) else 0,
            ),
        ),
        "PagedKvCache": lambda: d.keep(
            d.paged,
            started(
                blocks=d.integer() if d.one_in(5) else 6,
                block_size=d.integer() if d.one_in(3) else 4,
                heads=d.integer() if d.one_in(5) else 2,
                head_dim=d.integer() if d.one_in(5) else 4,
                axes=d.integer() if d.one_in(5) else 1,
                encoding=d.random.choice([SPECS[0], None, d.spec()]),
                dtype=d.text("float32", "float16", "int8", "float8_e4m3fn"),
                key_scales=[d.number()] if d.one_in(4) else (),
                value_scales=[d.number()] if d.one_in(4) else (),
            ),
        ),
        "PagedKvCache.start": lambda: d.of(d.paged).start(),
        "PagedKvCache.fork": lambda: d.of(d.paged).fork(number(), maybe(number)),
        "PagedKvCache.append": lambda: d.of(d.paged).append(
            d.array(t, 2, 4), d.array(t, 2, 4), number() if d.one_in(2) else [0, 1],
            maybe(lambda: [0, 1, 3] if d.one_in(2) else d.ids(3)), maybe(d.tokens),
            table=maybe(lambda: d.of(d.tables)),
        ),
        "PagedKvCache.truncate": lambda: d.of(d.paged).truncate(number(), number()),
        "PagedKvCache.end": lambda: d.of(d.paged).end(number()),
        "PagedKvCache.views": lambda: (
            repr(d.of(d.paged)),
            np.sum(d.of(d.paged).keys, dtype="f8"),
            np.sum(d.of(d.paged).values, dtype="f8"),
        ),
        "PagedKvCache.tokens": lambda: (
            d.of(d.paged).block_table([number()]),
            d.of(d.paged).key_lengths(number()),
            d.of(d.paged).positions(number()),
            d.of(d.paged).room(number()),
            d.of(d.paged).blocks_needed([number()], maybe(lambda: d.ids(2))),
        ),
        "rotate_append": lambda: gnomon.rotate_append(
            d.array(t, 2, 4), maybe(lambda: d.array(t, 2, 4)), maybe(lambda: d.of(d.tables)),
            d.array(2, 3, 2, 4), maybe(lambda: d.array(2, 3, 2, 4)),
            slots=maybe(lambda: d.ids(t)) if d.one_in(3) else np.arange(t),
            entries=maybe(lambda: d.ids(t)) if d.one_in(3) else None,
            key_scales=maybe(lambda: d.array(2)) if d.one_in(3) else None,
        ),
        "KvCache.append": lambda: d.of(d.caches).append(
            x(), x(), maybe(d.tokens), table=maybe(lambda: d.of(d.tables))
        ),
        "KvCache.insert": lambda: d.of(d.caches).insert(
            d.few(), x(), x(), maybe(d.tokens), table=maybe(lambda: d.of(d.tables))
        ),
        "KvCache.remove": lambda: d.of(d.caches).remove(d.few(), d.few()),
        "KvCache.drop": lambda: d.of(d.caches).drop(d.few(), d.few()),
        "KvCache.shift": lambda: d.of(d.caches).shift(d.few(), d.few(), d.integer()),
        "KvCache.change_frequencies": lambda: d.of(d.caches).change_frequencies(
            d.random.choice([SPECS[0], d.of(d.frequencies)])
        ),
        "KvCache.truncate": lambda: d.of(d.caches).truncate(d.few()),
        "KvCache.positions": lambda: (
            repr(d.of(d.caches)),
            np.sum(d.of(d.caches).keys, dtype="f8"),
            np.sum(d.of(d.caches).values, dtype="f8"),
            d.of(d.caches).positions(d.integer() if d.one_in(3) else 0),
        ),
        "SegmentMemory": lambda: d.keep(
            d.memories,
            gnomon.SegmentMemory(
                memory=d.integer() if d.one_in(3) else 4,
                segment=d.integer() if d.one_in(3) else 3,
                heads=2,
                head_dim=4,
                encoding=d.spec() if d.one_in(3) else None,
            ),
        ),
        "SegmentMemory.append": lambda: [
            np.sum(one) for one in d.of(d.memories).append(x(), x(), table=maybe(
                lambda: d.of(d.tables)))[:2]
        ],
        "Graph": lambda: d.keep(
            d.graphs,
            gnomon.Graph(
                d.integer() if d.one_in(3) else 9,
                d.ids(3, 2),
                d.text("undirected", "directed"),
            ),
        ),
        "Graph.distances": lambda: (
            d.of(d.graphs).distances(d.integer() if d.one_in(3) else 5),
            d.of(d.graphs).components(),
            d.of(d.graphs).in_degrees(),
            d.of(d.graphs).return_probabilities(d.random.randrange(9)),
        ),
        "Graph.laplacian_vectors": lambda: d.of(d.graphs).laplacian_vectors(
            d.random.randrange(9),
            kind=d.text("symmetric", "combinatorial"),
            zeros=d.text("skip_one", "skip_all"),
            signs=d.text("fixed", "random"),
        ),
        "Graph.degree_table": lambda: d.of(d.graphs).degree_table(
            d.array(4, 2), d.array(4, 2), beyond=d.text("capped", "refused")
        ),
        "Graph.graphormer_bias": lambda: d.of(d.graphs).graphormer_bias(
            gnomon.Graphormer(heads=2, unreachable=2, token=d.text("none", "first"),
                              given="once"),
            d.array(4, 2),
            token=maybe(lambda: d.array(2)) if d.one_in(3) else np.zeros(2, "f4"),
            given=maybe(lambda: d.array(9, 9)),
        ),
        "resize_table": lambda: gnomon.resize_table(
            _small(d.array(9, 2)),
            d.random.choice([d.random.randrange(99), (3, 2), (d.integer(), 2)]),
            maybe(lambda: d.random.choice([9, (3, 3), (d.integer(), d.integer())])),
            preset=d.text("vit", "linear", "siglip2", "qwen3-vl"),
            extra_rows=maybe(d.integer),
        ),
        "PagedKvCache.end": lambda: d.of(d.paged).end(number()),
        "PagedKvCache.truncate": lambda: d.of(d.paged).truncate(number(), number()),
        "PagedKvCache.block_table": lambda: d.of(d.paged).block_table(
            number() if d.one_in(2) else [0, 1]
        ),
        "PagedKvCache.key_lengths": lambda: d.of(d.paged).key_lengths([number(), 1]),
        "PagedKvCache.blocks_needed": lambda: d.of(d.paged).blocks_needed(
            number(), maybe(lambda: [0, d.few()])
        ),
        "PagedKvCache.change_frequencies": lambda: d.of(d.paged).change_frequencies(
            d.random.choice([SPECS[0], d.of(d.frequencies)])
        ),
        "CompressedKeys": lambda: d.keep(
            d.compressed,
            gnomon.CompressedKeys(
                packed(),
                capacity=d.integer() if d.one_in(3) else 4,
                batch=d.integer() if d.one_in(5) else 1,
                dtype=d.text("float32", "float16"),
            ),
        ),
        "CompressedKeys.append": lambda: d.of(d.compressed).append(
            d.array(1, 4, 2, 8), d.array(1, 4, 2, 8)
        ),
        "compress_keys": lambda: gnomon.compress_keys(
            d.array(1, 8, 2, 8), d.array(1, 8, 2, 8), packed(), index=d.one_in(2)
        ),
        "compress_keys_backward": lambda: gnomon.compress_keys_backward(
            d.array(1, 8, 2, 8), d.array(1, 8, 2, 8), packed(), d.array(1, 2, 1, 8),
            values_grad=d.array(1, 8, 2, 8),
            gates_grad=maybe(lambda: d.array(1, 8, 2, 8)),
        ),
        "select_keys": lambda: gnomon.select_keys(
            d.array(1, 8, 2, 8), d.array(1, 8, 2), d.array(1, 2, 1, 8), packed()
        ),
        "compressed_attention": lambda: gnomon.compressed_attention(
            d.array(1, 8, 2, 8), d.array(1, 8, 1, 8), d.array(1, 2, 1, 8), packed(),
            selected=maybe(lambda: d.array(1, 8, 2)),
            out=maybe(lambda: d.array(1, 8, 2, 8)),
            lse=maybe(lambda: d.array(1, 2, 8)),
        ),
        "compressed_attention_backward": lambda: gnomon.compressed_attention_backward(
            d.array(1, 8, 2, 8), d.array(1, 8, 1, 8), d.array(1, 2, 1, 8), packed(),
            d.array(1, 8, 2, 8), d.array(1, 2, 8), d.array(1, 8, 2, 8),
            q_grad=d.array(1, 8, 2, 8), kv_grad=d.array(1, 8, 1, 8),
            entries_grad=d.array(1, 2, 1, 8),
            selected=maybe(lambda: d.array(1, 8, 2)),
        ),
        "convolve": lambda: gnomon.convolve(
            d.array(1, t, 4), d.array(4, 3),
            order=d.text("oldest_first", "newest_first"),
            scale=d.number() or 1.0,
            dynamic=maybe(lambda: d.array(1, t, 2, 3)),
            state=maybe(lambda: d.array(1, 2, 4)),
            out=maybe(lambda: d.array(1, t, 4)),
            tokens=maybe(lambda: d.of(d.positions)),
        ),
        "dape_attention": lambda: gnomon.dape_attention(
            x(), x(), x(), d.of(d.plans), network(), negative_slope=d.number() or 0.0,
            lse=maybe(lambda: d.array(1, 2, t)),
        ),
        "dape_attention_backward": lambda: gnomon.dape_attention_backward(
            x(), x(), x(), d.of([PLAIN]), network(), x(), d.array(1, 2, t), x(),
            q_grad=x(), k_grad=x(), v_grad=x(),
            network_grads=network() if d.one_in(2) else None,
        ),
        "rotate_append": lambda: gnomon.rotate_append(
            x(), x(), d.of(d.tables), d.array(2, 4, 2, 4), d.array(2, 4, 2, 4),
            slots=np.array([[7, d.random.choice([-1, 3]), number()]]),
        ),
        "rotate_append (blocks)": lambda: gnomon.rotate_append(
            x(), x(), maybe(lambda: d.of(d.tables)), d.array(2, 4, 2, 4), d.array(2, 4, 2, 4),
            block_table=np.array([[0, number()]], "i4"),
            entries=np.array([[0, number(), d.random.choice([3, 5])]]),
            sequences=maybe(lambda: np.zeros((1, t), "i4")),
        ),
        "rotate_heads": lambda: _core.rotate_heads(
            d.array(1, t, 2, 24), d.array(1, t, 2, 24), d.of([VJEPA, VJEPA, *d.plans[:1]])
        ),
        "ModelDescription.compute_terms": lambda: TERMS._description.compute_terms(
            number(), d.text("", ""), d.of([TERMS_PLAN, LAYER]), d.array(1, t, 8)
        ),
        "Model.terms": lambda: d.random.choice([TERMS, d.released[0]]).terms(
            number(), d.array(1, t, 8), d.of([TERMS_PLAN, LAYER])
        ),
        "Model.lower": lambda: d.random.choice([TERMS, d.released[0]]).lower(
            number(), d.tokens(), maybe(d.tokens),
            parameters=[d.array(one.rows, one.columns) for one in TERMS.parameters(0)]
            if d.one_in(2) else (),
            cached=number(), length=number(),
        ),
        "gnomon.usual": lambda: gnomon.usual(
            d.text("alibi", "rotary", "shaw", "swin"),
            width=d.integer() if d.one_in(4) else 32,
            heads=d.integer() if d.one_in(4) else 4,
            length=d.integer() if d.one_in(4) else 16,
        ),
        "Rotary": lambda: gnomon.Rotary(
            rotary_dim=d.integer() if d.one_in(4) else 4,
            pairing=d.text("halves", "adjacent"),
            base=d.number() or 100.0,
            head_offset=d.few(),
        ),
        "ScaledRotary": lambda: gnomon.ScaledRotary(
            rotary_dim=d.integer() if d.one_in(4) else 4,
            pairing=d.text("halves", "adjacent"),
            scaling=d.random.choice([gnomon.NoScaling(), gnomon.LinearScaling(factor=2.0), 3]),
            length=d.integer() if d.one_in(4) else 64,
        ),
        "AxialRotary": lambda: gnomon.AxialRotary(
            parts=[gnomon.AxialPart(axis=d.few(), rotary_dim=d.random.choice([2, 4, d.few()]))],
            pairing=d.text("halves", "adjacent"),
            order=d.text("blocks", "interleaved"),
            grid=d.random.choice([(), (3, d.few())]),
        ),
        "Positions.ragged": lambda: gnomon.Positions.ragged(
            starts=maybe(lambda: [0, 1, d.few()]),
            lengths=[1, number()] if d.one_in(2) else None,
            offsets=maybe(lambda: [3, d.integer()]),
            tokens=maybe(d.integer),
        ),
    }
