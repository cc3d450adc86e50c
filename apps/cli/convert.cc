// `gnomon convert`: reorders the weights of one rotary pairing for the other.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <initializer_list>
#include <memory>
#include <system_error>
#include <tuple>

#include "apps/cli/arguments.h"
#include "apps/cli/attention_sizes.h"
#include "apps/cli/command.h"
#include "apps/cli/convert_gguf.h"
#include "apps/cli/model_folder.h"
#include "apps/cli/output.h"
#include "gnomon/error.h"
#include "gnomon/io/safetensors.h"
#include "src/core/text.h"

namespace gnomon::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* convert_help =
    R"(Usage: gnomon convert IN --to PAIRING|gguf [options] -o OUT

Reorders the rows of query and key projections for the given rotary pairing.
IN: a .safetensors file, or a folder or .index.json of shards; OUT: the same.
No number is computed. Converting back gives the same bytes.
With --to gguf: writes a model folder as a new GGUF file for llama.cpp.

  --to TO           halves (Llama by Hugging Face), adjacent (by Meta), or gguf
  --type TYPE       gguf: type of matrices, f32, f16 or bf16 (default: as in IN)
  --dry-run         only list the tensors that would change or be written
  --json            the report as one JSON document
  --config PATH     config.json with the sizes (default: the one beside IN);
                    or give the sizes as options:
  --family NAME     model_type, which selects the layout of fused q, k and v
  --heads H         query heads
  --kv-heads K      key heads (H)
  --head-dim D      head dimension
  --rotary-dim R    elements of a head that rotate (D)
  --first N         the first of them (0); latent attention: D - R
  --kv-lora-rank N  latent attention: rows before the shared key
  -o OUT            a file, or a folder that is new or empty

Example: gnomon convert Llama-3.1-8B --to adjacent -o Llama-3.1-8B-adjacent
)";

struct ConvertOptions {
  std::string in, to, type;
  SizeOptions sizes;
  bool dry_run = false;
  OutputOptions output;
};

// A tensor of a file, and the rows that move in it.
struct Tensor {
  io::TensorEntry entry;
  std::optional<model::RowPermutation> plan;
};

struct Shard {
  std::string name;
  std::uint64_t header = 0;  // bytes before the data of the tensors
  std::vector<Tensor> tensors;
};

struct Job {
  explicit Job(const std::string& in)
      : checkpoint(in), whole_folder(fs::is_directory(in) || !in.ends_with(".safetensors")) {
    if (whole_folder) companions = companions_of(checkpoint);
  }

  io::Checkpoint checkpoint;
  bool whole_folder;  // false: IN is one .safetensors file
  Companions companions = {};
  model::ModelWeights weights = {};
  Pairing to = {};
  std::vector<Shard> shards;
  std::size_t changed = 0, unchanged = 0, of_towers = 0;
  std::uint64_t bytes = 0;
};

Shard read_shard(const io::SafeTensors& file) {
  const fs::path path = file.name();
  Shard shard{.name = path.filename().string(), .header = 0, .tensors = {}};
  std::uint64_t end = 0;
  for (const io::TensorEntry& entry : file.tensors()) {
    end = std::max(end, entry.end);
    shard.tensors.push_back({entry, std::nullopt});
  }
  // The data of the last tensor ends at the end of the file.
  shard.header = fs::file_size(path) - end;
  return shard;
}

