#include "apps/lab/runs/checkpoint.h"

#include <ATen/ATen.h>
#include <c10/util/C++17.h>
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <set>
#include <string>
#include <type_traits>
#include <utility>

#include "gnomon/error.h"
#include "gnomon/io/safetensors.h"
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

// Tensors for a file, which keep their bytes.
class Tensors {
 public:
  void add(std::string name, const at::Tensor& tensor) {
    tensors_.push_back(tensor.detach().to(at::kCPU).contiguous());
    const at::Tensor& one = tensors_.back();
    const io::Element element = one.scalar_type() == at::kLong     ? io::Element::i64
                                : one.scalar_type() == at::kDouble ? io::Element::f64
                                                                   : io::Element::f32;
    named_.push_back({std::move(name), io::Array(element, one.sizes().vec(),
                                                 {static_cast<const std::byte*>(one.data_ptr()),
                                                  static_cast<std::size_t>(one.nbytes())})});
  }
  std::span<const io::NamedArray> named() const { return named_; }

 private:
  std::vector<at::Tensor> tensors_;
  std::vector<io::NamedArray> named_;
};

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
    const at::Tensor copy = at::empty(shape, type);
    const io::Array array = file_.tensor(*entry);  // owns the bytes if they were not aligned
    if (array.size() > 0)
      std::memcpy(copy.data_ptr(), array.bytes().data(), array.bytes().size());
    return copy;
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
    const at::Tensor counts = tensor("progress.counts", at::kLong, {2}),
                     numbers = tensor("progress.numbers", at::kDouble, {2});
    const auto* count_of = counts.data_ptr<std::int64_t>();
    const auto* number = numbers.data_ptr<double>();
    state_.step = count(count_of[0], steps, "steps");
    state_.loss_count = count(count_of[1], state_.step, "losses");
    state_.seconds = number[0];
    state_.loss_sum = number[1];
    if (!(std::isfinite(state_.seconds) && state_.seconds >= 0))
      fail(fmt::format("{} seconds", state_.seconds));
    const io::TensorEntry* entry = file_.find("curve.steps");
    const std::int64_t points = entry && !entry->shape.empty() ? entry->shape[0] : 0;
    const at::Tensor at_steps = tensor("curve.steps", at::kLong, {points, 2}),
                     losses = tensor("curve.bits", at::kDouble, {points, 2});
    const auto* at_step = at_steps.data_ptr<std::int64_t>();
    const auto* bits = losses.data_ptr<double>();
    for (std::int64_t i = 0; i < points; ++i, at_step += 2, bits += 2) {
      const std::int64_t before = i == 0 ? 0 : state_.curve.back().step;
      if (at_step[0] <= before || at_step[0] > state_.step || (at_step[1] & ~1) != 0)
        fail(fmt::format("a point of the curve at step {} after {}", at_step[0], before));
      state_.curve.push_back({at_step[0], bits[0], {}});
      if (at_step[1] == 1) state_.curve.back().validation_bits = bits[1];
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
  const std::int64_t points = team.decide(std::ssize(state.curve));
  state.curve.resize(static_cast<std::size_t>(points));
  // Rank 0 makes a new tensor: the others read it later.
  at::Tensor counts = at::empty({points + 1, 2}, at::kLong),
             numbers = at::empty({points + 1, 2}, at::kDouble);
  const auto exchange = [&](bool reads) {
    auto* count = counts.data_ptr<std::int64_t>();
    auto* number = numbers.data_ptr<double>();
    const auto copy = [&](auto& own, auto*& sent) {
      if (reads)
        own = static_cast<std::decay_t<decltype(own)>>(*sent++);
      else
        *sent++ = own;
    };
    copy(state.step, count);
    copy(state.loss_count, count);
    copy(state.seconds, number);
    copy(state.loss_sum, number);
    for (CurvePoint& point : state.curve) {
      std::int64_t validated = point.validation_bits.has_value();
      double bits = point.validation_bits.value_or(0);
      copy(point.step, count);
      copy(validated, count);
      copy(point.train_bits, number);
      copy(bits, number);
      if (reads && validated) point.validation_bits = bits;
    }
  };
  exchange(/*reads=*/false);
  counts = team.broadcast(counts);
  numbers = team.broadcast(numbers);
  if (!team.leads()) exchange(/*reads=*/true);
}

}  // namespace

void write_checkpoint(const fs::path& path, const Job& job, const RunState& state,
                      const torch::nn::Module& model, const AdamW& optimizer) {
  const auto points = std::ssize(state.curve);
  at::Tensor steps = at::empty({points, 2}, at::kLong),
             bits = at::empty({points, 2}, at::kDouble);
  auto* step = steps.data_ptr<std::int64_t>();
  auto* loss = bits.data_ptr<double>();
  for (const CurvePoint& point : state.curve) {
    *step++ = point.step;
    *step++ = point.validation_bits.has_value();
    *loss++ = point.train_bits;
    *loss++ = point.validation_bits.value_or(0);
  }
  Tensors tensors;  // the widest types first, so that all are aligned
  tensors.add("progress.counts", at::tensor({state.step, state.loss_count}, at::kLong));
  tensors.add("progress.numbers", at::tensor({state.seconds, state.loss_sum}, at::kDouble));
  tensors.add("curve.steps", steps);
  tensors.add("curve.bits", bits);
  const auto parameters = model.named_parameters();
  for (const auto& item : parameters) {
    const auto* moments = moments_of(optimizer, item.value());
    tensors.add("updates." + item.key(),
                at::scalar_tensor(moments ? moments->step() : std::int64_t{0}, at::kLong));
  }
  for (const auto& item : parameters) {
    tensors.add("weights." + item.key(), item.value());
    const auto* moments = moments_of(optimizer, item.value());
    if (!moments) continue;
    tensors.add("first." + item.key(), moments->exp_avg());
    tensors.add("second." + item.key(), moments->exp_avg_sq());
  }
  io::write_safetensors(path, tensors.named(),
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
  for (const fs::directory_entry& one : fs::directory_iterator(folder / "checkpoints"))
    if (one.path().extension() == ".pt")
      refuse("lab",
             "--resume requires checkpoints in .safetensors files; start again in a new folder",
             fmt::format("{}, an archive of LibTorch that version {} wrote",
                         one.path().string(), version.value_or("(unknown)")));
}

}  // namespace gnomon::lab
