"""Calls every public callable of gnomon with drawn arguments: attack.py CALLS [SEED].

Every second call is one of attack_signatures.py; the others, here and in attack_caches.py, have
arguments that fit each other. Each call must return, or raise ValueError, TypeError,
OverflowError or MemoryError. At least one call of each callable must succeed. Prints the calls
and the successes of each callable.
"""

from __future__ import annotations

import collections
import faulthandler
import pickle
import resource
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import attack_caches
import attack_capsules
import attack_signatures
from attack_values import CONFIG, Draw

import gnomon
from gnomon import _core


def calls(d: Draw) -> dict[str, Any]:  # one entry for each callable
    h, t = d.random.choice([1, 2]), 3
    x = lambda: d.array(1, t, 2, 4)  # noqa: E731
    plan = lambda: d.of(d.plans)  # noqa: E731
    matrices = lambda: [d.array(8, 8) for _ in range(d.random.randrange(3))]  # noqa: E731
    maybe = lambda make: make() if d.one_in(4) else None  # noqa: E731

    def used(one: Any) -> Any:
        return repr(one), one == one, hash(one) if not isinstance(one, _core.Plan) else None

    return {
        "Positions": lambda: used(
            d.keep(d.positions, gnomon.Positions(d.ids(2, 3), maybe(lambda: d.ids(2, 3))))
        ),
        "Positions.consecutive": lambda: used(
            gnomon.Positions.consecutive(d.integer(), d.integer(), d.integer())
        ),
        "Positions.packed": lambda: used(
            gnomon.Positions.packed(
                [d.integer() for _ in range(d.random.randrange(4))], maybe(d.integer)
            )
        ),
        "Positions.from_padding_mask": lambda: used(
            gnomon.Positions.from_padding_mask(d.ids(2, 3))
        ),
        "Positions.ids": lambda: (d.of(d.positions).ids.sum(), d.of(d.positions).sequences.sum()),
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
        "RotaryTable.cos": lambda: (
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
        "Plan.bias": lambda: plan().bias(maybe(d.integer), maybe(d.integer)),
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
        "ModelDescription.from_path": lambda: _core.ModelDescription.from_path(
            d.text(d.folder, "/nonexistent", "."), d.text(""), d.text("as-written"), None
        ),
        "ModelDescription.from_config": lambda: d.keep(
            d.models,
            _core.ModelDescription.from_config(
                d.text(CONFIG, CONFIG, "{}", "[["),
                d.text("", "", "encoder"),
                d.text("as-written", "by-lengths"),
                maybe(lambda: d.text("halves", "adjacent")),
            ),
        ),
        "ModelDescription.to_json": lambda: (
            d.of(d.models).to_json(maybe(d.integer)),
            d.of(d.models).groups(),
        ),
        "ModelDescription.parameters": lambda: d.of(d.models).parameters(
            d.integer(), d.text("", "encoder")
        ),
        "ModelDescription.lower_layer": lambda: d.keep(
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
        "set_threads": lambda: gnomon.set_threads(
            d.random.choice([0, -1, 1, 2, 3, 4097, 2**31 - 1, 2**31, None])
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
    warnings.simplefilter("ignore")
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    limit = used + (3 << 30)  # sizes that are legal but too large must raise MemoryError
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))
    folder = tempfile.TemporaryDirectory()
    Path(folder.name, "config.json").write_text(CONFIG)
    d = Draw(seed, folder.name)
    hand_made = list(calls(d) | attack_caches.calls(d))
    by_signature = attack_signatures.signatures()
    done: collections.Counter[str] = collections.Counter()
    succeeded: collections.Counter[str] = collections.Counter()
    for i in range(count):
        d.calm = d.random.randrange(4) == 0
        from_signature = i % 2 == 1
        names = list(by_signature) if from_signature else hand_made
        name = names[i // 2 % len(names)]
        if i % 64 == 0:  # a call that never returns ends the process with its line
            faulthandler.dump_traceback_later(600, exit=True)
        try:
            if from_signature:
                call = attack_signatures.draw_call(d, name, by_signature[name])
                if call is None:
                    continue
                done[name] += 1
                attack_signatures.keep(d, call())
            else:
                name = name.partition(" ")[0]
                done[name] += 1
                (calls(d) | attack_caches.calls(d))[hand_made[i // 2 % len(hand_made)]]()
            succeeded[name] += 1
        except TypeError as error:
            assert (
                from_signature
                or "arguments" not in str(error).split(";")[0]
                or "[" in str(error)
            ), error
        except (ValueError, OverflowError, MemoryError, AttributeError):
            pass  # AttributeError: the drawn value is no plan or model
        except (KeyError, RuntimeError) as error:
            assert from_signature and "raised by an argument" in str(error), (name, error)
        except FileNotFoundError:
            assert "from_" in name
        except ModuleNotFoundError as error:  # the values of a cache of bfloat16
            assert error.name == "ml_dtypes", error
        except BaseException:
            print(f"call {i}, {name}", file=sys.stderr)
            raise
    capsules = attack_capsules.check_deleters()
    for name in dict.fromkeys([*done, *by_signature]):
        print(f"{name}: {done[name]} calls, {succeeded[name]} succeeded")
    never = [name for name in {*done, *by_signature} if not succeeded[name]]
    assert not never, f"no drawn call succeeded: {sorted(never)}"
    print(f"{capsules} of the last capsules were deleted at most once")
    print(f"{sum(done.values())} calls, {sum(succeeded.values())} succeeded")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