Job plan(const ConvertOptions& o) {
  Job job(o.in);
  job.to = parse_pairing(o.to);
  job.weights = weights_of(o.sizes, job.checkpoint.folder());
  for (const std::string& name : job.checkpoint.shards()) {
    Shard shard = read_shard(job.checkpoint.shard(name));
    job.bytes += shard.header;
    for (Tensor& tensor : shard.tensors) {
      const auto& [entry, plan] = tensor;
      tensor.plan =
          model::plan_rows(job.weights.layout, job.weights.sizes, entry.name, entry.shape);
      if (plan && (entry.end - entry.begin) % static_cast<std::uint64_t>(plan->rows))
        refuse("convert", "rows must have a whole number of bytes",
               fmt::format("{} {} {}", entry.name, entry.dtype, io::to_string(entry.shape)));
      (plan ? job.changed : job.unchanged) += 1;
      job.of_towers += model::is_of_tower(entry.name);
      job.bytes += entry.end - entry.begin;
    }
    job.shards.push_back(std::move(shard));
  }
  job.checkpoint.check();
  if (job.changed == 0)
    refuse("convert",
           "IN must have query or key projections with a known name (q_proj, wq, ...)", o.in);
  auto& notes = job.weights.notes;
  if (job.weights.released == job.to)
    notes.push_back(
        fmt::format("{} is published with pairing {}: IN is assumed to have been converted",
                    job.weights.model_type, o.to));
  if (job.of_towers)
    notes.push_back(fmt::format("tensors of vision and audio towers, which do not change: {}",
                                job.of_towers));
  return job;
}

class Reader {
 public:
  explicit Reader(const fs::path& path) : name_(path.string()), file_(path, std::ios::binary) {
    if (!file_) fail();
  }

  void read(std::span<char> to) {
    errno = 0;
    if (!file_.read(to.data(), static_cast<std::streamsize>(to.size()))) {
      if (!file_.eof()) fail();
      throw FormatError(name_, at_ + static_cast<std::uint64_t>(file_.gcount()),
                        "the file ends inside a tensor");
    }
    at_ += to.size();
  }
  void copy(std::uint64_t bytes, io::Output& out) {
    while (bytes > 0) {
      block_.resize(static_cast<std::size_t>(std::min<std::uint64_t>(bytes, 1 << 20)));
      read(block_);
      out.write(std::string_view(block_.data(), block_.size()));
      bytes -= block_.size();
    }
  }

 private:
  [[noreturn]] void fail() const {
    refuse(name_, "must be a readable file", std::generic_category().message(errno));
  }

  std::string name_;
  std::ifstream file_;
  std::uint64_t at_ = 0;
  std::vector<char> block_;
};

// Only one rotated slice is in memory at a time.
void write_tensor(const Tensor& tensor, Pairing to, Reader& in, io::Output& out) {
  const std::uint64_t size = tensor.entry.end - tensor.entry.begin;
  if (!tensor.plan) return in.copy(size, out);
  const model::RowPermutation& plan = *tensor.plan;
  const std::uint64_t row = size / static_cast<std::uint64_t>(plan.rows);
  const model::RowPermutation slice{
      .rows = plan.rotary_dim, .rotary_dim = plan.rotary_dim, .starts = {0}};
  std::vector<char> from(static_cast<std::size_t>(row) *
                         static_cast<std::size_t>(plan.rotary_dim));
  std::vector<char> reordered(from.size());
  std::int64_t reached = 0;
  for (const std::int64_t start : plan.starts) {
    in.copy(static_cast<std::uint64_t>(start - reached) * row, out);
    in.read(from);
    model::permute_rows(slice, to, std::as_bytes(std::span(from)),
                        std::as_writable_bytes(std::span(reordered)));
    out.write(std::string_view(reordered.data(), reordered.size()));
    reached = start + plan.rotary_dim;
  }
  in.copy(static_cast<std::uint64_t>(plan.rows - reached) * row, out);
}

void write_shard(const Job& job, const Shard& shard, io::Output& out) {
  const fs::path path = job.checkpoint.folder() / shard.name;
  const Shard now = read_shard(io::SafeTensors(path));
  if (!std::equal(now.tensors.begin(), now.tensors.end(), shard.tensors.begin(),
                  shard.tensors.end(),
                  [](const Tensor& a, const Tensor& b) { return a.entry == b.entry; }) ||
      now.header != shard.header)
    refuse(path.string(), "must not change while it is converted", "another header");
  Reader in(path);
  in.copy(shard.header, out);
  for (const Tensor& tensor : shard.tensors) write_tensor(tensor, job.to, in, out);
}

