// guard.h — refuses requests before they reach a route or a worker. The server calls it once for
// each request.
//
// A page of another site can make a browser send requests to a server on the loopback address. Two
// header fields show it. Origin names the site that sent the request. Host names the server as the
// browser knows it: after DNS rebinding it is the other site's name. Both must name this server
// [Fetch standard, Origin header; OWASP, DNS rebinding].
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/command/serve/http.h"

namespace sim::command::web {

struct Door {
  std::vector<std::string> hosts;  // names of this server with its port: "127.0.0.1:8600"
  std::string token;               // "": none is needed
  bool read_only = false;          // only the page itself and lists: no replays
};

// The names under which a server at `address` and `port` is reached.
std::vector<std::string> hosts_of(const std::string& address, int port);

// The reply to a request that is refused; std::nullopt if it may go on.
std::optional<Reply> refusal(const Door& door, const Request& request);

// The path of a target without its query: "/" of "/?token=abc".
std::string path_of(const std::string& target);

// A token of 128 random bits in hexadecimal digits.
std::string new_token();

}  // namespace sim::command::web
