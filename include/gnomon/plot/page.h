// HTML page: one file with text, tables, pictures and the script that draws them. It opens from
// disk and requires no network, no other files and no server. It follows the light or dark
// setting of the reader, and it is readable on a phone (390 px) and on a desktop.
//
//   plot::HtmlPage page("Which encoding?");
//   page.lead("Three encodings, trained for 300 steps.").heading("Results");
//   page.table({.columns = {{"encoding"}, {"loss", plot::Align::number}},
//               .rows = {{"rotary", plot::best("1.83")}, {"alibi", "1.91"}}});
//   page.figure({.id = "loss", .title = "Loss by length", .spec = plot::lines(chart)});
//   io::write_atomically("index.html", page.html());
//
// All text is escaped: <, > and & are shown as characters. Text between `backticks` is code.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gnomon::plot {

// A picture: a Vega-Lite spec (JSON), as chart.h and pictures.h return it.
struct Figure {
  std::string id;            // id of the HTML element: letters, digits, - and _; unique on the
                             // page
  std::string title = {};    // above the picture
  std::string caption = {};  // below the picture
  std::string spec;
};

enum class Align { text = 1, number };  // number: right-aligned, with digits of equal width
enum class Emphasis { plain = 1, best, muted };

struct Column {
  std::string title;
  Align align = Align::text;
};
// A table cell. A string converts to a plain cell; use best("1.83") and muted("-") for the
// others.
struct Cell {
  std::string text;
  Emphasis emphasis = Emphasis::plain;

  Cell(std::string text) : text(std::move(text)) {}  // NOLINT: rows are lists of strings
  Cell(const char* text) : text(text) {}             // NOLINT
  Cell(std::string text, Emphasis emphasis) : text(std::move(text)), emphasis(emphasis) {}
};
Cell best(std::string text);
Cell muted(std::string text);

struct Table {
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;  // each of the length of `columns`
  std::string caption = {};
};

// Returns the numbers that a chart of chart.h or pictures.h draws as a table, with 4
// significant digits; nothing for another spec. Of more than 24 places or 8 columns, places at
// even distances are shown, and the caption gives both numbers. Throws std::invalid_argument if
// the text is not JSON, or says that it has numbers and lacks them.
std::optional<Table> numbers(std::string_view spec);

struct Link {
  std::string text;
  std::string target;  // a path relative to the page, #id, or an address with https://
};

// Builder of a page, in reading order. Each call appends an element and returns the page.
class HtmlPage {
 public:
  explicit HtmlPage(std::string title);

  // Adds the main result, in larger type. May be called again.
  HtmlPage& lead(std::string_view text);
  // Adds a section heading. A list of 4 or more sections precedes the first.
  HtmlPage& heading(std::string_view text);
  HtmlPage& subheading(std::string_view text);
  HtmlPage& paragraph(std::string_view text);
  HtmlPage& note(std::string_view text);  // small, muted type
  HtmlPage& list(const std::vector<std::string>& items);
  // Throws std::invalid_argument if a target has another form than those of Link.
  HtmlPage& links(const std::vector<Link>& links);
  HtmlPage& code(std::string_view text);  // preformatted, line breaks are kept
  // Preformatted text below its title, e.g. the output of a model. Long lines are wrapped.
  HtmlPage& sample(std::string_view title, std::string_view text);
  HtmlPage& command(std::string_view text);  // the command that made the page, in a code box
  HtmlPage& definitions(const std::vector<std::pair<std::string, std::string>>& terms);
  // Throws std::invalid_argument if a row does not have as many cells as `columns`. A wide
  // table scrolls inside its box.
  HtmlPage& table(const Table& table);
  // Throws std::invalid_argument if the spec is not a JSON object, or the id is invalid or
  // already used. Specs of width "container" are as wide as the column. The numbers of a chart
  // (see numbers()) follow in a collapsed block.
  HtmlPage& figure(const Figure& figure);
  // Starts a block that is collapsed until the reader opens it. It ends at unfold(). A new
  // fold() ends the previous one: blocks are not nested.
  HtmlPage& fold(std::string_view summary);
  HtmlPage& unfold();
  HtmlPage& footer(std::string_view text);

  // Returns the HTML file: about 0.9 MB with pictures (because of the script), a few KB
  // without. If the library was built without the script (GNOMON_VEGA_BUNDLE), a line on the
  // page says what the pictures require.
  std::string html() const;

 private:
  void add_block(std::string_view tag, std::string_view text);

  std::string title_, body_, footer_;
  std::size_t first_section_ = 0;  // in body_
  std::vector<std::string> ids_;
  std::vector<std::pair<std::string, std::string>> sections_;  // id, heading
  enum class Fold { closed = 1, open } fold_ = Fold::closed;
};

// Returns the spec with the title, the colours of a light page and a fixed width, for tools
// that write PNG or SVG files.
std::string standalone(const Figure& figure);

// Returns a page with one picture.
std::string html(const Figure& figure);

// Whether this build contains the script that draws pictures.
enum class Script { present = 1, absent };
Script script() noexcept;

// Returns the text with & < > " ' escaped for HTML.
std::string escape(std::string_view text);

}  // namespace gnomon::plot
