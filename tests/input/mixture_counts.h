// mixture_counts.h — parameters of the mixtures in models/: total and active per token.
// models/README.md names the publication of each.
#pragma once

#include <cstdint>

namespace sample {

struct MixtureCount {
  const char* name;
  std::int64_t all, active;
};
inline constexpr MixtureCount mixture_counts[] = {
    {"mixtral-8x7b", 46'702'792'704, 12'879'925'248},
    {"mixtral-8x22b", 140'630'071'296, 39'161'468'928},
    {"qwen3-30b-a3b", 30'532'122'624, 3'353'032'704},
    {"qwen3-235b-a22b", 235'093'634'560, 22'190'763'520},
    {"deepseek-v2", 235'741'434'880, 21'375'800'320},
    {"deepseek-v3", 671'026'404'352, 37'552'282'624},
    {"gpt-oss-120b", 116'829'156'672, 5'711'982'912},
    {"grok-1", 315'684'820'992, 83'756'587'008},
    {"llama-4-maverick", 400'711'848'960, 17'184'691'200}};

}  // namespace sample