void write(const ConvertOptions& o, const Job& job) {
  const io::Checkpoint& from = job.checkpoint;
  if (!job.whole_folder) {
    io::write_atomically(o.output.path,
                         [&](io::Output& out) { write_shard(job, job.shards[0], out); });
    return;
  }
  std::vector<FileToWrite> files;
  for (const Shard& shard : job.shards)
    files.push_back(
        {shard.name, [&job, &shard](io::Output& out) { write_shard(job, shard, out); }});
  std::vector<std::string> others = job.companions.copied;
  if (!from.index().empty()) others.push_back(from.index());
  for (const std::string& name : others)
    files.push_back(
        {name, [&from, name](io::Output& out) { copy_file(from.folder() / name, out); }});
  write_folder(o.output.path, files);
}

void check_output(const ConvertOptions& o, const Job& job) {
  const std::string& out = o.output.path;
  if (out.empty()) {
    if (o.dry_run) return;
    refuse("convert", "-o or --dry-run must be given", "neither");
  }
  std::error_code ignored;
  const fs::path in = job.whole_folder ? job.checkpoint.folder() : fs::path(o.in);
  if (fs::equivalent(in, out, ignored)) refuse("convert", "OUT must not be IN", out);
  if (job.whole_folder) return check_folder(out);
  check_ending(o.output, {".safetensors"});
}

const char* name_of(Pairing pairing) {
  return pairing == Pairing::halves ? "halves" : "adjacent";
}
const char* other_than(Pairing pairing) {
  return name_of(pairing == Pairing::halves ? Pairing::adjacent : Pairing::halves);
}

Json report(const ConvertOptions& o, const Job& job) {
  const model::AttentionSizes& s = job.weights.sizes;
  Json files = Json::array();
  for (const Shard& shard : job.shards) {
    Json tensors = Json::array();
    for (const auto& [entry, plan] : shard.tensors)
      if (plan)
        tensors.push_back({{"name", entry.name},
                           {"dtype", entry.dtype},
                           {"shape", entry.shape},
                           {"heads", plan->starts.size()},
                           {"rows", plan->rotary_dim}});
    files.push_back({{"name", shard.name},
                     {"changed", tensors},
                     {"unchanged", shard.tensors.size() - tensors.size()}});
  }
  return {{"in", o.in},
          {"out", o.dry_run ? Json() : Json(o.output.path)},
          {"from", other_than(job.to)},
          {"to", name_of(job.to)},
          {"family", job.weights.model_type},
          {"heads", s.heads},
          {"kv_heads", s.key_heads},
          {"head_dim", s.head_dim},
          {"rotary_dim", s.rotary_dim},
          {"first", s.head_offset},
          {"kv_lora_rank", s.kv_lora_rank},
          {"changed", job.changed},
          {"unchanged", job.unchanged},
          {"files", files},
          {"copied", job.companions.copied},
          {"not_copied", job.companions.left},
          {"notes", job.weights.notes}};
}

std::string list_text(std::vector<std::string> names) {
  for (std::string& name : names) name = internal::printable(name);
  return fmt::format("{}", fmt::join(names, ", "));
}

void print_tensors(const Job& job) {
  std::size_t widest = 6;
  for (const Shard& shard : job.shards)
    for (const auto& [entry, plan] : shard.tensors)
      if (plan) widest = std::max(widest, internal::printable(entry.name).size());
  fmt::print("{:<{}}  dtype  {:<16}  heads x rows\n", "tensor", widest, "shape");
  for (const Shard& shard : job.shards)
    for (const auto& [entry, plan] : shard.tensors)
      if (plan)
        fmt::print("{:<{}}  {:<5}  {:<16}  {} x {}\n", internal::printable(entry.name), widest,
                   internal::printable(entry.dtype), io::to_string(entry.shape),
                   plan->starts.size(), plan->rotary_dim);
}

