// gnomon-lab, the program that `gnomon lab`, `generate`, `evaluate`, `compare` and `batches`
// run. It is a separate program, so that `gnomon` does not require LibTorch.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "apps/command_line/streams.h"
#include "apps/lab/commands.h"
#include "apps/lab/data/corpus.h"
#include "apps/lab/data/run_json.h"
#include "apps/lab/data/words.h"
#include "apps/lab/report/report.h"
#include "apps/lab/runs/folder.h"
#include "apps/lab/runs/options.h"
#include "apps/lab/runs/process.h"
#include "apps/lab/runs/run_team.h"
#include "apps/lab/runs/session.h"
#include "apps/lab/statistics/compare.h"
#include "apps/lab/statistics/results.h"
#include "apps/lab/tasks/make_model.h"
#include "apps/lab/tasks/settings_check.h"
#include "apps/lab/tasks/stored.h"
#include "src/core/text.h"

namespace gnomon::lab {
namespace {

// The texts of the settings, which may be at other paths.
Corpus corpus_of(const Options& options) {
  Settings settings = options.settings;
  if (!options.texts.empty()) {
    settings.texts = options.texts;
    check_settings(settings);
  }
  return load_corpus(settings, options.plan ? options.plan->tokenizer : std::string());
}

// Calls a function if an exception leaves the scope.
class OnError {
 public:
  explicit OnError(std::function<void()> call) : call_(std::move(call)) {}
  ~OnError() {
    if (std::uncaught_exceptions() > before_) call_();
  }
  OnError(const OnError&) = delete;
  OnError& operator=(const OnError&) = delete;

 private:
  const std::function<void()> call_;
  const int before_ = std::uncaught_exceptions();
};

int train(int argc, char** argv) {
  Options options = parse_options(argc, argv);
  check_blas(options.jobs * options.workers_per_run);
  std::FILE* talk = options.json || options.list_runs ? stderr : stdout;
  if (options.world.rank > 0) return follow_team(options, talk);
  if (options.list_runs || !options.run.empty()) {
    if (!options.list_runs || options.minutes) use_device(options.settings.device);
    const Corpus corpus = corpus_of(options);
    if (!options.list_runs) return train_one_run(options, corpus, talk);
    std::puts(to_json(plan_session(options, corpus, talk)).dump(1).c_str());
    return 0;
  }
  std::optional<Parts> parts;
  if (options.merge) {
    parts = read_parts(options.texts);
    options.texts.clear();
    options.settings = parts->stored.settings;
  }
  OutputFolder out(options);
  if (options.resume && has_run(out.path()))
    options.settings =
        resumed_settings(options, read_settings(out.path() / "settings.json").settings);
  if (!parts) use_device(options.settings.device);
  const Corpus corpus = corpus_of(options);
  fmt::print(talk, "Training on {} ({}).\nOutput folder: {}\n",
             gnomon::internal::printable(corpus.source),
             gnomon::internal::printable(corpus.split),
             gnomon::internal::printable(out.path().string()));
  std::fflush(talk);

  // --merge writes all or nothing, because it cannot continue.
  const OnError discard([&] {
    if (parts) out.discard();
  });
  const SessionResult session = parts ? merge_parts(*parts, options, corpus, out.path(), talk)
                                      : run_session(options, corpus, out.path(), talk);
  const Results results = assemble_results(session, corpus);
  const auto page = write_report(out.path(), results);
  fmt::print(talk, "{}\nReport: {}\n",
             terminal_summary(results, isatty(fileno(talk)) && !std::getenv("NO_COLOR")
                                           ? Colour::always
                                           : Colour::never),
             gnomon::internal::printable(page.string()));
  constexpr bool ascii = true;  // no control characters on a terminal
  if (options.json) std::puts(to_json(results).dump(1, ' ', ascii).c_str());
  return session.stopped ? 130 : 0;
}

// The help of every command, separated by form feeds, for the completion and the manual pages
// of `gnomon`.
int print_help() {
  for (const char* one : {generate_help, evaluate_help, compare_help, batches_help, lab_help})
    fmt::print("{}\f", one);
  return 0;
}

// argv[1]: lab, generate, evaluate, compare, batches or help; otherwise the options of lab
// follow.
int run_command(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "help") return print_help();
  set_blas_threads();
  const std::string command = argc > 1 ? argv[1] : "";
  if (command == "generate") return generate_command(argc - 1, argv + 1);
  if (command == "evaluate") return evaluate_command(argc - 1, argv + 1);
  if (command == "compare") return compare_command(argc - 1, argv + 1);
  if (command == "batches") return batches_command(argc - 1, argv + 1);
  return command == "lab" ? train(argc - 1, argv + 1) : train(argc, argv);
}

}  // namespace

int run_program(int argc, char** argv) {
  reserve_standard_streams();
  keep_freed_memory();
  try {
    const int status = run_command(argc, argv);
    check_standard_output();
    return status;
  } catch (const std::exception& error) {
    std::string lines = gnomon::internal::printable_lines(error_text(error, "lab"));
    if (!lines.starts_with('[') && !dynamic_cast<const std::invalid_argument*>(&error))
      lines = "[lab] unexpected error: " + first_line(lines);
    // One line for each rejected text.
    for (std::size_t at = 0; (at = lines.find('\n', at)) != std::string::npos; at += 9)
      lines.replace(at, 1, "\ngnomon: ");
    print_error("gnomon: " + lines);
    return 2;
  }
}

}  // namespace gnomon::lab
