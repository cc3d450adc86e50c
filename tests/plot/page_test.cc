#include "gnomon/plot/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "src/plot/sha256.h"
#include "testing.h"

namespace gnomon::plot {
namespace page_test {

using ::testing::HasSubstr;
using ::testing::Not;

const char* const spec = R"({"mark":"bar","width":"container"})";

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++found;
  return found;
}

// The page without the large script, whose text would match the searches.
std::string without_bundle(std::string html) {
  const std::string begin = "<script>(() => {";
  const std::size_t at = html.find(begin), end = html.find("</script>", at);
  return at == html.npos ? html : html.erase(at, end - at);
}

TEST(PagePlot, TextIsShownAndNotObeyed) {
  EXPECT_EQ(escape("a < b && c > \"d\" 'e'"),
            "a &lt; b &amp;&amp; c &gt; &quot;d&quot; &#39;e&#39;");
  EXPECT_EQ(escape(""), "");
  const std::string html = HtmlPage("<script>&")
                               .lead("1 < 2")
                               .paragraph("</p><b>")
                               .note("&amp;")
                               .list({"<li>"})
                               .code("<pre> `kept`")
                               .definitions({{"<dt>", "<dd>"}})
                               .footer("<footer>")
                               .html();
  for (const char* shown :
       {"<title>&lt;script&gt;&amp;</title>", "<h1>&lt;script&gt;&amp;</h1>", "1 &lt; 2",
        "<p>&lt;/p&gt;&lt;b&gt;</p>", "&amp;amp;", "<li>&lt;li&gt;</li>",
        "<pre>&lt;pre&gt; `kept`</pre>", "<dt>&lt;dt&gt;</dt>", "<dd>&lt;dd&gt;</dd>",
        "<p>&lt;footer&gt;</p>"})
    EXPECT_THAT(html, HasSubstr(shown));
}

TEST(PagePlot, BackticksMakeCode) {
  const std::string html =
      HtmlPage("t").paragraph("run `a < b` and `c`").paragraph("one ` alone").html();
  EXPECT_THAT(html, HasSubstr("run <code>a &lt; b</code> and <code>c</code></p>"));
  EXPECT_THAT(html, HasSubstr("<p>one ` alone</p>"));
}

TEST(PagePlot, CommandsAndSamplesKeepTheirLines) {
  const std::string html =
      HtmlPage("t").sample("alibi & <co>", "a <b>\n`c`").command("gnomon plot 'a&b'").html();
  EXPECT_THAT(html, HasSubstr("<h3>alibi &amp; &lt;co&gt;</h3>"));
  EXPECT_THAT(html, HasSubstr("<pre class=\"wrapped\">a &lt;b&gt;\n`c`</pre>"));
  EXPECT_THAT(html, HasSubstr("<pre class=\"wrapped\">gnomon plot &#39;a&amp;b&#39;</pre>"));
}

TEST(PagePlot, LinksHaveNoOtherScheme) {
  HtmlPage page("t");
  page.links({{"the `report`", "a/b:c.html#d"}, {"x", "https://e.org/?a&b"}, {"here", "#id"}});
  const std::string html = page.html();
  EXPECT_THAT(html, HasSubstr("<li><a href=\"a/b:c.html#d\">the <code>report</code></a></li>"));
  EXPECT_THAT(html, HasSubstr("<a href=\"https://e.org/?a&amp;b\">"));
  for (const char* bad : {"", "javascript:alert(1)", "data:x", "//e.org", "http://e.org"})
    EXPECT_EQ(
        gnomon::testing::message_of([&] { page.links({{"x", bad}}); }),
        std::string("[page] a link must be a relative path, #id or an https address, got ") +
            bad);
  EXPECT_EQ(page.html(), html);
}

TEST(PagePlot, TablesAlignNumbersAndMarkCells) {
  HtmlPage page("t");
  page.table({.columns = {{"name"}, {"loss", Align::number}},
              .rows = {{"a", best("1.83")}, {muted("b"), "<2>"}},
              .caption = "bits"});
  const std::string html = page.html();
  EXPECT_THAT(html, HasSubstr("<caption>bits</caption>"));
  EXPECT_THAT(html, HasSubstr("<th>name</th><th class=\"n\">loss</th>"));
  EXPECT_THAT(html, HasSubstr("<td>a</td><td class=\"n best\">1.83</td>"));
  EXPECT_THAT(html, HasSubstr("<td class=\"muted\">b</td><td class=\"n\">&lt;2&gt;</td>"));
  EXPECT_EQ(gnomon::testing::message_of(
                [&] { page.table({.columns = {{"name"}, {"loss"}}, .rows = {{"a"}}}); }),
            "[page] a row must have 2 cells, got 1");
  EXPECT_EQ(page.html(), html) << "a refused call changed the page";
}

TEST(PagePlot, FiguresKeepTheirSpec) {
  if (script() == Script::absent) return;  // built without it: a page has no pictures then
  const std::string text = R"({"title":"</script><!-- & ü","mark":"bar"})";
  const std::string html =
      HtmlPage("t")
          .figure({.id = "a-1", .title = "A \"<", .caption = "see", .spec = text})
          .html();
  const std::string begin = "<script type=\"application/json\" id=\"a-1-spec\">";
  const std::size_t at = html.find(begin) + begin.size();
  const std::string embedded = html.substr(at, html.find("</script>", at) - at);
  EXPECT_EQ(nlohmann::json::parse(embedded), nlohmann::json::parse(text));
  EXPECT_THAT(embedded, Not(HasSubstr("<")));
  EXPECT_THAT(html, HasSubstr("id=\"a-1\" role=\"img\" aria-label=\"A &quot;&lt;\""));
  EXPECT_THAT(html, HasSubstr("<figcaption>see</figcaption>"));
}

TEST(PagePlot, RefusesFiguresThatCannotBe) {
  HtmlPage page("t");
  page.figure({.id = "a", .spec = spec});
  const auto message = [&](const Figure& figure) {
    return gnomon::testing::message_of([&] { page.figure(figure); });
  };
  EXPECT_EQ(message({.id = "a", .spec = spec}),
            "[page] an id must be unique on its page, got a");
  EXPECT_EQ(message({.id = "", .spec = spec}),
            "[page] an id must consist of letters, digits, - and _, got ");
  EXPECT_EQ(message({.id = "a b", .spec = spec}),
            "[page] an id must consist of letters, digits, - and _, got a b");
  for (const char* bad : {"[1]", "3"})
    EXPECT_EQ(message({.id = "b", .spec = bad}),
              "[page] the spec of a figure must be a JSON object, got figure b")
        << bad;
  for (const std::string& bad :
       {std::string(), std::string("{"), std::string("{} {}"), std::string(100'000, '[')})
    EXPECT_EQ(
        message({.id = "b", .spec = bad}).find("[page] the spec of figure b must be JSON"), 0u)
        << bad.substr(0, 10);
  EXPECT_EQ(message({.id = "b", .spec = spec}), "") << "a refused id was taken";
}

TEST(PagePlot, NeedsNoNetworkAndNoOtherFile) {
  HtmlPage page("t");
  page.figure({.id = "a", .spec = spec}).heading("h");
  const std::string html = page.html();
  EXPECT_THAT(html, Not(HasSubstr("<script src")));
  EXPECT_THAT(html, Not(HasSubstr("@import")));
  const std::string rest = without_bundle(html);
  EXPECT_THAT(rest, Not(HasSubstr("http:")));
  EXPECT_THAT(rest, Not(HasSubstr("https:")));
  EXPECT_THAT(rest, Not(HasSubstr(" src=")));
  EXPECT_THAT(rest, Not(HasSubstr("url(")));
  EXPECT_EQ(count(rest, "href="), 1u) << "the icon, which is empty";
  EXPECT_THAT(rest, HasSubstr("href=\"data:,\""));
}

// The Content-Security-Policy of a page, which precedes everything that it governs.
std::string policy_of(const std::string& html) {
  const std::string begin = "<meta http-equiv=\"Content-Security-Policy\" content=\"";
  EXPECT_EQ(count(html, begin), 1u);
  const std::size_t at = html.find(begin) + begin.size();
  EXPECT_LT(at, html.find("<style"));
  EXPECT_LT(at, html.find("<link"));
  return html.substr(at, html.find('"', at) - at);
}

TEST(PagePlot, PermitsItsOwnScriptsOnly) {
  HtmlPage page("t");
  EXPECT_EQ(policy_of(page.html()),
            "default-src 'none'; script-src 'none'; style-src 'unsafe-inline'; img-src data:; "
            "connect-src 'none'; base-uri 'none'; form-action 'none'");
  if (script() == Script::absent) return;
  page.figure({.id = "a", .spec = spec});
  const std::string html = page.html();
  std::string hashes;
  for (std::size_t at = 0; (at = html.find("<script>", at)) != html.npos;) {
    at += std::string("<script>").size();
    const std::size_t end = html.find("</script>", at);
    hashes += " 'sha256-" + internal::sha256_base64(html.substr(at, end - at)) + "'";
  }
  EXPECT_EQ(policy_of(html),
            "default-src 'none'; script-src" + hashes +
                "; style-src 'unsafe-inline'; img-src data:; connect-src 'none'; base-uri "
                "'none'; form-action 'none'");
  EXPECT_EQ(count(hashes, "sha256-"), 2u);
  // Without eval(), Vega interprets its expressions.
  EXPECT_THAT(without_bundle(html), HasSubstr("ast: true"));
}

TEST(PagePlot, CarriesTheScriptOnceAndOnlyForPictures) {
  EXPECT_LT(HtmlPage("t").paragraph("p").html().size(), 10'000u);
  HtmlPage page("t");
  for (const char* id : {"a", "b", "c"}) page.figure({.id = id, .spec = spec});
  if (script() == Script::absent) {
    EXPECT_THAT(page.html(), HasSubstr("<code>make setup</code>"));
    return;
  }
  const std::string html = page.html();
  EXPECT_EQ(count(html, "window.vegaEmbed="), 1u);
  EXPECT_GT(html.size(), 500'000u);
  EXPECT_LT(html.size(), 1'500'000u);
  // Each script element is closed, and none is closed early: three specs, the bundle, the
  // script of the page.
  EXPECT_EQ(count(html, "</script>"), 5u);
}

TEST(PagePlot, ListsSectionsBelowTheLeadWhereThereAreMany) {
  HtmlPage page("t");
  page.lead("answer").heading("one").heading("two & `2`").heading("three");
  EXPECT_THAT(page.html(), Not(HasSubstr("<nav>")));
  page.heading("four");
  const std::string html = page.html();
  EXPECT_THAT(html, HasSubstr("<a href=\"#section-2\">two &amp; <code>2</code></a>"));
  EXPECT_LT(html.find("answer"), html.find("<nav>"));
  EXPECT_LT(html.find("<nav>"), html.find("<h2 id=\"section-1\">"));
}

TEST(PagePlot, FoldsEnd) {
  const auto folds = [](const HtmlPage& page) {
    const std::string html = page.html();
    EXPECT_EQ(count(html, "<details"), count(html, "</details>"));
    return count(html, "<details");
  };
  EXPECT_EQ(folds(HtmlPage("t").fold("<more>").paragraph("p").unfold()), 1u);
  EXPECT_EQ(folds(HtmlPage("t").fold("left open")), 1u);
  EXPECT_EQ(folds(HtmlPage("t").fold("a").fold("b").unfold().unfold()), 2u);
}

TEST(PagePlot, AStandaloneSpecHasItsSizeAndColours) {
  const auto wide = nlohmann::json::parse(standalone({.id = "a", .title = "T", .spec = spec}));
  EXPECT_EQ(wide["width"], 900);
  EXPECT_EQ(wide["title"]["text"], "T");
  EXPECT_EQ(wide["config"]["range"]["category"].size(), 10u);
  EXPECT_EQ(nlohmann::json::parse(standalone({.id = "a", .spec = R"({"width":5})"}))["width"],
            5);
  EXPECT_EQ(gnomon::testing::message_of([] { standalone({.id = "a", .spec = "3"}); }),
            "[page] the spec of a figure must be a JSON object, got figure a");
}

TEST(PagePlot, OnePictureIsAPage) {
  const std::string page = html(Figure{.id = "a", .title = "Title", .spec = spec});
  EXPECT_THAT(page, HasSubstr("<title>Title</title>"));
  EXPECT_THAT(page, Not(HasSubstr("<h3>")));
}

// W3C: contrast of at least 3:1 for the lines of a picture. Contrast of two sRGB colours.
double luminance(const std::string& colour) {
  double sum = 0;
  for (const auto& [at, weight] : {std::pair{1, 0.2126}, {3, 0.7152}, {5, 0.0722}}) {
    const double c =
        std::stoi(colour.substr(static_cast<std::size_t>(at), 2), nullptr, 16) / 255.0;
    sum += weight * (c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4));
  }
  return sum;
}
double contrast(const std::string& a, const std::string& b) {
  const double one = luminance(a), two = luminance(b);
  return (std::max(one, two) + 0.05) / (std::min(one, two) + 0.05);
}

// The colours "#rrggbb" between each `begin` and the next `end`.
std::vector<std::vector<std::string>> colours_in(const std::string& text,
                                                 const std::string& begin, char end) {
  std::vector<std::vector<std::string>> lists;
  for (std::size_t at = 0; (at = text.find(begin, at)) != text.npos; ++at) {
    const std::string part = text.substr(at, text.find(end, at) - at);
    lists.emplace_back();
    for (std::size_t hash = 0; (hash = part.find('#', hash)) != part.npos; ++hash)
      lists.back().push_back(part.substr(hash, 7));
  }
  return lists;
}

TEST(PagePlot, ColoursOfNamesStandOutFromTheirPaper) {
  if (script() == Script::absent) return;  // built without it: a page has no pictures then
  HtmlPage page("t");
  page.figure({.id = "a", .spec = spec});
  const std::string html = without_bundle(page.html());
  const auto papers = colours_in(html, "--paper:", ';');           // light, dark
  const auto palettes = colours_in(html, "\"category\": [", ']');  // dark, light
  const auto ramps = colours_in(html, "\"ramp\": [", ']');  // colours of lines, one per head
  ASSERT_EQ(ramps.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i)
    for (const std::string& colour : ramps[i])
      EXPECT_GE(contrast(colour, papers[1 - i][0]), 3.0) << colour;
  ASSERT_EQ(papers.size(), 2u);
  ASSERT_EQ(palettes.size(), 2u);
  EXPECT_NEAR(contrast(papers[0][0], papers[1][0]), 17.8, 0.1);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(palettes[i].size(), 10u);
    for (const std::string& colour : palettes[i])
      EXPECT_GE(contrast(colour, papers[1 - i][0]), 3.0) << colour;
    EXPECT_EQ(std::set<std::string>(palettes[i].begin(), palettes[i].end()).size(), 10u);
  }
}

}  // namespace page_test
}  // namespace gnomon::plot
