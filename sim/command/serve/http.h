// http.h — a request and a reply of `rehearse serve`, without the library that carries them.
#pragma once

#include <functional>
#include <string>

namespace sim::command::web {

struct Request {
  std::string method;  // "GET", "POST"
  std::string target;  // path and query, as sent: "/api/run"
  std::string host, origin, fetch_site, content_type, authorization;  // header fields; "": absent
  int hosts = 0;                                                      // number of Host fields
  std::string body;
};

struct Reply {
  int status = 200;
  std::string type = "application/json";
  std::string body;
};

// The one address that takes large bodies.
inline constexpr const char* snapshot_path = "/api/snapshot";

using Respond = std::function<void(Reply)>;

// A reply with a document of problems: {"schema": "rehearse/error/1", ...}.
Reply problem(int status, const std::string& message);

}  // namespace sim::command::web
