#include "gnomon/plot/page.h"

#include <algorithm>
#include <array>

#include "gnomon/error.h"
#include "src/core/json.h"
#include "src/core/json_value.h"
#include "src/plot/bundle.h"
#include "src/plot/page_parts.h"
#include "src/plot/sha256.h"

namespace gnomon::plot {
namespace {

using Json = gnomon::internal::OrderedJson;

// Concatenates the parts. (`"<" + std::string` causes a false overlap warning in g++ 12.)
template <typename... Parts>
std::string joined(const Parts&... parts) {
  std::string text;
  (text.append(parts), ...);
  return text;
}

// Escapes text and marks `backticks` as code. An unpaired backtick is unchanged.
std::string inline_text(std::string_view text) {
  std::string html;
  while (!text.empty()) {
    const std::size_t open = text.find('`');
    const std::size_t close = open == text.npos ? open : text.find('`', open + 1);
    if (close == text.npos) break;
    html += escape(text.substr(0, open));
    html += joined("<code>", escape(text.substr(open + 1, close - open - 1)), "</code>");
    text.remove_prefix(close + 1);
  }
  return html + escape(text);
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size())
    text.replace(at, from.size(), to);
}

Json parsed_spec(std::string_view spec, std::string_view id) {
  Json json =
      gnomon::internal::parse_json<Json>(spec, "page", joined("the spec of figure ", id));
  if (!json.is_object())
    refuse("page", "the spec of a figure must be a JSON object", joined("figure ", id));
  return json;
}

// JSON that cannot close the element that contains it: "<" occurs only inside strings.
std::string embedded(std::string_view spec, std::string_view id) {
  const auto json = parsed_spec(spec, id);
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  replace_all(text, "<", "\\u003c");
  return text;
}

// Same as embedded(), for a script, where "<" is also an operator.
std::string embedded_script(std::string_view script) {
  std::string text(script);
  replace_all(text, "</script", "<\\/script");
  replace_all(text, "<!--", "<\\!--");
  return text;
}

// The scripts of a page with pictures, in their order. The first is the bundle, wrapped in a
// function because it defines global names such as `t` and `n`.
const std::array<std::string, 2>& scripts() {
  static const std::array<std::string, 2> both = {
      joined("(() => {", embedded_script(internal::bundle()), "\n})();"),
      joined("(() => {\nconst dark_colours = ", internal::dark_colours,
             ", light_colours = ", internal::light_colours, ";", internal::script)};
  return both;
}

enum class Scripts { none = 1, pictures };

// The page runs its own scripts, named by their hashes, and connects to nothing. Styles are
// inline, because charts and tooltips set them; pictures are data of the page.
std::string policy(Scripts which) {
  static const std::string sources =
      joined("'sha256-", internal::sha256_base64(scripts()[0]), "' 'sha256-",
             internal::sha256_base64(scripts()[1]), "'");
  return joined(
      "default-src 'none'; script-src ", which == Scripts::pictures ? sources : "'none'",
      "; style-src 'unsafe-inline'; img-src data:; connect-src 'none'; base-uri 'none'; "
      "form-action 'none'");
}

std::string_view class_of(Emphasis emphasis) {
  switch (emphasis) {
    case Emphasis::plain:
      return "";
    case Emphasis::best:
      return "best";
    case Emphasis::muted:
      return "muted";
  }
  return "";
}

std::string cell(std::string_view tag, std::string_view text, Align align, Emphasis emphasis) {
  std::string classes(align == Align::number ? "n" : "");
  if (const std::string_view more = class_of(emphasis); !more.empty())
    classes.append(classes.empty() ? "" : " ").append(more);
  if (!classes.empty()) classes = joined(" class=\"", classes, "\"");
  return joined("<", tag, classes, ">", inline_text(text), "</", tag, ">");
}

bool is_id(std::string_view id) {
  return !id.empty() && std::all_of(id.begin(), id.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '-' || c == '_';
  });
}

// Whether a link is a relative path, a place on the page, or an https address. A colon before
// the first slash would begin a scheme, such as javascript:.
bool is_target(std::string_view target) {
  if (target.empty() || target.starts_with("//")) return false;
  return target.starts_with("https://") ||
         target.substr(0, target.find('/')).find(':') == target.npos;
}

constexpr std::size_t sections_worth_a_list = 4;

}  // namespace

