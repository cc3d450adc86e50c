"""The places that tools/mutation changes: tokens of code, not of comments, strings or templates."""

from __future__ import annotations

import importlib.util
import pathlib
import sys

SOURCE = '''#include <a/b.h>
// x < 1 && true
template <typename T, int N = 3>
void f(const View<const T, 2>& x, int64_t count) {  /* 5 + 5 */
  static_assert(sizeof(T) == 4);
  check("count must be at least 1", count);
  for (int64_t i = 0; i < count; ++i) {
    if (x(i) == -y && !done) continue;
    all.reserve(7);
    const char* s = R"(1 + 1)";
    sum += std::max(x(i), 0.5f);
  }
  return;
}
'''


def test_places_are_tokens_of_code(tmp_path: pathlib.Path) -> None:
    path = pathlib.Path(__file__).resolve().parents[3] / "tools/mutation/sites.py"
    spec = importlib.util.spec_from_file_location("sites", path)
    sites = sys.modules["sites"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sites)
    (tmp_path / "x.cc").write_text(SOURCE)
    found = [(SOURCE.count("\n", 0, one.begin) + 1, one.before, one.after)
             for one in sites.sites_of(tmp_path, "x.cc")]
    assert found == [
        (6, 'check("count must be at least 1", count)', ""),
        (7, "0", "1"), (7, "<", "<="), (7, "++", "--"),
        (8, "x(i) == -y && !done", "!(x(i) == -y && !done)"),
        (8, "==", "!="), (8, "-", ""), (8, "&&", "||"), (8, "!", ""), (8, "continue", "break"),
        (11, "sum += std::max(x(i), 0.5f)", ""), (11, "+=", "-="), (11, "max", "min"),
        (11, "0.5f", "0.25f"), (11, "0.5f", "1.5f"), (13, "return", "")]
    for begin, end, after in ((one.begin, one.end, one.after)
                              for one in sites.sites_of(tmp_path, "x.cc")):
        assert SOURCE[begin:end] != after
