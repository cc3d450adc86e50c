// gnomon_context.h: an executor and working memory for each engine of a process.
#include "gnomon_context.h"

#include <optional>

#include "bindings/c/handles.h"
#include "gnomon/context.h"

struct gnomon_context {
  gnomon::Context context;
};

using gnomon::c::given;
using gnomon::c::guarded;

namespace {

thread_local gnomon_context* used = nullptr;
thread_local std::optional<gnomon::ContextScope> scope;

}  // namespace

gnomon_status gnomon_context_create(int32_t threads, gnomon_context** out) {
  return guarded([&] {
    gnomon_context*& to = given("out", out);
    to = threads == 0 ? new gnomon_context{gnomon::Context()}
                      : new gnomon_context{gnomon::Context::with_threads(threads)};
  });
}

gnomon_status gnomon_context_create_on(gnomon_run run, void* context, int32_t threads,
                                       gnomon_context** out) {
  return guarded([&] {
    gnomon_context*& to = given("out", out);
    given("run", run);
    to = new gnomon_context{gnomon::Context({run, context, threads})};
  });
}

void gnomon_context_destroy(gnomon_context* context) {
  if (context && context == used) gnomon_context_use(nullptr);
  delete context;
}

gnomon_context* gnomon_context_use(gnomon_context* context) {
  gnomon_context* const before = used;
  scope.reset();
  if (context) scope.emplace(context->context);
  used = context;
  return before;
}

size_t gnomon_context_kept_bytes(const gnomon_context* context) {
  return context ? context->context.kept_bytes() : 0;
}

void gnomon_context_release(gnomon_context* context) {
  if (context) context->context.release();
}
