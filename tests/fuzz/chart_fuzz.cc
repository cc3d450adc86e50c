// Reader: src/plot/numbers.cc
#include "fuzz/target.h"
#include "gnomon/plot/page.h"

namespace gnomon::fuzz {
namespace chart_fuzz {

// A spec of any origin is refused, or drawn: numbers, the page, and the spec for other tools.
bool read(std::span<const std::byte> bytes) {
  return answered([&] {
    const plot::Figure figure{.id = "fuzz", .title = "Fuzz", .spec = std::string(text(bytes))};
    plot::numbers(figure.spec);
    plot::standalone(figure);
    plot::HtmlPage page("Fuzz");
    page.figure(figure);
    if (plot::script() == plot::Script::present) return;  // 0.9 MB in each page
    const std::string html = page.html();
    require(internal::ill_formed_utf8(html) == html.npos);
  });
}

const Register registered("chart", read);

}  // namespace chart_fuzz
}  // namespace gnomon::fuzz
