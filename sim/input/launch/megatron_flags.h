// megatron_flags.h — every flag that Megatron-LM and its relatives take, and what becomes of each.
//
// A flag is in exactly one row: nothing of a script is lost in silence, and a flag that no row has
// is misspelt or of another program.
//
// Source of the names: NVIDIA/Megatron-LM 23.06 and core 0.7 to 0.16 (arguments.py and the classes
// that arguments are made from), bigscience-workshop/Megatron-DeepSpeed,
// microsoft/Megatron-DeepSpeed, alibaba/Pai-Megatron-Patch, alibaba/Megatron-LLaMA,
// okoge-kaz/Megatron-LM.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sim::input {

enum class FlagEffect : std::uint8_t {
  mapped,    // a setting of a plan: `text`; one that ends in '=' takes the flag's value
  together,  // read with others (megatron.cpp)
  harmless,  // changes no time and no memory of a training step
  noted,     // changes them a little in a way that is not simulated; `text` is what is done instead
  refused,   // changes what a rank does: an answer would be of another run; `text` says why
  unknown,
};
struct FlagMeaning {
  FlagEffect effect = FlagEffect::unknown;
  std::string_view text;
};

// `name` without dashes, '_' as '-'.
FlagMeaning flag_meaning(std::string_view name);

// "; did you mean --seq-length?" or "".
std::string did_you_mean_flag(std::string_view name);

// The harmless ones, separated by blanks (megatron_flags_harmless.cpp).
extern const std::string_view harmless_flags;

}  // namespace sim::input
