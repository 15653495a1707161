// routes.h — the addresses of the server: which request of a page becomes which work.
//
//   GET  /                  the page
//   GET  /api/names         names of models, clusters, plans, frameworks, schedules ...
//   GET  /api/fields        the fields of a plan and of a cluster: type, unit, range, default, help
//   POST /api/run           a plan: the document of `rehearse run --json`
//   POST /api/fixes         the same with single changes that would fit
//   POST /api/charts        a plan: the page of `rehearse report` as data
//   POST /api/launch        a plan: launch files
//   POST /api/file          a dropped file: {"name": "config.json", "text": ..., "settings": [...]}
//   POST /api/snapshot      a dropped memory snapshot, as bytes
//   GET  /api/folder/N      the page of the N-th folder that the server was started with, as data
//   POST /api/search        starts a search (`rehearse plan`); returns {"job": N}
//   POST /api/search/state  {"job": N}: progress, then the result
//   POST /api/search/stop   {"job": N}: ends it with the best so far
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "sim/command/serve/guard.h"
#include "sim/command/serve/http.h"
#include "sim/command/serve/workers.h"

namespace sim::command::web {

class Routes {
 public:
  // `folders`: of sweeps and searches, which the server shows. `scratch`: where snapshots wait for
  // their worker.
  Routes(Door& door, Workers& workers, Workers& searchers, std::string page,
         std::vector<std::string> folders, std::string scratch)
      : door_(door),
        workers_(workers),
        searchers_(searchers),
        page_(std::move(page)),
        folders_(std::move(folders)),
        scratch_(std::move(scratch)) {}

  void answer(Request request, Respond respond);

 private:
  struct Search {
    std::uint64_t number = 0;  // of the job; 0 after its end
    std::string progress, result;
    int status = 0;  // 0: running
  };

  void list(const std::string& kind, Respond respond);
  void plan(const std::string& what, const Request& request, Respond respond);
  void file(const Request& request, Respond respond);
  void snapshot(const Request& request, const Respond& respond);
  void folder(const std::string& path, Respond respond);
  void start_search(const Request& request, const Respond& respond);
  void search_state(const Request& request, const Respond& respond, bool stop);

  Door& door_;
  Workers& workers_;
  Workers& searchers_;
  std::string page_;
  std::vector<std::string> folders_;
  std::string scratch_;
  std::int64_t last_snapshot_ = 0;
  std::map<std::string, std::string> lists_;  // answers of GET requests, which do not change
  std::map<std::int64_t, Search> searches_;
  std::int64_t last_search_ = 0;
};

}  // namespace sim::command::web