Cell best(std::string text) { return {std::move(text), Emphasis::best}; }
Cell muted(std::string text) { return {std::move(text), Emphasis::muted}; }

Script script() noexcept {
  return internal::bundle().empty() ? Script::absent : Script::present;
}

std::string escape(std::string_view text) {
  std::string html;
  html.reserve(text.size());
  for (const char c : text) switch (c) {
      case '&':
        html += "&amp;";
        break;
      case '<':
        html += "&lt;";
        break;
      case '>':
        html += "&gt;";
        break;
      case '"':
        html += "&quot;";
        break;
      case '\'':
        html += "&#39;";
        break;
      default:
        html += c;
    }
  return html;
}

HtmlPage::HtmlPage(std::string title) : title_(std::move(title)) {}

void HtmlPage::add_block(std::string_view tag, std::string_view text) {
  const std::string_view name = tag.substr(0, tag.find(' '));
  body_ += joined("<", tag, ">", inline_text(text), "</", name, ">\n");
}

HtmlPage& HtmlPage::lead(std::string_view text) {
  add_block("p class=\"lead\"", text);
  return *this;
}

HtmlPage& HtmlPage::heading(std::string_view text) {
  const std::string id = "section-" + std::to_string(sections_.size() + 1);
  if (sections_.empty()) first_section_ = body_.size();
  sections_.emplace_back(id, text);
  add_block(joined("h2 id=\"", id, "\""), text);
  return *this;
}

HtmlPage& HtmlPage::subheading(std::string_view text) {
  add_block("h3", text);
  return *this;
}

HtmlPage& HtmlPage::paragraph(std::string_view text) {
  add_block("p", text);
  return *this;
}

HtmlPage& HtmlPage::note(std::string_view text) {
  add_block("p class=\"note\"", text);
  return *this;
}

HtmlPage& HtmlPage::list(const std::vector<std::string>& items) {
  body_ += "<ul>\n";
  for (const std::string& item : items) add_block("li", item);
  body_ += "</ul>\n";
  return *this;
}

HtmlPage& HtmlPage::links(const std::vector<Link>& links) {
  for (const Link& link : links)
    if (!is_target(link.target))
      refuse("page", "a link must be a relative path, #id or an https address", link.target);
  body_ += "<ul>\n";
  for (const Link& link : links)
    body_ += joined("<li><a href=\"", escape(link.target), "\">", inline_text(link.text),
                    "</a></li>\n");
  body_ += "</ul>\n";
  return *this;
}

HtmlPage& HtmlPage::code(std::string_view text) {
  body_ += joined("<pre>", escape(text), "</pre>\n");
  return *this;
}

HtmlPage& HtmlPage::sample(std::string_view title, std::string_view text) {
  add_block("h3", title);
  body_ += joined("<pre class=\"wrapped\">", escape(text), "</pre>\n");
  return *this;
}

HtmlPage& HtmlPage::command(std::string_view text) {
  add_block("p class=\"note\"", "This command made the page:");
  body_ += joined("<pre class=\"wrapped\">", escape(text), "</pre>\n");
  return *this;
}

HtmlPage& HtmlPage::definitions(const std::vector<std::pair<std::string, std::string>>& terms) {
  body_ += "<dl>\n";
  for (const auto& [term, meaning] : terms) {
    add_block("dt", term);
    add_block("dd", meaning);
  }
  body_ += "</dl>\n";
  return *this;
}

HtmlPage& HtmlPage::table(const Table& table) {
  for (const auto& row : table.rows)
    if (row.size() != table.columns.size())
      refuse("page", joined("a row must have ", std::to_string(table.columns.size()), " cells"),
             static_cast<std::int64_t>(row.size()));
  body_ += "<div class=\"scroll\"><table>\n";
  if (!table.caption.empty()) add_block("caption", table.caption);
  body_ += "<thead><tr>";
  for (const Column& column : table.columns)
    body_ += cell("th", column.title, column.align, Emphasis::plain);
  body_ += "</tr></thead>\n<tbody>\n";
  for (const auto& row : table.rows) {
    body_ += "<tr>";
    for (std::size_t c = 0; c < row.size(); ++c)
      body_ += cell("td", row[c].text, table.columns[c].align, row[c].emphasis);
    body_ += "</tr>\n";
  }
  body_ += "</tbody></table></div>\n";
  return *this;
}

