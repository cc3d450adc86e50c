// The learning rate of each encoding: one short run for each rate, and the rate with the lowest
// validation loss. Test data play no part.
#pragma once

#include <functional>
#include <vector>

#include "apps/lab/data/corpus.h"
#include "apps/lab/data/run_result.h"

namespace gnomon::lab {

// The steps of a sweep's run: a third of those of the session, with the whole schedule.
std::int64_t sweep_steps(const Settings& settings);

// The loss of every rate for every entry of settings.encodings, by entry, in the order of the
// rates, with `jobs` runs at the same time. Empty if `stop` returns true.
std::vector<SweptRate> sweep(const Settings& settings, const Corpus& corpus,
                             const std::vector<double>& rates, int jobs,
                             const std::function<bool()>& stop);

// The best rate of each entry. A loss that is not finite is never the best; an entry without a
// finite loss has no rate.
std::vector<EntryRate> best_rates(const std::vector<SweptRate>& swept);

}  // namespace gnomon::lab
