/* The threads that ggml calls an operator on, as an executor of Gnomon.
 *
 * ggml calls an operator on each of its n threads and waits for all of them after it. Thread 0
 * calls Gnomon. The parallel loops of this call run on all threads: the others wait here for
 * tasks until thread 0 has finished. A thread that arrives late finds fewer tasks, or none.
 */
#ifndef GNOMON_GGML_TEAM_H_
#define GNOMON_GGML_TEAM_H_

#include <stdatomic.h>
#include <stdint.h>

#include "gnomon.h"

#ifdef _WIN32
#include <windows.h>
#define gnomon_ggml_yield() SwitchToThread()
#else
#include <sched.h>
#define gnomon_ggml_yield() sched_yield()
#endif

typedef struct gnomon_ggml_team {
  /* The tasks of the current loop: its number (32 bits), their count (16), the next one (16).
   * One word, so that a claim fails if the loop has ended meanwhile. */
  _Atomic uint64_t tickets;
  _Atomic(gnomon_task) task;
  _Atomic(void*) data;
  atomic_int done;     /* tasks of this loop */
  atomic_int finished; /* thread 0 has left the operator */
  atomic_int left;     /* threads that have left it */
} gnomon_ggml_team;

/* Runs one task, if there is one. */
static inline int gnomon_ggml_team_work(gnomon_ggml_team* team) {
  uint64_t tickets = atomic_load_explicit(&team->tickets, memory_order_acquire);
  const uint64_t next = tickets & 0xffff, count = tickets >> 16 & 0xffff;
  if (next >= count) return 0;
  const gnomon_task task = atomic_load_explicit(&team->task, memory_order_relaxed);
  void* const data = atomic_load_explicit(&team->data, memory_order_relaxed);
  if (!atomic_compare_exchange_strong_explicit(&team->tickets, &tickets, tickets + 1,
                                               memory_order_acq_rel, memory_order_relaxed))
    return 1;
  task(data, (int64_t)next);
  atomic_fetch_add_explicit(&team->done, 1, memory_order_release);
  return 1;
}

static inline void gnomon_ggml_team_wait(int* polls) {
  if (++*polls % 256 == 0) gnomon_ggml_yield();
}

/* A gnomon_run. The context is the team. ggml has at most 512 threads. */
static inline void gnomon_ggml_team_run(void* context, int64_t count, gnomon_task task,
                                        void* data) {
  gnomon_ggml_team* const team = context;
  atomic_store_explicit(&team->task, task, memory_order_relaxed);
  atomic_store_explicit(&team->data, data, memory_order_relaxed);
  atomic_store_explicit(&team->done, 0, memory_order_relaxed);
  const uint64_t loop = (atomic_load_explicit(&team->tickets, memory_order_relaxed) >> 32) + 1;
  atomic_store_explicit(&team->tickets, loop << 32 | (uint64_t)count << 16,
                        memory_order_release);
  while (gnomon_ggml_team_work(team)) continue;
  int polls = 0;
  while (atomic_load_explicit(&team->done, memory_order_acquire) < count)
    gnomon_ggml_team_wait(&polls);
}

/* Threads other than 0: works until thread 0 has finished. */
static inline void gnomon_ggml_team_help(gnomon_ggml_team* team) {
  int polls = 0;
  while (!atomic_load_explicit(&team->finished, memory_order_acquire))
    if (!gnomon_ggml_team_work(team)) gnomon_ggml_team_wait(&polls);
}

/* Each thread, last. The last one of `threads` prepares the next operator, which no thread
 * enters before: ggml waits for all threads between two nodes. */
static inline void gnomon_ggml_team_leave(gnomon_ggml_team* team, int thread, int threads) {
  if (thread == 0) atomic_store_explicit(&team->finished, 1, memory_order_release);
  if (atomic_fetch_add_explicit(&team->left, 1, memory_order_acq_rel) + 1 < threads) return;
  atomic_store_explicit(&team->left, 0, memory_order_relaxed);
  atomic_store_explicit(&team->finished, 0, memory_order_release);
}

#endif /* GNOMON_GGML_TEAM_H_ */
