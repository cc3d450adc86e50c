// `gnomon list`: the encodings.
#include <fmt/format.h>

#include <memory>

#include "apps/cli/command.h"
#include "apps/cli/output.h"
#include "gnomon/model/encoding.h"

namespace gnomon::cli {
namespace {

constexpr const char* list_help = R"(Usage: gnomon list [--json]

Prints the encodings: the name that commands accept, the title, and the place
at which position enters the Transformer. Commands also accept titles (ALiBi,
T5 bias) and common synonyms (RoPE, NoPE), in any case.

  --json   name, title, places, summary, source and page of each encoding

Example: gnomon list
)";

Json as_json() {
  Json all = Json::array();
  for (const model::EncodingInfo& one : model::encodings())
    all.push_back({{"name", one.name},
                   {"title", one.title},
                   {"enters", model::name(one.enters)},
                   {"summary", one.summary},
                   {"source", one.source},
                   {"page", fmt::format("docs/{}", one.page)}});
  return {{"encodings", all}};
}

void print_table() {
  fmt::print("{:<19}{:<32}{}\n", "name", "title", "position enters at");
  for (const model::EncodingInfo& one : model::encodings())
    fmt::print("{:<19}{:<32}{}\n", one.name, one.title, model::name(one.enters));
}

}  // namespace

Command list_command() {
  Command command("list", list_help);
  auto json = std::make_shared<bool>(false);
  command.flag("--json", json.get());
  command.run = [json] {
    if (*json)
      print_json(as_json());
    else
      print_table();
    return 0;
  };
  return command;
}

}  // namespace gnomon::cli
