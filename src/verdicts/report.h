// The findings and verdicts of one encoding as a JSON value.
#pragma once

#include "src/verdicts/findings.h"

namespace gnomon::verdicts {

internal::OrderedJson report(const Findings& findings);

}  // namespace gnomon::verdicts
