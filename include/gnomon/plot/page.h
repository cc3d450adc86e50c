// A page that opens from disk: one HTML file with its text, tables, pictures and the script
// that draws them, which needs no network, no folder beside it and no server. It follows the
// reader's light or dark setting and reads on a phone (390 px) as on a desk.
//
//   plot::Page page("Which encoding?");
//   page.lead("Three encodings, trained for 300 steps.").heading("Results");
//   page.table({.columns = {{"encoding"}, {"loss", plot::Align::number}},
//               .rows = {{"rotary", plot::best("1.83")}, {"alibi", "1.91"}}});
//   page.figure({.id = "loss", .title = "Loss by length", .spec = plot::lines(chart)});
//   io::write_aside("index.html", page.html());
//
// All text is text: <, > and & are shown, not obeyed. `backticks` make code.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gnomon::plot {

// A picture: a Vega-Lite spec (JSON), as chart.h and pictures.h make it. A plain value.
struct Figure {
  std::string id;            // of its element: letters, digits, - and _; unique on a page
  std::string title = {};    // above the picture
  std::string caption = {};  // below it: what to see
  std::string spec;
};

enum class Align { text = 1, number };  // numbers stand to the right, digits of equal width
enum class Emphasis { plain = 1, best, muted };

struct Column {
  std::string title;
  Align align = Align::text;
};
// A cell from a string; best("1.83") and muted("-") for the others.
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
  std::vector<std::vector<Cell>> rows;  // each as long as `columns`
  std::string caption = {};
};

// Collects what a page shows, in reading order; each call adds below and returns the page.
class Page {
 public:
  explicit Page(std::string title);

  Page& lead(std::string_view text);     // the answer, set larger; may be called again
  Page& heading(std::string_view text);  // a section; where there are 4 or more, a list of them
                                         // stands above the first
  Page& subheading(std::string_view text);
  Page& paragraph(std::string_view text);
  Page& note(std::string_view text);  // small and muted
  Page& list(const std::vector<std::string>& items);
  Page& code(std::string_view text);  // as it stands, lines kept
  Page& definitions(const std::vector<std::pair<std::string, std::string>>& terms);
  // Throws std::invalid_argument when a row is not as long as `columns`. A wide table scrolls
  // inside its box.
  Page& table(const Table& table);
  // Throws std::invalid_argument when the spec is no JSON object, or the id is taken or not an
  // id. Specs of width "container" are as wide as the column.
  Page& figure(const Figure& figure);
  // What follows, up to unfold(), is closed until the reader opens it. Not nested.
  Page& fold(std::string_view summary);
  Page& unfold();
  Page& footer(std::string_view text);

  // The file, about 0.9 MB where it has pictures (the script) and a few KB where not. Built
  // without the script (GNOMON_VEGA_BUNDLE), it says in a line what pictures need.
  std::string html() const;

 private:
  void add_block(std::string_view tag, std::string_view text);

  std::string title_, body_, footer_;
  std::size_t first_section_ = 0;  // in body_
  std::vector<std::string> ids_;
  std::vector<std::pair<std::string, std::string>> sections_;  // id, heading
  enum class Fold { closed = 1, open } fold_ = Fold::closed;
};

// A page with one picture.
std::string html(const Figure& figure);

// Whether this build carries the script that draws pictures.
enum class Script { present = 1, absent };
Script script() noexcept;

// Text as HTML: & < > " ' escaped.
std::string escape(std::string_view text);

}  // namespace gnomon::plot
