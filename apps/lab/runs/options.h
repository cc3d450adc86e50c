// The options of the lab. Presets give values for options that the command line omits.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/lab/data/settings.h"
#include "apps/lab/runs/plan.h"
#include "apps/lab/runs/world.h"

namespace gnomon {
class CommandLine;
}

namespace gnomon::lab {

struct Options {
  Settings settings;
  // The time limit in minutes, from the preset or --minutes. The steps are lowered to fit,
  // equally for every encoding. Empty if --steps was given.
  std::optional<double> minutes;
  bool steps_follow_minutes = false;  // --minutes: also raise the steps to fill the time
  bool seeds_follow_minutes =
      false;                  // no --seeds: more if they fit into `minutes` (calibration.h)
  std::vector<double> sweep;  // learning rates of --sweep; empty: none
  std::string out;            // --out; empty: chosen by OutputFolder
  // Where the texts are, if not at settings.texts; with --merge, the folders.
  std::vector<std::string> texts;
  bool list_runs = false;    // --list-runs
  std::optional<Plan> plan;  // --protocol
  std::string run;           // --run: a name or a number
  bool merge = false;        // --merge
  bool partial = false;      // --partial: runs may be missing
  bool resume = false;
  bool json = false;
  bool cost = true;                // measure the cost; --no-cost
  std::vector<std::string> given;  // the keys of `settings` in the command line
  int jobs = 1;                    // runs at the same time
  int workers_per_run = 1;         // threads of a run; the results do not depend on it
  World world;                     // the processes that train each run together
  double checkpoint_seconds = 20;  // time between checkpoints of a run
  std::string command;             // the command line, quoted for a shell
  // The begin of the session, for --minutes.
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
};

extern const char* const lab_help;

// Parses and checks the command line. --help prints the help and exits with status 0. Throws
// std::invalid_argument for bad usage.
Options parse_options(int argc, char** argv);

// Ascending lengths from "64,128". Throws std::invalid_argument unless all are integers > 0.
std::vector<std::int64_t> parse_lengths(const char* option, const std::string& text);
// The seeds 1, 2, 3 from "3", 1, 4, 7 from "1,4,7", and 4 from "4,".
std::vector<std::int64_t> parse_seeds(const std::string& text);

// Parses the words after argv[0]. If --help is one of them, prints `help` and returns false.
bool parse_command_line(CommandLine& command, int argc, char** argv, const char* help);

// The settings for --resume. Throws std::invalid_argument if the command line gives a setting
// another value than the stored run has.
Settings resumed_settings(const Options& options, const Settings& stored);

}  // namespace gnomon::lab
