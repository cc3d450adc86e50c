// JSON of structs, written and read by one list of their keys.
#pragma once

#include <concepts>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "apps/lab/data/settings.h"
#include "apps/lab/data/task.h"

namespace gnomon::lab {

// describe() lists the keys of a struct, in the order of the file, for Writer and Reader. A
// field that is absent in some files is `optional`: std::nullopt or an empty list.

template <typename T>
concept Primitive = std::is_arithmetic_v<T> || std::same_as<T, std::string>;

class Writer {
 public:
  template <typename T>
  Writer& operator()(const char* key, const T& value) {
    json_[key] = written(value);
    return *this;
  }
  template <typename T>
  Writer& optional(const char* key, const std::optional<T>& value) {
    return value ? (*this)(key, *value) : *this;
  }
  template <typename List>
  Writer& optional(const char* key, const List& value) {
    return value.empty() ? *this : (*this)(key, value);
  }
  Writer& seeds(const char* key, const std::vector<std::int64_t>& value) {
    return (*this)(key, value);
  }

  template <typename T>
  static Json written(const T& value) {
    if constexpr (Primitive<T> || std::same_as<T, Json>) {
      return value;
    } else if constexpr (std::same_as<T, const Task*>) {
      return std::string(value->name);
    } else if constexpr (std::is_enum_v<T>) {
      return name(value);
    } else {
      Writer writer;
      describe(writer, const_cast<T&>(value));  // describe() changes fields only in a Reader
      return std::move(writer.json_);
    }
  }
  template <typename T>
  static Json written(const std::vector<T>& list) {
    Json json = Json::array();
    for (const T& one : list) json.push_back(written(one));
    return json;
  }

 private:
  Json json_ = Json::object();
};

class Reader {
 public:
  explicit Reader(const Json& json) : json_(json) {
    if (!json.is_object()) throw std::invalid_argument("a value must be an object");
  }
  template <typename T>
  Reader& operator()(const char* key, T& value) {
    const auto found = json_.find(key);
    if (found == json_.end()) throw std::invalid_argument("no key " + std::string(key));
    if (!read(*found, value))
      throw std::invalid_argument("a value of another type at the key " + std::string(key));
    return *this;
  }
  template <typename T>
  Reader& optional(const char* key, T& value) {
    if (!json_.contains(key)) return *this;
    if constexpr (requires { value.reset(); })
      return (*this)(key, value.emplace());
    else
      return (*this)(key, value);
  }
  // A list of seeds. Up to schema 3: the number N, for 1, ..., N.
  Reader& seeds(const char* key, std::vector<std::int64_t>& value) {
    const auto found = json_.find(key);
    if (found == json_.end() || !found->is_number_integer()) return (*this)(key, value);
    const auto count = found->get<std::int64_t>();
    if (count < 1 || count > most_seeds) throw std::invalid_argument("a number of seeds");
    value = seeds_up_to(count);
    return *this;
  }

  // Returns whether the type of the JSON value is that of `value`.
  template <typename T>
  static bool read(const Json& json, T& value) {
    if constexpr (std::same_as<T, Json>) {
      value = json;
    } else if constexpr (std::same_as<T, bool>) {
      if (!json.is_boolean()) return false;
      value = json.get<bool>();
    } else if constexpr (std::integral<T>) {
      if (!json.is_number_integer()) return false;
      value = json.get<T>();
    } else if constexpr (std::floating_point<T>) {
      if (!json.is_number() && !json.is_null()) return false;
      // JSON has no NaN; it is written as null.
      value = json.is_null() ? std::numeric_limits<T>::quiet_NaN() : json.get<T>();
    } else if constexpr (std::same_as<T, std::string>) {
      if (!json.is_string()) return false;
      value = json.get<std::string>();
    } else if constexpr (std::same_as<T, const Task*>) {
      if (!json.is_string()) return false;
      value = &find_task(json.get<std::string>());
    } else {
      Reader reader(json);
      describe(reader, value);
    }
    return true;
  }
  template <typename T>
  static bool read(const Json& json, std::vector<T>& list) {
    if (!json.is_array()) return false;
    list.clear();  // of its default
    for (const Json& one : json)
      if (!read(one, list.emplace_back())) return false;
    return true;
  }

 private:
  const Json& json_;
};

}  // namespace gnomon::lab
