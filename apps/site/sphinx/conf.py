"""Configuration of Sphinx. tools/site.sh runs it for src (English) and src-zh (Chinese)."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

chinese = os.environ.get("GNOMON_SITE_LANGUAGE") == "zh"

project = "Gnomon"
author = "the authors of Gnomon"
version = release = os.environ.get("GNOMON_VERSION", "")
language = "zh_CN" if chinese else "en"
gnomon_language = "zh" if chinese else "en"

extensions = ["myst_parser", "gnomon_site.extension"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = []
myst_enable_extensions = ["dollarmath", "amsmath", "attrs_inline"]
myst_heading_anchors = 5
myst_dmath_allow_space = True
myst_dmath_double_inline = True
# A page of the tree may begin a part with a heading of the third level (results of the lab).
suppress_warnings = ["myst.header"]
smartquotes = False
highlight_language = "text"
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"

html_theme = "furo"
html_title = "Gnomon"
html_short_title = "Gnomon"
html_math_renderer = "mathml"
html_static_path = [str(Path(__file__).parent / "static")]
if not chinese:  # the Chinese pages use those of the English ones
    html_static_path.append(os.environ["GNOMON_SITE_STATIC"])
locale_dirs = [os.environ.get("GNOMON_SITE_LOCALE", "")]
templates_path = [str(Path(__file__).parent / "templates")]
html_favicon = str(Path(__file__).parent / "static/favicon.svg")
html_css_files = ["pages.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_show_sphinx = True
html_use_index = not chinese
html_permalinks_icon = "#"
# A summary of a result would be read from its page, which a browser refuses for file://.
html_show_search_summary = False
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/language.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
html_theme_options = {"top_of_page_buttons": []}
# Names of the C++ and the C domain are shown without their namespace.
add_function_parentheses = False
cpp_index_common_prefix = ["gnomon::"]
cpp_maximum_signature_line_length = c_maximum_signature_line_length = 90
python_maximum_signature_line_length = 90
toc_object_entries_show_parents = "hide"
