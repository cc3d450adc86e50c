// The model of a run.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "apps/lab/model/task_model.h"

namespace gnomon::lab {

// The untrained model of the task. `encoding`: an entry of --encodings. Weights that all
// encodings have in common depend on `seed` only. Throws std::invalid_argument if the encoding
// cannot take part, or is own:NAME.
std::unique_ptr<TaskModel> make_model(const Settings& session, const Corpus& corpus,
                                      const std::string& encoding, std::int64_t seed);

// The reason why an encoding cannot take part with these settings. Empty if it can, or
// is own:NAME.
std::optional<std::string> unusable(const std::string& name, const Settings& settings,
                                    const Corpus& corpus);

}  // namespace gnomon::lab
