// The section of the report about each trained encoding: its table or bias before and after
// training, and its attention.
#pragma once

#include "apps/lab/statistics/results.h"
#include "gnomon/plot/page.h"

namespace gnomon::lab {

void add_encodings(plot::HtmlPage& page, const Results& results);

}  // namespace gnomon::lab
