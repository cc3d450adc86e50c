/* The C interface of contexts: an executor and working memory for each engine of a process
 * (docs/threads.md). Component gnomon::core. Conventions as in gnomon.h.
 */
#ifndef GNOMON_CONTEXT_H_
#define GNOMON_CONTEXT_H_

#include "gnomon.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A context keeps the working memory of its calls for the next calls, which then allocate none.
 * Several threads may use one context at the same time. Results do not depend on contexts. */
typedef struct gnomon_context gnomon_context;
/* threads: those of a pool that belongs to the context, 1 to 4096; 0: no pool, loops run on the
 * executor of the process. */
gnomon_status gnomon_context_create(int32_t threads, gnomon_context** out);
/* Makes a context whose loops run on the caller's threads, as gnomon_set_executor. */
gnomon_status gnomon_context_create_on(gnomon_run run, void* context, int32_t threads,
                                       gnomon_context** out);
/* No thread may use the context any more. */
void gnomon_context_destroy(gnomon_context* context);

/* From now on, calls of this thread use the context; NULL: the process's executor and memory.
 * Returns the context that the thread used before, or NULL. */
gnomon_context* gnomon_context_use(gnomon_context* context);

/* Returns the bytes of working memory that no call uses at the moment; 0 for NULL. */
size_t gnomon_context_kept_bytes(const gnomon_context* context);
/* Frees this memory. */
void gnomon_context_release(gnomon_context* context);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* GNOMON_CONTEXT_H_ */
