// own_script.h — the user's launch script of Megatron-LM with another plan: the flags that the two
// plans give differently change, and all others stay as the user wrote them.
//
// The writer of launch.sh calls it if the search starts from a script, and `explain --fix` prints
// the changes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/input/launch/script_words.h"
#include "sim/program/plan/plan.h"
#include "sim/study/plan/launch/launch_line.h"

namespace sim::planner {

struct OwnScript {
  std::string path;
  input::ScriptWords words;
  program::Plan plan;  // of the script, without settings of the command line where it needs none
};

// `overrides`: the settings with which the script was read. Nothing: the file is no script of
// Megatron-LM.
std::optional<OwnScript> own_script(const std::string& path,
                                    const std::vector<std::string>& overrides);

// A flag or a variable of the environment. "": it is not there.
struct ScriptChange {
  std::string from, to;  // "--micro-batch-size 8"
};

struct ChangedScript {
  std::vector<std::string> flags;
  Environment environment;
  std::vector<ScriptChange> changes;
};

// The script with `plan`. `model`: the name of its network; "": the script describes it.
ChangedScript with_plan(const OwnScript& own, const program::Plan& plan, const std::string& model);

// "--micro-batch-size 8 -> 1", "add --sequence-parallel", "remove --tp-comm-overlap".
std::string change_text(const ScriptChange& change);

}  // namespace sim::planner
