// The state of an unfinished run as a `.safetensors` file: tensors and numbers, and nothing
// that a reader executes.
//
//   metadata                  format "gnomon-lab-checkpoint", version "2", encoding, seed
//   progress.counts           I64 [2]: steps, number of losses in the sum
//   progress.numbers          F64 [2]: seconds of training, sum of the losses since the
//                             last point
//   curve.steps               I64 [N, 2]: step, 1 if the point has a validation loss
//   curve.bits                F64 [N, 2]: training loss, validation loss
//   updates.NAME              I64 []: updates of the parameter NAME by AdamW
//   weights.NAME              F32, the shape of the parameter
//   first.NAME, second.NAME   as weights.NAME: the moments; absent without updates
//
// Losses, weights and moments may be NaN or infinite: a run that diverged continues, too.
#include "apps/lab/runs/run.h"

#include <ATen/ATen.h>
#include <c10/util/C++17.h>
#include <fmt/format.h>

#include <cmath>
#include <set>
#include <string>
#include <type_traits>
#include <utility>

#include "apps/lab/runs/folder.h"
#include "gnomon/error.h"
#include "gnomon/io/safetensors.h"
#include "gnomon/torch/state.h"
#include "gnomon/version.h"
#include "src/core/text.h"

namespace gnomon::lab {
namespace {

namespace fs = std::filesystem;
using torch::optim::AdamW;
using torch::optim::AdamWParamState;

constexpr const char* format_name = "gnomon-lab-checkpoint";
constexpr const char* format_version = "2";  // 1: an archive of LibTorch

// The key of a parameter in AdamW::state().
template <typename States>
typename States::key_type key_of(const States&, const at::Tensor& parameter) {
  if constexpr (std::is_same_v<typename States::key_type, std::string>)  // LibTorch 1
    return c10::guts::to_string(parameter.unsafeGetTensorImpl());
  else
    return parameter.unsafeGetTensorImpl();
}

// Null before the first update.
const AdamWParamState* moments_of(const AdamW& optimizer, const at::Tensor& parameter) {
  const auto found = optimizer.state().find(key_of(optimizer.state(), parameter));
  return found == optimizer.state().end() ? nullptr
                                          : static_cast<AdamWParamState*>(found->second.get());
}

// The state as the tensors progress.counts, progress.numbers, curve.steps and curve.bits.
struct StateTensors {
  at::Tensor counts, numbers, steps, bits;
};

StateTensors tensors_of(const RunState& state) {
  const auto points = std::ssize(state.curve);
  StateTensors all{at::tensor({state.step, state.loss_count}, at::kLong),
                   at::tensor({state.seconds, state.loss_sum}, at::kDouble),
                   at::empty({points, 2}, at::kLong), at::empty({points, 2}, at::kDouble)};
  auto* step = all.steps.data_ptr<std::int64_t>();
  auto* loss = all.bits.data_ptr<double>();
  for (const CurvePoint& point : state.curve) {
    *step++ = point.step;
    *step++ = point.validation_bits.has_value();
    *loss++ = point.train_bits;
    *loss++ = point.validation_bits.value_or(0);
  }
  return all;
}

RunState state_of(const StateTensors& all) {
  RunState state{.step = all.counts[0].item<std::int64_t>(),
                 .seconds = all.numbers[0].item<double>(),
                 .loss_sum = all.numbers[1].item<double>(),
                 .loss_count = all.counts[1].item<std::int64_t>()};
  const auto* step = all.steps.data_ptr<std::int64_t>();
  const auto* loss = all.bits.data_ptr<double>();
  for (std::int64_t i = 0; i < all.steps.size(0); ++i, step += 2, loss += 2) {
    state.curve.push_back({step[0], loss[0], {}});
    if (step[1] == 1) state.curve.back().validation_bits = loss[1];
  }
  return state;
}

// A checkpoint whose tensors are checked when they are read.
class Checkpoint {
 public:
  Checkpoint(const fs::path& path, const Job& job, std::int64_t steps) try
      : path_(path.string()), job_(job), file_(path) {
    const auto require = [&](const char* key, const std::string& wanted) {
      const auto found = file_.metadata().find(key);
      if (found == file_.metadata().end()) fail(fmt::format("no {}", key));
      if (found->second != wanted)
        fail(fmt::format("the {} {}", key, internal::shown(found->second)));
    };
    require("format", format_name);
    require("version", format_version);
    require("encoding", job.encoding);
    require("seed", std::to_string(job.seed));
    read_state(steps);
  } catch (const FormatError& error) {
    refuse("lab", rule(path.string(), job), error.what());
  }

  const RunState& state() const { return state_; }

  // A copy of the tensor of this type and shape.
  at::Tensor tensor(const std::string& name, at::ScalarType type, at::IntArrayRef shape) {
    const io::TensorEntry* entry = file_.find(name);
    if (!entry) fail("no tensor " + internal::shown(name));
    const std::string dtype = type == at::kLong ? "I64" : type == at::kDouble ? "F64" : "F32";
    if (entry->dtype != dtype || entry->shape != shape.vec())
      fail(fmt::format("{} of {} {} instead of {} {}", internal::shown(name),
                       internal::printable(entry->dtype, 20), io::to_string(entry->shape),
                       dtype, io::to_string(shape.vec())));
    read_.insert(entry);
    return libtorch::to_tensor(file_.tensor(*entry));
  }
  std::int64_t updates(const std::string& name) {
    return count(tensor("updates." + name, at::kLong, {}).item<std::int64_t>(), state_.step,
                 "updates of " + internal::shown(name));
  }
  void check_no_others() const {
    for (const io::TensorEntry& one : file_.tensors())
      if (!read_.contains(&one))
        fail("the tensor " + internal::shown(one.name) + ", which the run does not have");
  }

