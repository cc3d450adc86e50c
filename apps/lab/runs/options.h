// The options of the lab. Presets give values for options that the command line omits.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/lab/data/settings.h"
#include "apps/lab/runs/plan.h"

namespace gnomon {
class CommandLine;
}

namespace gnomon::lab {

struct World {
  std::int64_t rank = 0;
  std::int64_t size = 1;  // 1, 2, 4 or 8
  // Where rank 0 listens for the others: host and port. Empty for one process.
  std::string host = {};
  std::uint16_t port = 0;
  // A secret of all processes. Empty for one process.
  std::string token = {};
};

// A variable of the environment. Empty if it is not set.
using Variables = std::function<std::optional<std::string>(const char* name)>;
std::optional<std::string> environment(const char* name);

// The world of a launcher; one process if there is none. Throws std::invalid_argument if
// variables are missing or contradict each other, if the number of processes is not 1, 2, 4 or
// 8, or if there are several without the variable GNOMON_LAB_TOKEN.
World find_world(const Variables& variables);

// Throws std::invalid_argument unless it is 1, 2, 4 or 8. `rule`: "--workers-per-run".
int team_size(const std::string& rule, std::int64_t size);

// The first host of a list of Slurm: "a3" of "a[3-5,9],b".
std::string first_host(const std::string& list);

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

// Parses the words after argv[0]. If --help is one of them, prints `help` and returns false.
bool parse_command_line(CommandLine& command, int argc, char** argv, const char* help);

// The settings for --resume. Throws std::invalid_argument if the command line gives a setting
// another value than the stored run has.
Settings resumed_settings(const Options& options, const Settings& stored);

}  // namespace gnomon::lab
