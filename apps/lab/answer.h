// The answer in words, made from the numbers: who is best at the training length, who holds
// past it, what to use. No sentence is written by hand for a particular outcome.
#pragma once

#include "apps/lab/options.h"

namespace gnomon::lab {

// For each length: the encodings from best to worst by tail bits, each with "tied": whether it
// is within two standard deviations of the best. With several seeds the deviation is that of
// the differences between runs of equal seed; with one seed it is the larger of the paired
// sampling error over test segments and 0.02 bits, the spread between seeds that others
// measured at this scale (0.012 to 0.015 nats).
Json rankings(const Json& encodings, const Json& runs);

// Two to four sentences about results (which has "encodings", "rankings", "settings").
Json answer(const Json& results);

}  // namespace gnomon::lab