void print_report(const ConvertOptions& o, const Job& job) {
  const model::AttentionSizes& s = job.weights.sizes;
  if (o.dry_run) print_tensors(job);
  fmt::print("{}: {} query heads, {} key heads; {} of {} elements rotate; {} to {}\n",
             internal::printable(job.weights.model_type), s.heads, s.key_heads, s.rotary_dim,
             s.head_dim, other_than(job.to), name_of(job.to));
  fmt::print("{} tensor{} {}, {} unchanged, {} file{}, {:.1f} MB\n", job.changed,
             job.changed == 1 ? "" : "s", o.dry_run ? "would change" : "changed", job.unchanged,
             job.shards.size(), job.shards.size() == 1 ? "" : "s",
             static_cast<double>(job.bytes) * 1e-6);
  if (!job.companions.copied.empty())
    fmt::print("copied: {}\n", list_text(job.companions.copied));
  if (!job.companions.left.empty())
    fmt::print("not copied: {}\n", list_text(job.companions.left));
  for (const std::string& note : job.weights.notes)
    fmt::print("note: {}\n", internal::printable(note));
  if (!o.dry_run)
    fmt::print("{} has pairing {}; its files do not contain the pairing\n",
               internal::printable(o.output.path), name_of(job.to));
}

// Refuses options of the other kind of conversion.
void check_options(const ConvertOptions& o) {
  const bool gguf = o.to == "gguf";
  const SizeOptions& s = o.sizes;
  for (const auto& [option, given, of_gguf] :
       std::initializer_list<std::tuple<const char*, bool, bool>>{
           {"--type", !o.type.empty(), true},
           {"--config", !s.config.empty(), false},
           {"--family", s.family.has_value(), false},
           {"--heads", s.heads.has_value(), false},
           {"--kv-heads", s.key_heads.has_value(), false},
           {"--head-dim", s.head_dim.has_value(), false},
           {"--rotary-dim", s.rotary_dim.has_value(), false},
           {"--first", s.first.has_value(), false},
           {"--kv-lora-rank", s.kv_lora_rank.has_value(), false}})
    if (given && of_gguf != gguf)
      refuse("convert", fmt::format("{} must not be given with --to {}", option, o.to), option);
}

int run_convert(const ConvertOptions& o) {
  check_options(o);
  if (o.to == "gguf")
    return run_convert_to_gguf(
        {.in = o.in, .type = o.type, .dry_run = o.dry_run, .output = o.output});
  const Job job = plan(o);
  check_output(o, job);
  if (!o.dry_run) write(o, job);
  if (o.output.json)
    print_json(report(o, job));
  else
    print_report(o, job);
  return 0;
}

}  // namespace

Command convert_command() {
  Command command("convert", convert_help);
  auto o = std::make_shared<ConvertOptions>();
  command.required("IN", &o->in).file();
  command.required("--to", &o->to).choices({"halves", "adjacent", "gguf"});
  command.option("--type", &o->type).choices({"f32", "f16", "bf16"});
  command.flag("--dry-run", &o->dry_run);
  command.flag("--json", &o->output.json);
  command.option("--config", &o->sizes.config).file();
  command.option("--family", &o->sizes.family);
  command.option("--heads", &o->sizes.heads).at_least(1);
  command.option("--kv-heads", &o->sizes.key_heads).at_least(1);
  command.option("--head-dim", &o->sizes.head_dim).at_least(1);
  command.option("--rotary-dim", &o->sizes.rotary_dim).at_least(1);
  command.option("--first", &o->sizes.first).at_least(0);
  command.option("--kv-lora-rank", &o->sizes.kv_lora_rank).at_least(0);
  command.option("-o", &o->output.path);
  command.run = [o] { return run_convert(*o); };
  return command;
}

}  // namespace gnomon::cli
