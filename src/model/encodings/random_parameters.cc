#include "src/model/encodings/random_parameters.h"

#include "src/core/normal.h"
#include "src/core/size.h"

namespace gnomon::model::internal {

std::vector<float> random_values(const Parameter& parameter, unsigned seed) {
  if (!parameter.initial.empty()) return parameter.initial;
  std::vector<float> values(gnomon::internal::checked_size(
      "encoding", "rows x columns", {parameter.rows, parameter.columns}));
  const double mean = parameter.initial_mean;
  double deviation = parameter.initial_deviation;
  if (deviation == 0 && mean != 0) {
    values.assign(values.size(), static_cast<float>(mean));
    return values;
  }
  // Tables start at 0.02 or, for encodings that start as another one (CoPE), at 0.
  constexpr double of_tables = 0.02;
  if (deviation == of_tables || deviation == 0) deviation = 1;
  gnomon::internal::Normal normal(seed);
  for (float& value : values) value = static_cast<float>(mean + deviation * normal());
  return values;
}

}  // namespace gnomon::model::internal
