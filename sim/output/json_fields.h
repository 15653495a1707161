// json_fields.h — JSON of a struct whose keys are the names of its members, by nlohmann's macros.
//
// JSON_FIELDS(model::Latent, kv_rank, q_rank) defines `Json fields(const model::Latent&)` with
// these two keys in this order. nlohmann's own macros (3.11.2) write only sorted objects.
// JSON_READ_FIELDS defines `void read_fields(const Json&, T&)`, which throws Json::exception if a
// key is missing. Both belong into an unnamed namespace of the file that writes the JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "sim/output/json.h"

#define JSON_FIELDS(Type, ...)                                               \
  ::sim::output::Json fields(const Type& nlohmann_json_t) {                  \
    ::sim::output::Json nlohmann_json_j;                                     \
    NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(NLOHMANN_JSON_TO, __VA_ARGS__)) \
    return nlohmann_json_j;                                                  \
  }

#define JSON_READ_FIELDS(Type, ...)                                                     \
  void read_fields(const ::sim::output::Json& nlohmann_json_j, Type& nlohmann_json_t) { \
    NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(NLOHMANN_JSON_FROM, __VA_ARGS__))          \
  }
