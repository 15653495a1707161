// names_test.cpp — every argument of the frameworks is simulated, noted, asked for or refused by
// name, or known to have no effect. tests/input/names holds the lists, with their sources.
#include <catch2/catch.hpp>
#include <sstream>

#include "sim/input/launch/launch_files.h"
#include "sim/input/launch/megatron_flags.h"
#include "support.h"

namespace {

std::vector<std::string> names_of(const std::string& list) {
  std::vector<std::string> names;
  std::istringstream in(support::read(support::in_repository("tests/input/names/" + list)));
  for (std::string line; std::getline(in, line);)
    if (!line.empty() && line[0] != '#') names.push_back(line.substr(0, line.find(' ')));
  return names;
}

}  // namespace

TEST_CASE("names: every flag of Megatron-LM, Megatron-DeepSpeed and other forks has a meaning") {
  for (const auto& [list, least] :
       {std::pair{"megatron-lm.txt", 900u}, std::pair{"megatron-deepspeed.txt", 300u},
        std::pair{"megatron-forks.txt", 100u}}) {
    const std::vector<std::string> names = names_of(list);
    CHECK(names.size() > least - 1);
    std::string unknown;
    for (const std::string& name : names)
      if (sim::input::flag_meaning(name).effect == sim::input::FlagEffect::unknown)
        unknown += " " + name;
    CAPTURE(list);
    CHECK(unknown == "");
  }
}

TEST_CASE("names: every key of DeepSpeed, torchtitan, accelerate and the Trainer has a meaning") {
  for (const auto& [list, launcher] :
       {std::pair{"deepspeed.txt", "deepspeed"}, std::pair{"torchtitan.txt", "torchtitan"},
        std::pair{"accelerate.txt", "accelerate"},
        std::pair{"training-arguments.txt", "hf-trainer"}}) {
    const std::vector<std::string> names = names_of(list);
    CHECK(names.size() > 60);
    std::string unknown;
    for (const std::string& name : names)
      if (sim::input::key_effect(launcher, name) == sim::input::KeyEffect::unknown)
        unknown += " " + name;
    CAPTURE(list);
    CHECK(unknown == "");
  }
}

TEST_CASE("names: the files of launchers and of model families have no problems") {
  const std::string folder = support::in_repository("workloads/launchers/");
  CHECK(sim::input::launcher_names().size() >= 10);
  for (const std::string& name : sim::input::launcher_names())
    CHECK(support::text(sim::input::launcher_problems(folder + name + ".textproto")) == "");
}