 private:
  static std::string rule(const std::string& path, const Job& job) {
    return fmt::format("{} must be a checkpoint of {}", path, job.name());
  }
  [[noreturn]] void fail(const std::string& reason) const {
    refuse("lab", rule(path_, job_), reason);
  }
  std::int64_t count(std::int64_t value, std::int64_t most, const std::string& name) const {
    if (value < 0 || value > most) fail(fmt::format("{} {}", value, name));
    return value;
  }

  void read_state(std::int64_t steps) {
    const io::TensorEntry* entry = file_.find("curve.steps");
    const std::int64_t points = entry && !entry->shape.empty() ? entry->shape[0] : 0;
    const StateTensors found{tensor("progress.counts", at::kLong, {2}),
                             tensor("progress.numbers", at::kDouble, {2}),
                             tensor("curve.steps", at::kLong, {points, 2}),
                             tensor("curve.bits", at::kDouble, {points, 2})};
    state_ = state_of(found);
    count(state_.step, steps, "steps");
    count(state_.loss_count, state_.step, "losses");
    if (!(std::isfinite(state_.seconds) && state_.seconds >= 0))
      fail(fmt::format("{} seconds", state_.seconds));
    const auto* validated = found.steps.data_ptr<std::int64_t>() + 1;
    std::int64_t before = 0;
    for (const CurvePoint& point : state_.curve) {
      if (point.step <= before || point.step > state_.step || (*validated & ~1) != 0)
        fail(fmt::format("a point of the curve at step {} after {}", point.step, before));
      before = point.step;
      validated += 2;
    }
  }

  const std::string path_;
  const Job& job_;
  io::SafeTensors file_;
  std::set<const io::TensorEntry*> read_;
  RunState state_;
};

// Sends the state of rank 0 to the others.
void send(RunState& state, Team& team) {
  state.curve.resize(static_cast<std::size_t>(team.decide(std::ssize(state.curve))));
  StateTensors all = tensors_of(state);
  for (at::Tensor* one : {&all.counts, &all.numbers, &all.steps, &all.bits})
    if (one->numel() > 0) *one = team.broadcast(*one);
  if (!team.leads()) state = state_of(all);
}

}  // namespace

void write_checkpoint(const fs::path& path, const Job& job, const RunState& state,
                      const torch::nn::Module& model, const AdamW& optimizer) {
  const StateTensors progress = tensors_of(state);
  // The widest types first, so that all are aligned.
  NamedTensors tensors{{"progress.counts", progress.counts},
                       {"progress.numbers", progress.numbers},
                       {"curve.steps", progress.steps},
                       {"curve.bits", progress.bits}};
  const auto parameters = model.named_parameters();
  for (const auto& item : parameters) {
    const auto* moments = moments_of(optimizer, item.value());
    tensors.emplace_back(
        "updates." + item.key(),
        at::scalar_tensor(moments ? moments->step() : std::int64_t{0}, at::kLong));
  }
  for (const auto& item : parameters) {
    tensors.emplace_back("weights." + item.key(), item.value());
    const auto* moments = moments_of(optimizer, item.value());
    if (!moments) continue;
    tensors.emplace_back("first." + item.key(), moments->exp_avg());
    tensors.emplace_back("second." + item.key(), moments->exp_avg_sq());
  }
  write_tensors(path, tensors,
                {{"format", format_name},
                 {"version", format_version},
                 {"gnomon", GNOMON_VERSION},
                 {"encoding", job.encoding},
                 {"seed", std::to_string(job.seed)}});
}

RunState read_checkpoint(const fs::path& path, const Job& job, std::int64_t steps,
                         torch::nn::Module& model, AdamW& optimizer, Team& team) {
  const at::NoGradGuard no_grad;
  const auto parameters = model.named_parameters();
  std::optional<Checkpoint> file;
  RunState state;
  if (team.leads()) {
    file.emplace(path, job, steps);
    for (const auto& item : parameters)
      for (const char* part : {"weights.", "first.", "second."}) {
        file->tensor(part + item.key(), at::kFloat, item.value().sizes());
        if (file->updates(item.key()) == 0) break;
      }
    file->check_no_others();
    state = file->state();
  }
  send(state, team);
  for (const auto& item : parameters) {
    at::Tensor parameter = item.value();
    const auto read = [&](const char* part, at::Tensor& to) {
      to.copy_(
          team.broadcast(file ? file->tensor(part + item.key(), at::kFloat, parameter.sizes())
                              : at::empty(parameter.sizes(), at::kFloat)));
    };
    read("weights.", parameter);
    const auto key = key_of(optimizer.state(), parameter);
    optimizer.state().erase(key);
    const std::int64_t updates = team.decide(file ? file->updates(item.key()) : 0);
    if (updates == 0) continue;
    at::Tensor first = at::empty_like(parameter), second = at::empty_like(parameter);
    read("first.", first);
    read("second.", second);
    auto moments = std::make_unique<AdamWParamState>();
    moments->step(updates);
    moments->exp_avg(first);
    moments->exp_avg_sq(second);
    optimizer.state()[key] = std::move(moments);
  }
  return state;
}

void refuse_old_checkpoints(const fs::path& folder, const std::optional<std::string>& version) {
  if (!fs::exists(folder / "checkpoints")) return;
  for (const fs::path& one : entries(folder / "checkpoints"))
    if (one.extension() == ".pt")
      refuse("lab",
             "--resume requires checkpoints in .safetensors files; start again in a new folder",
             fmt::format("{}, an archive of LibTorch that version {} wrote", one.string(),
                         version.value_or("(unknown)")));
}

}  // namespace gnomon::lab
