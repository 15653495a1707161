// launch_files.h — reads the YAML, TOML or JSON launch file of a program by a table of its keys and
// their meanings (workloads/launchers/*.textproto).
//
// read_launch_yaml calls read_by_launcher first. A program recognises a file if one of its `sign`s
// holds; of several programs, the first by name reads it. Every key of the file is then simulated,
// noted, asked for, refused, or listed as not read.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/input/launch/launch.h"
#include "sim/input/launch/launch_values.h"

namespace sim::input {

// The settings of a file that one of the programs recognises; nothing if none does. `text` and
// `path`: of the file, for places.
std::optional<LaunchFile> read_by_launcher(const LaunchValues& values, const std::string& text,
                                           const std::string& path);

// Notes, problems and settings of the keys of a file whose program is known by name; nothing if
// there is no such file.
std::optional<MegatronArguments> read_rows(std::string_view launcher, const LaunchValues& values,
                                           const std::string& text, const std::string& path);

// The launcher whose `sign` these keys have; of several, one that no other launcher includes. "" if
// there is none.
std::string launcher_of(const LaunchValues& values);

// The values of keys that a class or a recipe brings, by name; nothing if the launcher's file does
// not have it.
std::optional<LaunchValues> preset_of(std::string_view launcher, std::string_view name);

// The launcher whose `command` starts at a word of a script, and its number of words.
std::pair<std::string, std::size_t> launcher_of(std::span<const shell::Word> words);

// The effect that the launcher file of a program gives to a key.
enum class KeyEffect : std::uint8_t { simulated, noted, refused, harmless, unknown };
KeyEffect key_effect(std::string_view launcher, std::string_view key);

// The names of all launcher files, sorted.
std::vector<std::string> launcher_names();

// All problems of a launcher file: its schema, keys with no or two effects, unknown settings.
Diagnostics launcher_problems(const std::string& path);

}  // namespace sim::input
