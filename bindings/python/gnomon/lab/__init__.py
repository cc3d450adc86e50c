"""The lab: trains one small Transformer per encoding on a text and compares them.

    import gnomon.lab

    results = gnomon.lab.run("novel.txt", encodings=["rotary", "alibi", "t5"], minutes=5)
    print(results.answer)
    pandas.DataFrame(results.rows())

The lab is the program `gnomon-lab`, which requires LibTorch and is not part of this package.
`make lab` in the source tree builds it, `make install` installs it.
"""

from __future__ import annotations

from ._export import export_model
from ._find import find
from ._leaderboard import leaderboard
from ._protocol import Protocol
from ._results import LabResults, load
from ._run import compare, run
from ._tensorboard import to_tensorboard

__all__ = ["LabResults", "Protocol", "compare", "export_model", "find", "leaderboard", "load",
           "run", "to_tensorboard"]
