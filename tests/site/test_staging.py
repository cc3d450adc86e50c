"""What stands between the files of the tree and Sphinx: links, comments, numbers, figures."""

from __future__ import annotations

import pytest
from browsing import ROOT
from doxygen_filter import filtered, filtered_c
from gnomon_site import comments, markdown
from gnomon_site.c_header import c_comment, c_sections
from gnomon_site.english import html_images, plain_blocks, site_only
from gnomon_site.numbers import Numbers
from gnomon_site.search import terms
from gnomon_site.sidebar import Sidebar
from gnomon_site.tree import Entry, Section, Tree


def test_links_are_rewritten_but_not_code():
    text = (
        "[a](x.md#b) `[c](x.md)` ![d](e.png)\n\n```md\n[f](x.md)\n```\n\n    [g](x.md)\n\n"
        "[`h`](x.md)\n"
    )
    new = markdown.rewrite_links(text, lambda target: target.replace("x.md", "y.md"))
    assert new == text.replace("[a](x.md", "[a](y.md").replace("[`h`](x.md", "[`h`](y.md")
    assert markdown.links(text) == ["x.md#b", "x.md"]


def test_dollars_of_prose_are_found():
    text = "costs $5 and `$HOME`\n\n```sh\necho $x\n```\n"
    new = markdown.rewrite_prose(text, lambda prose: prose.replace("$", "\\$"))
    assert new == text.replace("costs $5", "costs \\$5")


def test_links_to_the_english_site():
    text = "见[指南](../a.md)与[`b`](b.md)，`[c](../a.md)`。\n"
    new = markdown.link_to_html(text, lambda t: "../../a.html" if t == "../a.md" else None)
    assert '<a class="reference external" href="../../a.html">指南</a>与[`b`](b.md)' in new


def test_blocks_of_notebooks():
    text = "---\nkernelspec: x\n---\n\n# A\n\n```{code-cell} ipython3\n:tags: [a]\n\nx = 1\n```\n"
    assert plain_blocks(text) == "# A\n\n```python\nx = 1\n```\n"
    assert plain_blocks("```math\na\n```\n") == "```{math}\na\n```\n"


def test_images_and_parts_of_one_reader():
    assert html_images('<img src="a.svg" alt="A [b]" width="70">') == "![A (b)](a.svg){width=70px}"
    assert html_images('<a href="b.md"><img src="a.svg" alt="A"></a>') == "[![A](a.svg)](b.md)"
    text = "a\n<!-- host -->\nb\n<!-- /host -->\n<!-- site\nc\n-->\n"
    assert site_only(text) == "a\nc\n\n"


def test_numbers():
    numbers = Numbers({"a.b": "4.5"})
    assert numbers.insert("p.md", "积为 46.8<!-- a.b -->。") == "积为 4.5。"
    with pytest.raises(ValueError, match=r"p\.md:2: no figure gives the number a\.c"):
        numbers.insert("p.md", "\n1<!-- a.c -->")
    with pytest.raises(ValueError, match="no number before"):
        numbers.insert("p.md", "x<!-- a.b -->")
    assert Numbers(None).insert("p.md", "1<!-- a.c -->") == "1"


def test_comments_become_paragraphs_lists_and_code():
    text = comments.to_rst(
        "Returns x*y of `a_b`.\nCost: O(T).\n\n  a' = a cos(p)\n\n- one\n  more\n- two\n\n"
        "x: the x\ny: the y",
        names={"x", "y"},
    )
    assert text.split("\n\n") == [
        "Returns x\\*y of ``a_b``.", "Cost: O(T).",
        ".. code-block:: text", "   a' = a cos(p)", "- one more\n- two",
        "- ``x``: the x\n- ``y``: the y\n",
    ]  # fmt: skip


def test_comments_link_headers_and_papers():
    page = {"gnomon/tensor.h": "api/cpp/tensor"}.get
    text = comments.to_rst("See gnomon/tensor.h, gnomon/none.h, arXiv:2104.09864.", page)
    assert text == (
        "See :doc:`gnomon/tensor.h </api/cpp/tensor>`, gnomon/none.h,"
        " `arXiv:2104.09864 <https://arxiv.org/abs/2104.09864>`__.\n"
    )


def test_every_header_of_c_has_an_introduction_that_is_no_section():
    headers = sorted((ROOT / "include").glob("*.h"))
    assert [header.name for header in headers][:1] == ["gnomon.h"]
    for header in headers:
        lines = header.read_text(encoding="utf-8").split("\n")
        assert c_comment(lines) not in [item.text for item in c_sections(lines)], header
    lines = ["/* Of the file. */", "#ifndef A_H", "/* --- Errors --- */", "/* Of B. */", "#if B"]
    assert c_comment(lines).strip() == "Of the file."
    assert [item.text.strip() for item in c_sections(lines)] == ["Errors", "Of B."]


def test_the_filter_of_doxygen_keeps_lines():
    source = (
        "// Of the file.\n#pragma once\n\n// About a\n// and more.\nint a;  // after\n"
        "        // it\n\n// ---- Part.\n\n"
    )
    lines = source.split("\n")
    assert filtered(lines) == [
        "// Of the file.", "#pragma once", "",
        "/// \\verbatim About a", "///  and more. \\endverbatim",
        "int a;  ///< \\verbatim after", "        ///<  it \\endverbatim",
        "", "// ---- Part.", "", "",
    ]  # fmt: skip
    c = filtered_c("/* File. */\n/* --- Part --- */\n\n/* About\n * b. */\nint b; /* after */\n")
    assert c == (
        "/* File. */\n/* --- Part --- */\n\n/** \\verbatim About\n * b. \\endverbatim */\n"
        "int b; /**< \\verbatim after \\endverbatim */\n"
    )


def test_a_page_outside_of_the_sidebar_is_refused():
    tree = Tree()
    tree.add("index.md", "# A\n")
    tree.add("b.md", "# B\n")
    with pytest.raises(ValueError, match="not in the sidebar: b"):
        tree.finish()
    tree.sections = [Section("S", [Entry("b"), Entry("c")])]
    with pytest.raises(ValueError, match="do not exist: c"):
        tree.finish()


def test_the_sidebar_opens_the_path_to_its_page():
    def entry(page: str, *children: dict) -> dict:
        return {"page": page, "title": "", "href": "", "children": list(children)}

    sections = [
        {"caption": "One", "entries": [entry("a", entry("b", entry("c")), entry("d", entry("e")))]},
        {"caption": "Two", "entries": [entry("f", entry("g"))]},
    ]
    html = Sidebar(sections, {}, "en").of("c", lambda one: one["page"])
    shown = [page for page in "abcdefg" if f'href="{page}"' in html]
    assert shown == ["a", "b", "c", "d", "f"]
    assert html.count('aria-current="page"') == 1


def test_chinese_is_searched_by_pairs_of_characters():
    assert terms("旋转位置 RoPE 的") == ["旋转", "转位", "位置", "RoPE", "的"]
