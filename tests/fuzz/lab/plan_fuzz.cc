// Reader: apps/lab/runs/plan.cc
#include "apps/lab/runs/plan.h"
#include "fuzz/memory_file.h"
#include "fuzz/target.h"

namespace gnomon::fuzz {
namespace plan_fuzz {

bool read(std::span<const std::byte> bytes) {
  return answered([&] {
    const MemoryFile file(text(bytes));
    const lab::Plan plan = lab::read_plan(file.path());
    answered([&] {
      for (const lab::Job& job : lab::runs_of(plan, plan.settings))
        require(job.checkpoint("a") != job.result("a"));
    });
    const MemoryFile again(lab::to_json(plan).dump());
    require(lab::to_json(lab::read_plan(again.path())) == lab::to_json(plan));
  });
}

const Register registered("plan", read);

}  // namespace plan_fuzz
}  // namespace gnomon::fuzz
