// The methods of --extend, which adapt a trained rotary model to a longer context.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace gnomon::lab {

struct ExtensionInfo {
  std::string_view name;   // as in --extend
  std::string_view title;  // "YaRN"
  std::string_view source;
};
// The list: linear, ntk, dynamic-ntk, yarn, drope. drope is not a scaling: it removes the
// positions (Gelberg et al. 2025).
std::span<const ExtensionInfo> extensions();
// Throws std::invalid_argument with a list of the names if there is no such name.
const ExtensionInfo& find_extension(std::string_view name);

// The name of the control, a fine-tune without scaling.
inline constexpr const char* control_extension = "control";

// "YaRN"; "Fine-tuned without scaling" for the control.
std::string extension_title(const std::string& method);

// Whether --extend applies to an entry of --encodings: plain rotary in every layer.
bool extends(const std::string& encoding);

}  // namespace gnomon::lab
