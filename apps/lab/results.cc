#include "apps/lab/results.h"

#include <fmt/format.h>
#include <torch/version.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <ctime>
#include <fstream>
#include <map>
#include <thread>

#include "apps/lab/answer.h"
#include "apps/lab/products_amx.h"
#include "apps/lab/statistics.h"
#include "gnomon/isa.h"
#include "gnomon/model/encoding.h"
#include "gnomon/version.h"

namespace gnomon::lab {
namespace {

std::vector<double> collect(const std::vector<const Json*>& objects, const char* key) {
  std::vector<double> numbers;
  for (const Json* one : objects) numbers.push_back(one->at(key).get<double>());
  return numbers;
}

// One encoding over its seeds.
Json encoding_results(const std::string& name, const std::vector<const Json*>& runs) {
  const model::EncodingInfo& info = model::find_encoding(name);
  const Json& first = *runs.front();
  Json lengths = Json::array();
  double at_training_length = 0;
  std::int64_t holds_to = 0;
  bool holds = true;
  for (std::size_t i = 0; i < first.at("lengths").size(); ++i) {
    std::vector<const Json*> here;
    for (const Json* run : runs) here.push_back(&run->at("lengths")[i]);
    const std::int64_t length = here[0]->at("length");
    if (!here[0]->at("applicable")) {
      lengths.push_back({{"length", length}, {"applicable", false}});
      continue;
    }
    const auto tails = collect(here, "tail_bits");
    if (i == 0) at_training_length = mean(tails);
    const double change = mean(tails) / at_training_length - 1;
    holds = holds && change <= holds_within;
    if (holds) holds_to = length;
    lengths.push_back({{"length", length},
                       {"applicable", true},
                       {"tail_bits", mean(tails)},
                       {"tail_deviation", deviation(tails)},
                       {"window_bits", mean(collect(here, "window_bits"))},
                       // The same bytes from the same model with the context cut to the
                       // training length: its own tail there.
                       {"cut_bits", at_training_length},
                       {"change", change},
                       {"windows", here[0]->at("windows")}});
  }
  return {{"name", name},
          {"title", info.title},
          {"enters", model::name(info.enters)},
          {"summary", info.summary},
          {"source", info.source},
          {"specification", first.at("specification")},
          {"seeds", runs.size()},
          {"parameters", first.at("parameters")},
          {"position_parameters", first.at("position_parameters")},
          {"lengths", lengths},
          {"holds_to", holds_to},
          {"bytes_per_second", mean(collect(runs, "bytes_per_second"))},
          {"train_seconds", mean(collect(runs, "train_seconds"))},
          {"test_seconds", mean(collect(runs, "test_seconds"))}};
}

// Bits a byte of the test texts from the frequencies of the training bytes alone: what a model
// must get well below to have learnt anything from context.
double byte_frequency_bits(const Corpus& corpus) {
  std::array<double, 256> counts;
  counts.fill(1);  // a byte that training has not seen is rare, not impossible
  double total = 256;
  for (const Text& text : corpus.train) {
    for (const char c : text.bytes) counts[static_cast<unsigned char>(c)] += 1;
    total += static_cast<double>(text.bytes.size());
  }
  double bits = 0, tested = 0;
  for (const Text& text : corpus.test) {
    for (const char c : text.bytes)
      bits -= std::log2(counts[static_cast<unsigned char>(c)] / total);
    tested += static_cast<double>(text.bytes.size());
  }
  return bits / std::max(1.0, tested);
}

std::string processor() {
  std::ifstream stream("/proc/cpuinfo");
  for (std::string line; std::getline(stream, line);)
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  return "unknown";
}

std::string now() {
  const std::time_t time =
      std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc{};
  gmtime_r(&time, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &utc);
  return text;
}

Json text_names(const std::vector<Text>& texts) {
  Json names = Json::array();
  for (const Text& text : texts)
    names.push_back({{"name", text.name}, {"bytes", text.bytes.size()}});
  return names;
}

}  // namespace

Json assemble_results(const SessionResult& session, const Corpus& corpus) {
  std::vector<std::string> order;
  std::map<std::string, std::vector<const Json*>> by_encoding;
  for (const Json& run : session.runs) {
    const std::string name = run.at("encoding");
    if (by_encoding[name].empty()) order.push_back(name);
    by_encoding[name].push_back(&run);
  }
  // As they were asked for.
  Json encodings = Json::array();
  for (const std::string& name : session.settings.encodings)
    if (by_encoding.count(name)) encodings.push_back(encoding_results(name, by_encoding[name]));

  Json results{{"gnomon", GNOMON_VERSION}, {"schema", 1}, {"date", now()}};
  results["answer"] = Json::array();
  results["settings"] = to_json(session.settings);
  results["texts"] = {{"source", corpus.source},
                      {"split", corpus.split},
                      {"byte_frequency_bits", byte_frequency_bits(corpus)},
                      {"train", text_names(corpus.train)},
                      {"validation", text_names(corpus.validation)},
                      {"test", text_names(corpus.test)}};
  results["runs_asked"] =
      session.settings.seeds * static_cast<std::int64_t>(session.settings.encodings.size());
  results["stopped"] = session.stopped;
  results["encodings"] = encodings;
  results["rankings"] = rankings(encodings, session.runs);
  results["answer"] = answer(results);
  results["runs"] = session.runs;
  results["unfinished"] = session.unfinished;
  results["machine"] = {{"processor", processor()},
                        {"cores", std::thread::hardware_concurrency()},
                        {"device", session.settings.device},
                        {"isa", name(current_isa())},
                        {"products", session.settings.device != "cpu" ? "LibTorch"
                                     : amx::available()               ? "AMX"
                                                                      : "BLAS"},
                        {"libtorch", TORCH_VERSION}};
  results["seconds"] = session.seconds;
  return results;
}

std::string terminal_summary(const Json& results, Colour colour) {
  const auto paint = [&](const char* code, const std::string& text) {
    return colour == Colour::always ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : text;
  };
  std::string text = "\n";
  for (const Json& sentence : results.at("answer")) text += sentence.get<std::string>() + "\n";
  if (results.at("encodings").empty()) return text;
  text +=
      "\nBits a byte on the same test bytes, each predicted from the second half of a window "
      "of\n";
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
  text += paint("1", head + fmt::format("{:>10}", "holds to")) + "\n";
  for (const Json& one : results.at("encodings")) {
    text += fmt::format("{:<18}{:>11}", one.at("title").get<std::string>().substr(0, 18),
                        one.at("parameters").get<std::int64_t>());
    for (const Json& at : one.at("lengths")) {
      if (!at.at("applicable")) {
        text += fmt::format("{:>9}", "n/a");
        continue;
      }
      const double bits = at.at("tail_bits");
      const std::string cell = fmt::format("{:>9.3f}", bits);
      text += bits == best[at.at("length").get<std::int64_t>()] ? paint("32", cell) : cell;
    }
    text += fmt::format("{:>10}\n", one.at("holds_to").get<std::int64_t>());
  }
  return text;
}

}  // namespace gnomon::lab
