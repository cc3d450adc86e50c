"""Writes the sources of the site: OUT/src (English) and OUT/src-zh (Chinese).

stage.py --program build/release/apps/cli/gnomon --out build/site-work [--numbers N.json]
"""

import argparse
import sys
from pathlib import Path

from gnomon_site.chinese import Chinese
from gnomon_site.english import English
from gnomon_site.numbers import Numbers
from gnomon_site.program import Program

ROOT = Path(__file__).resolve().parents[3]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--numbers", type=Path)
    parser.add_argument("--doxygen", type=Path)
    options = parser.parse_args()
    numbers = Numbers.read(options.numbers)
    english = English(ROOT, Program(options.program), numbers, options.doxygen)
    chinese = Chinese(ROOT, english, numbers)
    chinese.add_pages()  # first, because their links may add pages of files
    english.stage()
    chinese.finish()
    both = sorted(set(english.tree.pages()) & set(chinese.tree.pages()))
    english.tree.write(options.out / "src", language="en", counterparts=both)
    chinese.tree.write(options.out / "src-zh", language="zh", counterparts=both)


if __name__ == "__main__":
    try:
        main()
    except ValueError as error:
        sys.exit(f"site: {error}")
