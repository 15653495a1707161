// megatron_flags.h — the table of all flags of Megatron-LM and its forks, with their effect.
//
// The Translator looks up every flag of a launch script. Each flag is in exactly one row. A flag
// without a row is an error: it is misspelt or belongs to another program.
//
// Source of the names: NVIDIA/Megatron-LM 23.06 and core 0.7 to 0.16 (arguments.py and the classes
// from which the arguments are generated), bigscience-workshop/Megatron-DeepSpeed,
// microsoft/Megatron-DeepSpeed, alibaba/Pai-Megatron-Patch, alibaba/Megatron-LLaMA,
// okoge-kaz/Megatron-LM.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sim::input {

enum class FlagEffect : std::uint8_t {
  mapped,    // the plan setting `text`; a final '=' takes the flag's value
  together,  // read together with other flags (Translator)
  harmless,  // no effect on time or memory of a training step
  noted,     // small effect, not simulated; `text`: the simulated behaviour
  refused,   // large effect, not simulated: an error; `text`: the reason
  unknown,
};
struct FlagMeaning {
  FlagEffect effect = FlagEffect::unknown;
  std::string_view text;
};

// The row of a flag. `name`: without dashes, '_' as '-'.
FlagMeaning flag_meaning(std::string_view name);

// The suggestion for a misspelt flag: "; did you mean --seq-length?" or "".
std::string did_you_mean_flag(std::string_view name);

// The flags without effect, separated by blanks (megatron_flags_harmless.cpp).
extern const std::string_view harmless_flags;

}  // namespace sim::input
