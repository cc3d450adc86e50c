"""gnomon.lab: figures, leaderboard, the commands, and what happens without optional packages."""

from __future__ import annotations

import json
import pathlib
import re
import sys
from html.parser import HTMLParser

import gnomon.lab
import pytest
from gnomon.lab.__main__ import main
from gnomon.lab._tensorboard import _hyperparameters
from lab_results import LINE_SPEC, example_results, text_results, write, write_report


class Page(HTMLParser):
    """The tags, attributes and tables of a page. Tables are lists of rows of texts."""

    def __init__(self, path: pathlib.Path) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.tables: list[list[list[str]]] = []
        self.text = path.read_text(encoding="utf-8")
        self.feed(self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_data(self, data: str) -> None:
        if self.tables and self.tables[-1] and self.tables[-1][-1]:
            self.tables[-1][-1][-1] += data


def names(table: list[list[str]]) -> list[str]:
    return [row[0] for row in table[1:]]


def test_figures_are_those_of_the_report(tmp_path: pathlib.Path) -> None:
    results = gnomon.lab.load(write(tmp_path, text_results({"none": [3.0]})))
    write_report(tmp_path, {"lengths": LINE_SPEC, "heads-1": LINE_SPEC, "attention-1-0": LINE_SPEC,
                            "sizes-0": LINE_SPEC, "extension-rotary": LINE_SPEC})
    pictures = results.pictures()
    assert list(pictures) == ["lengths", "heads-1", "attention-1-0", "sizes-0", "extension-rotary"]
    assert pictures["lengths"].title == "Title of lengths & more"
    assert pictures["lengths"].caption == "Caption <of> lengths"
    assert pictures["lengths"].spec["data"] == LINE_SPEC["data"]
    assert pictures["lengths"].spec["config"]["legend"]["columns"] == 3
    written = results.figures(tmp_path / "f", ["json"])
    assert [one.name for one in written] == ["lengths.json", "sizes-0.json",
                                             "extension-rotary.json"]
    assert "title" not in json.loads(written[0].read_text())
    (one,) = results.figures(tmp_path / "g", ["json"], names=["heads-1"], titles=True)
    assert json.loads(one.read_text())["title"]["text"] == "Title of heads-1 & more"
    with pytest.raises(ValueError, match="a figure must be a new file, got .*lengths.json"):
        results.figures(tmp_path / "f", ["json"])
    with pytest.raises(ValueError, match="names must be among lengths, .*, got other"):
        results.figures(tmp_path / "h", names=["other"])
    with pytest.raises(ValueError, match="formats must be among svg, pdf, png, json, got 'svg'"):
        results.figures(tmp_path / "h", "svg")


@pytest.mark.parametrize("figures, message", [
    ({"../x": LINE_SPEC}, "an id in a report must consist of"),
    ({"x": {"data": {"url": "file:///etc/passwd"}}}, "must be an object without url"),
    ({"x": {"layer": [{"data": {"url": "http://h/"}}]}}, "must be an object without url"),
    ({"x": []}, "must be an object without url")])
def test_hostile_reports_are_refused(figures: dict[str, object], message: str,
                                     tmp_path: pathlib.Path) -> None:
    results = gnomon.lab.load(write(tmp_path, text_results({"none": [3.0]})))
    write_report(tmp_path, figures)
    with pytest.raises(ValueError, match=re.escape(message)):
        results.pictures()


def test_without_a_report(tmp_path: pathlib.Path) -> None:
    results = gnomon.lab.load(write(tmp_path, text_results({"none": [3.0]})))
    with pytest.raises(ValueError, match="folder must have a report"):
        results.pictures()


def test_packages_that_are_missing_are_named(tmp_path: pathlib.Path,
                                             monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("tensorboardX", "vl_convert", "safetensors"):
        monkeypatch.setitem(sys.modules, package, None)
    write(tmp_path / "r", text_results({"none": [3.0]}))
    write_report(tmp_path / "r", {"lengths": LINE_SPEC})
    with pytest.raises(ImportError, match=r"pip install gnomon\[tensorboard\]"):
        gnomon.lab.to_tensorboard(tmp_path / "r", tmp_path / "t")
    with pytest.raises(ImportError, match=r"pip install gnomon\[plot\]"):
        gnomon.lab.load(tmp_path / "r").figures(tmp_path / "f")
    model = tmp_path / "none-seed1"
    model.mkdir()
    (model / "config.json").write_text(json.dumps({
        "model_type": "gnomon-lab", "encoding": "none", "settings": {"task": "text"},
        "position": {"layers": [[{"kind": "none"}]]}}))
    with pytest.raises(ImportError, match=r"pip install gnomon\[export\]"):
        gnomon.lab.export_model(model, tmp_path / "m")
    assert not (tmp_path / "t").exists() and not (tmp_path / "m").exists()


def test_event_files_have_the_learning_rate_of_the_run() -> None:
    settings = text_results({"none": [3.0]})["settings"] | {
        "rates": [{"encoding": "rotary", "learning_rate": 0.016}]}
    for name, rate in (("none", 0.002), ("rotary", 0.016)):
        found = _hyperparameters({"encoding": name, "seed": 1}, settings)
        assert found["learning_rate"] == rate and found["position_rate"] == 10


def test_leaderboard_has_a_table_for_equal_settings(tmp_path: pathlib.Path) -> None:
    write(tmp_path / "a", text_results({"none": [3.0, 3.2], "rotary": [2.5, 4.0]}))
    write(tmp_path / "b", text_results({"alibi": [2.505, 2.4]}))
    write(tmp_path / "deep" / "c", text_results({"t5": [2.6, 2.5]}, texts={"source": "others"}))
    write(tmp_path / "d", example_results({"none": [(0.5, 0.4, 0.6)], "rotary": [(0.9, 0.8, 1)]},
                                          seeds=3))
    out = gnomon.lab.leaderboard(tmp_path, tmp_path / "board.html")
    page = Page(out)
    assert [names(table) for table in page.tables] == [
        ["Rotary", "Alibi", "None"], ["Rotary", "None"], ["T5"]]
    first = page.tables[0]
    assert first[0] == ["encoding", "rank at 64", "seeds", "64", "128", "session", "date"]
    assert [row[1] for row in first[1:]] == ["1 to 2", "1 to 2", "3"]
    assert first[1][2:] == ["3", "2.500 ± 0.010", "4.000 ± 0.010", "a", "2026-01-02 03:04 UTC"]
    assert first[2][5] == "b" and page.tables[2][1][4] != "" and "deep/c" in page.text
    assert page.tables[1][1][3] == "90.0 80 to 100"
    assert "script" not in page.tags and "default-src 'none'" in page.text


@pytest.mark.parametrize("change", ["width", "eval_segments", "metric", "gnomon", "texts"])
def test_other_settings_are_other_tables(change: str, tmp_path: pathlib.Path) -> None:
    write(tmp_path / "a", text_results({"none": [3.0]}))
    other = text_results({"rotary": [2.5]})
    if change == "metric":
        other["metric"]["chance"] = "5 bits"
    elif change == "gnomon":
        other["gnomon"] = "0.2.0"
    elif change == "texts":
        other["texts"]["byte_frequency_bits"] = 4.5
    else:
        other["settings"][change] += 1
    write(tmp_path / "b", other)
    assert len(Page(gnomon.lab.leaderboard(tmp_path, tmp_path / "o.html")).tables) == 2


def test_seeds_and_paths_of_texts_do_not_split_a_table(tmp_path: pathlib.Path) -> None:
    write(tmp_path / "a", text_results({"none": [3.0]}, seeds=3))
    other = text_results({"rotary": [2.5]}, seeds=4)
    other["settings"] |= {"texts": ["/home/me/a.txt"], "seeds": [1, 2, 3, 7], "preset": "full"}
    write(tmp_path / "b", other)
    (table,) = Page(gnomon.lab.leaderboard(tmp_path, tmp_path / "o.html")).tables
    assert [row[2] for row in table[1:]] == ["4", "3"]


def test_three_seeds_have_a_rank(tmp_path: pathlib.Path) -> None:
    losses = {"none": [3.0], "rotary": [2.9]}
    for seeds, ranks in ((1, ["only 1 seed"] * 2), (2, ["only 2 seeds"] * 2), (3, ["1", "2"])):
        write(tmp_path / str(seeds), text_results(losses, seeds=seeds))
        out = gnomon.lab.leaderboard(tmp_path / str(seeds), tmp_path / f"{seeds}.html")
        assert [row[1] for row in Page(out).tables[0][1:]] == ranks


def test_diverged_and_untrained_rows_have_no_rank(tmp_path: pathlib.Path) -> None:
    write(tmp_path / "a", text_results({"none": [3.0, 3.0], "rotary": [2.0, None]}))
    write(tmp_path / "b", text_results({"t5": [1.0, 1.0], "cope": [1.1, 1.1]},
                                       training={"t5": "unconverged", "cope": "at_chance"}))
    write(tmp_path / "c", text_results({"fire": [0.5, 1.0]}, stopped=True))
    write(tmp_path / "d", text_results({"shaw": [0.4, 1.0]}, shard="1/2"))
    (table,) = Page(gnomon.lab.leaderboard(tmp_path, tmp_path / "o.html")).tables
    assert [row[:2] for row in table[1:]] == [
        ["None", "1"], ["Shaw", "shard 1/2 of a session"], ["Fire", "stopped before the end"],
        ["T5", "not trained enough"], ["Cope", "at chance"], ["Rotary", "diverged"]]
    assert table[6][4] == "diverged"


HOSTILE = "<script>alert(1)</script><img src=x onerror=y>\"'&\u202e\x00" + "x" * 5000


def hostile(value: object, key: str = "") -> object:
    """The same data with a hostile text in the place of each text."""
    if isinstance(value, dict):
        return {one: hostile(each, one) for one, each in value.items()}
    if isinstance(value, list):
        return [hostile(each) for each in value]
    return HOSTILE if isinstance(value, str) and key not in (
        "name", "verdict", "training") else value


def test_hostile_text_is_escaped(tmp_path: pathlib.Path) -> None:
    data = hostile(text_results({"none": [3.0], "rotary": [2.5]}))
    write(tmp_path / "<b>bold", data)
    page = Page(gnomon.lab.leaderboard(tmp_path, tmp_path / "o.html"))
    assert page.tags <= {"html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "p",
                         "section", "div", "table", "thead", "tbody", "tr", "th", "td", "small",
                         "details", "summary", "dl", "dt", "dd", "ul", "li", "code"}
    assert page.attributes <= {"lang", "charset", "name", "content", "http-equiv", "class",
                               "tabindex", "scope"}
    assert "\u202e" not in page.text and "\x00" not in page.text
    assert page.tables[0][1][0].startswith("<script>alert(1)</script>")
    assert "\\u202e\\u0000xxx" in page.tables[0][1][0] and len(page.text) < 20_000


def test_bad_files_are_listed_and_limits_hold(tmp_path: pathlib.Path,
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    board = sys.modules["gnomon.lab._leaderboard"]
    write(tmp_path / "good", text_results({"none": [3.0]}))
    for name, content in {"syntax": "{", "deep": "[" * 100_000, "list": "[]",
                          "old": '{"schema": 3}', "none": '{"schema": 4}',
                          "word": json.dumps(text_results({"none": [3.0]},
                                                          training={"none": "<b>"})),
                          "binary": "\udcff"}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "results.json").write_text(content, errors="surrogateescape")
    write(tmp_path / "sizes", text_results({"none": [3.0]}, sizes=[{"name": "2x16"}]))
    write(tmp_path / "many", text_results({"none": [3.0] * 65}))
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / "results.json").symlink_to(tmp_path / "good" / "results.json")
    page = Page(gnomon.lab.leaderboard(tmp_path, tmp_path / "o.html"))
    assert [names(table) for table in page.tables] == [["None"]]
    missing = re.findall(r"<li><code>(.*?)/results.json</code>", page.text)
    assert missing == ["binary", "deep", "list", "many", "none", "old", "sizes", "syntax",
                       "word"]
    assert "must have the schema 4, got 3" in page.text and "got &lt;b&gt;" in page.text
    monkeypatch.setattr(board, "LARGEST_FILE", 10)
    with pytest.raises(ValueError, match="must have at most 10 bytes, got"):
        gnomon.lab.leaderboard(tmp_path / "good", tmp_path / "p.html")
    monkeypatch.undo()
    monkeypatch.setattr(board, "MOST_FILES", 3)
    with pytest.raises(ValueError, match="must have at most 3 results.json, got more"):
        gnomon.lab.leaderboard(tmp_path, tmp_path / "p.html")
    monkeypatch.undo()
    monkeypatch.setattr(board, "MOST_ROWS", 1)
    write(tmp_path / "two", text_results({"none": [3.0], "rotary": [3.0]}))
    page = Page(gnomon.lab.leaderboard([tmp_path / "good", tmp_path / "two"], tmp_path / "p.html"))
    assert len(page.tables[0]) == 2 and "a page has at most 1 rows" in page.text


def test_leaderboard_refuses_its_arguments(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="must have a results.json of the lab, got"):
        gnomon.lab.leaderboard(tmp_path, tmp_path / "o.html")
    with pytest.raises(ValueError, match="folders must be folders, got"):
        gnomon.lab.leaderboard(tmp_path / "no", tmp_path / "o.html")
    write(tmp_path, text_results({"none": [3.0]}))
    (tmp_path / "o.html").touch()
    for name in ("o.html", "o.txt"):
        with pytest.raises(ValueError, match="out must be a new file that ends in .html, got"):
            gnomon.lab.leaderboard(tmp_path, tmp_path / name)


def test_commands(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(write(tmp_path / "r", text_results({"none": [3.0]})))
    assert main(["csv", folder]) == 0 and capsys.readouterr().out.startswith("encoding,title,")
    assert main(["latex", folder]) == 0 and r"\bottomrule" in capsys.readouterr().out
    assert main(["leaderboard", folder, str(tmp_path / "o.html")]) == 0
    assert (tmp_path / "o.html").exists()
    assert main(["csv", str(tmp_path)]) == 2
    shown = capsys.readouterr()
    assert shown.err.startswith("gnomon: [lab] folder must have the results") and shown.out == ""
    with pytest.raises(SystemExit):
        main(["other", folder])
