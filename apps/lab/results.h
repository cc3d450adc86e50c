// The results of a session: means and deviations over seeds, lengths that encodings hold, ties,
// and the sentences of the answer. The report shows only these results. docs/lab/results.md
// documents the keys.
#pragma once

#include <string>

#include "apps/lab/session.h"

namespace gnomon::lab {

// An encoding holds a length if its loss exceeds that at the training length by at most this
// share.
constexpr double holds_within = 0.03;

// Returns the contents of results.json.
Json assemble_results(const SessionResult& session, const Corpus& corpus);

}  // namespace gnomon::lab
