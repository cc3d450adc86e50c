"""Calls every callable of gnomon._core with drawn arguments: attack.py CALLS [SEED].

Each call must return, or raise ValueError, TypeError, OverflowError or MemoryError. Prints the
calls and the successes of each callable.
"""

from __future__ import annotations

import collections
import faulthandler
import pickle
import resource
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from attack_values import CONFIG, Draw, SPECS

import gnomon
from gnomon import _core


def calls(d: Draw) -> dict[str, Any]:  # one entry for each callable
    h, t = d.random.choice([1, 2]), 3
    x = lambda: d.array(1, t, 2, 4)  # noqa: E731
    plan = lambda: d.of(d.plans)  # noqa: E731
    matrices = lambda: [d.array(8, 8) for _ in range(d.random.randrange(3))]  # noqa: E731
    maybe = lambda make: make() if d.one_in(4) else None  # noqa: E731

    number = lambda: d.few() if d.one_in(4) else 0  # noqa: E731

    def started(**options: Any) -> gnomon.PagedKvCache:
        cache = gnomon.PagedKvCache(**options)
        cache.start(), cache.start()
        return cache

    def used(one: Any) -> Any:
        return repr(one), one == one, hash(one) if not isinstance(one, _core.Plan) else None

    return {
        "Positions": lambda: used(
            d.keep(d.positions, gnomon.Positions(d.ids(2, 3), maybe(lambda: d.ids(2, 3))))
        ),
        "consecutive": lambda: used(
            gnomon.Positions.consecutive(d.integer(), d.integer(), d.integer())
        ),
        "packed": lambda: used(
            gnomon.Positions.packed(
                [d.integer() for _ in range(d.random.randrange(4))], maybe(d.integer)
            )
        ),
        "from_padding_mask": lambda: used(gnomon.Positions.from_padding_mask(d.ids(2, 3))),
        "ids": lambda: (d.of(d.positions).ids.sum(), d.of(d.positions).sequences.sum()),
        "RotaryFrequencies": lambda: used(
            d.keep(
                d.frequencies,
                gnomon.RotaryFrequencies(
                    pairing=d.text("halves", "adjacent"),
                    inv_freq=[d.number() for _ in range(2)],
                    head_offset=d.integer(),
                    axes=[d.integer() for _ in range(d.random.choice([0, 0, 2]))],
                    table_scale=d.number(),
                ),
            )
        ),
        "rotary_frequencies": lambda: d.keep(
            d.frequencies, gnomon.rotary_frequencies(d.spec(), d.integer())
        ),
        "RotaryTable": lambda: d.keep(
            d.tables,
            gnomon.RotaryTable(
                d.spec() if d.one_in(2) else d.of(d.frequencies),
                d.tokens(),
                length=d.integer(),
                angles=d.text("exact", "float32"),
            ),
        ),
        "table.cos": lambda: (
            d.of(d.tables).cos.sum(),
            d.of(d.tables).sin.sum(),
            repr(d.of(d.tables)),
        ),
        "rotate": lambda: gnomon.rotate(
            x(), d.of(d.tables), d.text("forward", "inverse"), k=maybe(x), out=maybe(x)
        ),
        "rotate_rows": lambda: _core.rotate_rows(
            x(), x(), d.of(d.tables), maybe(d.integer), d.one_in(2), d.one_in(2)
        ),
        "rotate_with": lambda: _core.rotate_with(
            x(),
            x(),
            d.array(t, 2),
            d.array(t, 2),
            d.text("halves", "adjacent"),
            d.integer() if d.one_in(5) else 0,
            d.one_in(4),
            d.one_in(2),
        ),
        "find_encoding": lambda: _core.find_encoding(d.text("alibi", "rotary")),
        "info": lambda: _core.info(d.spec()),
        "usual": lambda: _core.usual(
            d.text(
                "rotary", "alibi", "swin", "beit", "shaw", "fire", "axial", "sinusoidal-grid"
            ),
            d.integer() if d.one_in(2) else 16,
            d.integer() if d.one_in(2) else h,
            d.integer(),
            d.text("causal", "bidirectional"),
        ),
        "scheme": lambda: _core.scheme(
            d.text("rotary", "alibi/rotary", "rotary:3/none", "rotary+alibi"),
            d.integer(),
            d.integer() if d.one_in(3) else 16,
            d.integer() if d.one_in(3) else h,
            d.integer(),
            d.text("causal", "bidirectional"),
        ),
        "complete": lambda: _core.complete(d.spec()),
        "parameters": lambda: _core.parameters(d.spec()),
        "stored_parameters": lambda: _core.stored_parameters(d.spec()),
        "capacity": lambda: _core.capacity(d.spec()),
        "enters": lambda: _core.enters(d.spec()),
        "softmax_factor": lambda: _core.softmax_factor(d.spec(), d.integer()),
        "properties": lambda: _core.properties(d.spec()),
        "lower": lambda: d.keep(
            d.plans,
            gnomon.lower(
                d.spec(),
                d.tokens(),
                maybe(d.tokens),
                parameters=matrices() if d.one_in(2) else (),
                visibility=d.text("causal", "bidirectional"),
                left=maybe(d.integer),
                right=maybe(d.integer),
                softmax_scale=maybe(d.number),
                cap=maybe(d.number),
                sinks=[1.0] * d.random.choice([0, 0, 2]),
                length=d.integer() if d.one_in(3) else 0,
            ),
        ),
        "plan": lambda: [
            getattr(plan(), name)
            for name in dir(_core.Plan)
            if name[0] != "_" and name != "bias"
        ],
        "plan.bias": lambda: plan().bias(maybe(d.integer), maybe(d.integer)),
        "attention": lambda: gnomon.attention(
            x(),
            x(),
            x(),
            plan(),
            out=maybe(x),
            lse=maybe(lambda: d.array(1, 2, t)),
            k_scales=d.array(1, t, 2) if d.one_in(12) else None,
            v_scales=None,
            terms={"gates": d.array(1, 2, t)} if d.one_in(12) else None,
            layout=d.text("tokens_heads", "tokens_heads", "heads_tokens"),
        ),
        "attention_backward": lambda: gnomon.attention_backward(
            x(),
            x(),
            x(),
            plan(),
            x(),
            d.array(1, 2, t),
            x(),
            q_grad=x(),
            k_grad=x(),
            v_grad=x(),
            terms=maybe(lambda: {"gates": d.array(1, 2, t)}),
            term_grads=maybe(lambda: {"gates": d.array(1, 2, t)}),
            sinks_grad=maybe(lambda: d.array(2)),
            parameter_grads=matrices() if d.one_in(2) else (),
        ),
        "add_position": lambda: gnomon.add_position(d.array(1, t, 8), plan()),
        "add_position_backward": lambda: _core.add_position_backward(
            d.array(1, t, 8), plan(), matrices()
        ),
        "prepare": lambda: gnomon.prepare(x(), maybe(x), maybe(x), plan()),
        "from_path": lambda: _core.ModelDescription.from_path(
            d.text(d.folder, "/nonexistent", "."), d.text(""), d.text("as-written"), None
        ),
        "from_config": lambda: d.keep(
            d.models,
            _core.ModelDescription.from_config(
                d.text(CONFIG, CONFIG, "{}", "[["),
                d.text("", "", "encoder"),
                d.text("as-written", "by-lengths"),
                maybe(lambda: d.text("halves", "adjacent")),
            ),
        ),
        "model": lambda: (d.of(d.models).to_json(maybe(d.integer)), d.of(d.models).groups()),
        "model.parameters": lambda: d.of(d.models).parameters(
            d.integer(), d.text("", "encoder")
        ),
        "model.lower_layer": lambda: d.keep(
            d.plans,
            d.of(d.models).lower_layer(
                d.integer() if d.one_in(3) else 0,
                maybe(d.tokens) if d.one_in(3) else d.tokens(),
                maybe(d.tokens),
                d.text("", ""),
                matrices() if d.one_in(6) else (),
                d.integer() if d.one_in(3) else 0,
                d.one_in(2),
                d.integer() if d.one_in(3) else 0,
                [d.integer() for _ in range(d.random.randrange(4))] if d.one_in(4) else None,
            ),
        ),
        "continuous": lambda: d.keep(
            d.tables,
            gnomon.RotaryTable(
                d.of(d.frequencies),
                d.random.choice([tuple, list])([d.array(3), d.array(3)][: d.random.choice([1, 2])])
                if d.one_in(2)
                else d.array(3),
            ),
        ),
        "RotaryTable.__setstate__": lambda: d.keep(
            d.tables,
            state(gnomon.RotaryTable, (d.of(d.frequencies), d.array(1, t, 2), d.array(1, t, 2))),
        ),
        "pickle of a plan": lambda: pickle.loads(pickle.dumps(plan())),
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
        "paged.start": lambda: d.of(d.paged).start(),
        "paged.fork": lambda: d.of(d.paged).fork(number(), maybe(number)),
        "paged.append": lambda: d.of(d.paged).append(
            d.array(t, 2, 4), d.array(t, 2, 4), number() if d.one_in(2) else [0, 1],
            maybe(lambda: [0, 1, 3] if d.one_in(2) else d.ids(3)), maybe(d.tokens),
            table=maybe(lambda: d.of(d.tables)),
        ),
        "paged.truncate": lambda: d.of(d.paged).truncate(number(), number()),
        "paged.end": lambda: d.of(d.paged).end(number()),
        "paged.change": lambda: d.of(d.paged).change_frequencies(
            d.random.choice([SPECS[0], d.of(d.frequencies)])
        ),
        "paged.views": lambda: (
            repr(d.of(d.paged)),
            np.sum(d.of(d.paged).keys, dtype="f8"),
            np.sum(d.of(d.paged).values, dtype="f8"),
        ),
        "paged.sequence": lambda: (
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
        "cache.append": lambda: d.of(d.caches).append(
            x(), x(), maybe(d.tokens), table=maybe(lambda: d.of(d.tables))
        ),
        "cache.insert": lambda: d.of(d.caches).insert(
            d.few(), x(), x(), maybe(d.tokens), table=maybe(lambda: d.of(d.tables))
        ),
        "cache.remove": lambda: d.of(d.caches).remove(d.few(), d.few()),
        "cache.drop": lambda: d.of(d.caches).drop(d.few(), d.few()),
        "cache.shift": lambda: d.of(d.caches).shift(d.few(), d.few(), d.integer()),
        "cache.change": lambda: d.of(d.caches).change_frequencies(
            d.random.choice([SPECS[0], d.of(d.frequencies)])
        ),
        "cache.truncate": lambda: d.of(d.caches).truncate(d.few()),
        "cache.views": lambda: (
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
        "memory.append": lambda: [
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
        "graph": lambda: (
            d.of(d.graphs).distances(d.integer() if d.one_in(3) else 5),
            d.of(d.graphs).components(),
            d.of(d.graphs).in_degrees(),
            d.of(d.graphs).return_probabilities(d.random.randrange(9)),
        ),
        "graph.laplacian": lambda: d.of(d.graphs).laplacian_vectors(
            d.random.randrange(9),
            kind=d.text("symmetric", "combinatorial"),
            zeros=d.text("skip_one", "skip_all"),
            signs=d.text("fixed", "random"),
        ),
        "graph.degree_table": lambda: d.of(d.graphs).degree_table(
            d.array(4, 2), d.array(4, 2), beyond=d.text("capped", "refused")
        ),
        "graph.bias": lambda: d.of(d.graphs).graphormer_bias(
            gnomon.Graphormer(heads=2, unreachable=2, token=d.text("none", "first"),
                              given="once"),
            d.array(4, 2),
            token=maybe(lambda: d.array(2)) if d.one_in(3) else np.zeros(2, "f4"),
            given=maybe(lambda: d.array(9, 9)),
        ),
        "resize_table": lambda: gnomon.resize_table(
            d.array(9, 2),
            d.random.choice([d.random.randrange(99), (3, 2), (d.integer(), 2)]),
            maybe(lambda: d.random.choice([9, (3, 3), (d.integer(), d.integer())])),
            preset=d.text("vit", "linear", "siglip2", "qwen3-vl"),
            extra_rows=maybe(d.integer),
        ),
        "set_threads": lambda: gnomon.set_threads(
            d.random.choice([0, -1, 1, 2, 2**31 - 1, 2**31, None])
        ),
        "Positions.__setstate__": lambda: used(
            d.keep(
                d.positions,
                state(gnomon.Positions, d.state_of_positions()),
            )
        ),
        "RotaryFrequencies.__setstate__": lambda: used(
            d.keep(
                d.frequencies,
                state(
                    gnomon.RotaryFrequencies,
                    (
                        d.text("halves"),
                        d.integer(),
                        [0.5] * d.random.randrange(4),
                        [d.integer()] * d.random.randrange(3),
                        d.number() or 1.0,
                        [],
                        d.integer(),
                    ),
                ),
            )
        ),
    }


def state(cls: type, values: tuple[Any, ...]) -> Any:
    made = cls.__new__(cls)
    made.__setstate__(values)
    return made


def main(count: int, seed: int = 0) -> None:
    faulthandler.enable()
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    limit = used + (3 << 30)  # sizes that are legal but too large must raise MemoryError
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))
    folder = tempfile.TemporaryDirectory()
    Path(folder.name, "config.json").write_text(CONFIG)
    d = Draw(seed, folder.name)
    names = list(calls(d))
    done: collections.Counter[str] = collections.Counter()
    succeeded: collections.Counter[str] = collections.Counter()
    for i in range(count):
        name = names[i % len(names)]
        d.calm = d.random.randrange(4) == 0
        done[name] += 1
        try:
            calls(d)[name]()
            succeeded[name] += 1
        except TypeError as error:
            assert "arguments" not in str(error).split(";")[0] or "[" in str(error), error
        except (ValueError, OverflowError, MemoryError, AttributeError):
            pass  # AttributeError: the drawn value is no plan or model
        except FileNotFoundError:
            assert name == "from_path"
        except BaseException:
            print(f"call {i}, {name}", file=sys.stderr)
            raise
    for name in names:
        print(f"{name}: {done[name]} calls, {succeeded[name]} succeeded")
        assert succeeded[name], name
    print(f"{sum(done.values())} calls, {sum(succeeded.values())} succeeded")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
