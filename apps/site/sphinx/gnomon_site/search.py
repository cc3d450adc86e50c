"""Search in Chinese pages: a run of Chinese characters is indexed as its pairs of neighbours, and
so is a query. This needs no dictionary of words."""

from __future__ import annotations

import re

from sphinx.application import Sphinx
from sphinx.search import SearchLanguage

WORD = re.compile(r"[a-zA-Z0-9_]+|[\u3400-\u9fff]+")


def terms(text: str) -> list[str]:
    found = []
    for run in WORD.findall(text):
        if run[0] < "\u3400" or len(run) == 1:
            found.append(run)
        else:
            found += [run[i : i + 2] for i in range(len(run) - 1)]
    return found


class Chinese(SearchLanguage):
    lang = "zh_CN"
    language_name = "Chinese"
    js_stemmer_rawcode = None
    js_stemmer_code = "var Stemmer = function() { this.stemWord = (word) => word; };"
    js_splitter_code = """
function splitQuery(query) {
  const terms = [];
  for (const run of query.match(/[a-zA-Z0-9_]+|[\\u3400-\\u9fff]+/g) || []) {
    if (run.charCodeAt(0) < 0x3400 || run.length === 1) terms.push(run);
    else for (let i = 0; i + 1 < run.length; ++i) terms.push(run.slice(i, i + 2));
  }
  return terms;
}
"""

    def split(self, input: str) -> list[str]:
        return terms(input)

    def stem(self, word: str) -> str:
        return word.lower()

    def word_filter(self, word: str) -> bool:
        return True


def setup(app: Sphinx) -> None:
    app.add_search_language(Chinese)
