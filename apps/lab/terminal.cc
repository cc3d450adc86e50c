#include "apps/lab/terminal.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "apps/lab/tasks.h"

namespace gnomon::lab {
namespace {

// The title if it fits, otherwise the name in --encodings. A shortened title could be that of
// another encoding.
std::string label(const Json& encoding) {
  constexpr std::size_t room = 18;
  const auto title = encoding.at("title").get<std::string>();
  if (title.size() <= room) return title;
  return encoding.at("name").get<std::string>().substr(0, room);
}

std::string painted(Colour colour, const char* code, const std::string& text) {
  return colour == Colour::always ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : text;
}

std::string row_head(const Json& one) {
  return fmt::format("{:<18}{:>11}", label(one), one.at("parameters").get<std::int64_t>());
}

std::string text_table(const Json& results, Colour colour) {
  std::string head = fmt::format("{:<18}{:>11}", "", "parameters");
  std::map<std::int64_t, double> best;
  for (const Json& one : results.at("encodings"))
    for (const Json& at : one.at("lengths")) {
      const std::int64_t length = at.at("length");
      if (!at.at("applicable")) continue;
      const double bits = at.at("tail_bits");
      const auto [place, fresh] = best.emplace(length, bits);
      if (!fresh) place->second = std::min(place->second, bits);
    }
  for (const Json& length : results.at("settings").at("eval_lengths"))
    head += fmt::format("{:>9}", length.get<std::int64_t>());
  std::string text = painted(colour, "1", head + fmt::format("{:>10}", "holds to")) + "\n";
  for (const Json& one : results.at("encodings")) {
    text += row_head(one);
    for (const Json& at : one.at("lengths")) {
      if (!at.at("applicable")) {
        text += fmt::format("{:>9}", "n/a");
        continue;
      }
      const double bits = at.at("tail_bits");
      const std::string cell = fmt::format("{:>9.3f}", bits);
      text += bits == best[at.at("length").get<std::int64_t>()] ? painted(colour, "32", cell)
                                                                : cell;
    }
    text += fmt::format("{:>10}\n", one.at("holds_to").get<std::int64_t>());
  }
  return text;
}

std::string example_table(const Json& results, Colour colour) {
  std::string head = fmt::format("{:<18}{:>11}", "", "parameters");
  const Json& rankings = results.at("rankings");
  for (const Json& range : rankings)
    head += fmt::format("{:>18}", fmt::format("{}-{}", range.at("from").get<std::int64_t>(),
                                              range.at("to").get<std::int64_t>()));
  std::string text = painted(colour, "1", head) + "\n";
  const auto cell = [](double whole, double byte) {
    const char* form = whole > 0 && whole < 1e-3 ? "{:.0e}, {:.1f}" : "{:.1f}, {:.1f}";
    return fmt::format("{:>18}", fmt::format(fmt::runtime(form), 100 * whole, 100 * byte));
  };
  for (const Json& one : results.at("encodings")) {
    text += row_head(one);
    for (std::size_t i = 0; i < rankings.size(); ++i) {
      const Json& range = one.at("ranges")[i];
      if (!range.at("applicable")) {
        text += fmt::format("{:>18}", "n/a");
        continue;
      }
      const std::string shown = cell(range.at("whole"), range.at("byte"));
      text += rankings[i].at("order")[0].at("name") == one.at("name") && range.at("whole") > 0
                  ? painted(colour, "32", shown)
                  : shown;
    }
    text += "\n";
  }
  text += fmt::format("{:<29}", "chance");
  for (const Json& range : results.at("encodings")[0].at("ranges"))
    text += range.at("applicable") ? cell(range.at("chance_whole"), range.at("chance_byte"))
                                   : fmt::format("{:>18}", "");
  return text + "\n";
}

std::string cost_table(const Json& cost, Colour colour) {
  if (cost.empty()) return "";
  std::size_t lengths = 0;
  std::string head = fmt::format("{:<18}{:>11}{:>9}", "", "parameters", "step");
  for (const Json& one : cost)
    for (; lengths < one.at("memory").size(); ++lengths)
      head += fmt::format("{:>9}", one.at("memory")[lengths].at("tokens").get<std::int64_t>());
  std::string text =
      "\nCost: parameters of the encoding, step time relative to none, additional memory in\n"
      "MiB for windows of\n" +
      painted(colour, "1", head) + "\n";
  for (const Json& one : cost) {
    text += fmt::format("{:<18}{:>11}", label(one),
                        one.at("position_parameters").get<std::int64_t>());
    text += one.contains("relative_step")
                ? fmt::format("{:>9.2f}", one.at("relative_step").get<double>())
                : fmt::format("{:>9}", "n/a");
    for (std::size_t i = 0; i < lengths; ++i)
      text += i < one.at("memory").size() && one.at("memory")[i].contains("extra_bytes")
                  ? fmt::format("{:>9.1f}",
                                one.at("memory")[i].at("extra_bytes").get<double>() / (1 << 20))
                  : fmt::format("{:>9}", "n/a");
    text += "\n";
  }
  return text;
}

std::string extension_tables(const Json& extensions) {
  std::string text;
  for (const Json& one : extensions) {
    text += fmt::format(
        "\n{}, extended to {} times the training length; fine-tuned for {} steps\n{:<29}{:>9}",
        one.at("title").get<std::string>(), one.at("factor").get<std::int64_t>(),
        one.at("steps").get<std::int64_t>(), "", "");
    for (const Json& length : one.at("lengths"))
      text += fmt::format("{:>9}", length.get<std::int64_t>());
    text += "\n";
    for (const Json& row : one.at("rows")) {
      text += fmt::format("{:<29}{:>9}", row.at("title").get<std::string>(),
                          row.at("stage").get<std::string>());
      for (const Json& bits : row.at("bits"))
        text += fmt::format("{:>9.3f}", bits.get<double>());
      text += "\n";
    }
  }
  return text;
}

std::string findings_table(const Json& results, Colour colour) {
  switch (find_task(results.at("settings").at("task").get<std::string>()).task) {
    case Task::text:
      return "\nBits per byte on the same test bytes, each in the second half of a window "
             "of\n" +
             text_table(results, colour);
    case Task::masked:
      return fmt::format(
                 "\nBits per masked byte on the same masked bytes at every length; byte "
                 "frequencies alone: {:.3f}\n",
                 results.at("texts").at("byte_frequency_bits").get<double>()) +
             text_table(results, colour);
    default:
      return "\nRight whole answers and right bytes in percent, at lengths\n" +
             example_table(results, colour);
  }
}

}  // namespace

std::string terminal_summary(const Json& results, Colour colour) {
  std::string text = "\n";
  for (const Json& sentence : results.at("answer")) text += sentence.get<std::string>() + "\n";
  for (const Json& one : results.at("left_out"))
    text += fmt::format("Left out: {}. Reason: {}\n", one.at("name").get<std::string>(),
                        one.at("reason").get<std::string>());
  if (results.at("encodings").empty()) return text;
  return text + findings_table(results, colour) + extension_tables(results.at("extensions")) +
         cost_table(results.at("cost"), colour);
}

}  // namespace gnomon::lab
