// work.h — what a worker of the server does: one request of a page, answered by the commands that
// people type.
#pragma once

#include <string>

#include "sim/command/serve/workers.h"

namespace sim::command::web {

// Answers {"do": NAME, ...} with "STATUS\n" and the body:
//   run, fixes   the document of `rehearse run --json`, or of problems (422)
//   charts       the page of `rehearse report` as data
//   launch       launch files of the plan for each framework
//   search       the document of `rehearse plan --json`; progress is told
//   list         the document of `rehearse list --json`
//   file         a dropped file: its kind, and the settings that it holds or its page
//   snapshot     a stored memory snapshot: its page
//   sweep        the page of a folder of a sweep or of a search
// `scratch` is a folder for dropped files.
std::string answer(const std::string& request, const Tell& tell, const std::string& scratch);

// Loads what every request needs.
void prepare_worker();

}  // namespace sim::command::web
