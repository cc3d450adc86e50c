// Small configs for tests, and helpers for notes and errors.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "gnomon/error.h"
#include "gnomon/model/config.h"
#include "model/group.h"
#include "src/core/text.h"

namespace gnomon::model {

// Names and JSON values. An empty value removes the name.
using Members = std::map<std::string, std::string>;

inline std::string object(const Members& members) {
  std::string text;
  for (const auto& [name, value] : members)
    if (!value.empty())
      text.append(text.empty() ? "{\"" : ", \"").append(name).append("\": ").append(value);
  return text.empty() ? "{}" : text.append("}");
}

inline std::string quoted(const std::string& text) {
  return std::string(1, '"').append(text).append(1, '"');
}

inline std::string llama(const Members& changes = {}) {
  Members members{{"model_type", "\"llama\""},         {"hidden_size", "64"},
                  {"num_attention_heads", "4"},        {"num_hidden_layers", "4"},
                  {"max_position_embeddings", "4096"}, {"rope_theta", "10000.0"}};
  for (const auto& [name, value] : changes) members[name] = value;
  return object(members);
}
// A llama with a rope_scaling.
inline std::string scaled(const Members& scaling, Members changes = {}) {
  changes["rope_scaling"] = object(scaling);
  return llama(changes);
}

// Expects FormatError with this text in its reason, at the byte where the text continues with
// `at`.
inline void refused(const std::string& text, const std::string& reason, const std::string& at,
                    const ConfigOptions& options = {}) {
  SCOPED_TRACE(text.substr(0, 2000));
  try {
    read_config(text, options);
    ADD_FAILURE() << "is taken; expected: " << reason;
  } catch (const FormatError& error) {
    EXPECT_EQ(error.file(), options.name);
    EXPECT_THAT(error.reason(), ::testing::HasSubstr(reason));
    ASSERT_LE(error.offset(), text.size());
    EXPECT_THAT(text.substr(error.offset(), at.size() + 20), ::testing::StartsWith(at));
    EXPECT_EQ(internal::ill_formed_utf8(error.what()), std::string_view::npos);
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another error: " << error.what();
  }
}

inline std::string notes(const std::string& text, const ConfigOptions& options = {}) {
  std::string all;
  for (const std::string& note : read_config(text, options).notes)
    all.append(note).append("\n");
  return all;
}

// The rotary encoding of the first group.
inline const ScaledRotary& rotary(const ModelDescription& model) {
  return spec_of<ScaledRotary>(model.groups.at(0));
}

}  // namespace gnomon::model