HtmlPage& HtmlPage::figure(const Figure& figure) {
  if (!is_id(figure.id))
    refuse("page", "an id must consist of letters, digits, - and _", figure.id);
  if (std::find(ids_.begin(), ids_.end(), figure.id) != ids_.end())
    refuse("page", "an id must be unique on its page", figure.id);
  const std::string spec = embedded(figure.spec, figure.id);
  ids_.push_back(figure.id);
  body_ += "<figure>\n";
  if (!figure.title.empty()) add_block("h3", figure.title);
  if (script() == Script::present) {
    body_ += joined("<div class=\"picture\" id=\"", figure.id, "\" role=\"img\" aria-label=\"",
                    escape(figure.title), "\"></div>\n");
    body_ += joined("<script type=\"application/json\" id=\"", figure.id, "-spec\">", spec,
                    "</script>\n");
  }
  if (!figure.caption.empty()) add_block("figcaption", figure.caption);
  if (const auto table = numbers(figure.spec)) {
    body_ += "<details class=\"numbers\"><summary>Numbers of this chart</summary>\n";
    this->table(*table);
    body_ += "</details>\n";
  }
  body_ += "</figure>\n";
  return *this;
}

HtmlPage& HtmlPage::fold(std::string_view summary) {
  unfold();
  body_ += "<details class=\"fold\">";
  add_block("summary", summary);
  fold_ = Fold::open;
  return *this;
}

HtmlPage& HtmlPage::unfold() {
  if (fold_ == Fold::open) body_ += "</details>\n";
  fold_ = Fold::closed;
  return *this;
}

HtmlPage& HtmlPage::footer(std::string_view text) {
  footer_ += joined("<p>", inline_text(text), "</p>\n");
  return *this;
}

std::string HtmlPage::html() const {
  const bool draws = !ids_.empty() && script() == Script::present;
  std::string html =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"" +
      policy(draws ? Scripts::pictures : Scripts::none) +
      "\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n"
      "<link rel=\"icon\" href=\"data:,\">\n<title>" +
      escape(title_) + "</title>\n<style>";
  html += internal::style;
  html += "</style>\n</head>\n<body>\n<main>\n<h1>" + inline_text(title_) + "</h1>\n";
  if (draws)
    html +=
        "<noscript><p class=\"note\">The charts require JavaScript. Text and tables do not."
        "</p></noscript>\n";
  if (!ids_.empty() && script() == Script::absent)
    html +=
        "<p class=\"note\">Built without the script that draws charts. Run "
        "<code>make setup</code>, then build again.</p>\n";
  html += std::string_view(body_).substr(0, first_section_);
  if (sections_.size() >= sections_worth_a_list) {
    html += "<nav>";
    for (const auto& [id, heading] : sections_)
      html += joined("<a href=\"#", id, "\">", inline_text(heading), "</a>\n");
    html += "</nav>\n";
  }
  html += std::string_view(body_).substr(first_section_);
  if (fold_ == Fold::open) html += "</details>\n";
  html += "</main>\n";
  if (!footer_.empty()) html += joined("<footer>\n", footer_, "</footer>\n");
  if (draws)
    for (const std::string& one : scripts()) html += joined("<script>", one, "</script>\n");
  return html + "</body>\n</html>\n";
}

std::string standalone(const Figure& figure) {
  Json spec = parsed_spec(figure.spec, figure.id);
  if (gnomon::internal::is_text(spec.value("width", Json()), "container")) {
    constexpr int width = 900;  // px
    spec["width"] = width;
    spec.erase("autosize");
  }
  if (!figure.title.empty())
    spec["title"] = {{"text", figure.title}, {"anchor", "start"}, {"fontSize", 15}};
  spec["config"] = {{"background", "#ffffff"},
                    {"font", "sans-serif"},
                    {"view", {{"stroke", nullptr}}},
                    {"range", gnomon::internal::parse_json<Json>(internal::light_colours,
                                                                 "page", "the colours")},
                    {"axis", {{"titleFontWeight", "normal"}}},
                    {"legend", {{"titleFontWeight", "normal"}, {"labelLimit", 320}}},
                    {"header", {{"labelFontSize", 12}}}};
  return spec.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string html(const Figure& figure) {
  HtmlPage page(figure.title);
  Figure untitled = figure;
  untitled.title.clear();
  page.figure(untitled);
  return page.html();
}

}  // namespace gnomon::plot
