// serve_guard.cpp — which requests the server of `rehearse serve` refuses before any work.
#include <catch2/catch.hpp>
#include <string>

#include "sim/command/serve/guard.h"
#include "sim/command/serve/plan_request.h"

using namespace sim::command::web;

namespace {

Request page() {
  Request request;
  request.method = "GET";
  request.target = "/";
  request.host = "127.0.0.1:8600";
  request.hosts = 1;
  return request;
}

Request posted() {
  Request request = page();
  request.method = "POST";
  request.target = "/api/run";
  request.content_type = "application/json";
  request.origin = "http://127.0.0.1:8600";
  request.fetch_site = "same-origin";
  return request;
}

int status(const Door& door, const Request& request) {
  const auto refused = refusal(door, request);
  return refused ? refused->status : 200;
}

}  // namespace

TEST_CASE("command: serve answers its own page and refuses other hosts and origins") {
  const Door door{hosts_of("127.0.0.1", 8600), "", false};
  CHECK(status(door, page()) == 200);
  CHECK(status(door, posted()) == 200);
  Request request = posted();
  request.host = "localhost:8600";
  CHECK(status(door, request) == 200);
  request.host = "evil.example:8600";
  CHECK(status(door, request) == 421);
  request = posted();
  request.origin = "http://evil.example";
  CHECK(status(door, request) == 403);
  request = posted();
  request.fetch_site = "cross-site";
  CHECK(status(door, request) == 403);
  request = posted();
  request.content_type = "application/x-www-form-urlencoded";
  CHECK(status(door, request) == 415);
  request = page();
  request.target = "/../etc/passwd";
  CHECK(status(door, request) == 400);
}

TEST_CASE("command: serve with a token refuses requests without it") {
  const Door door{hosts_of("10.0.0.1", 8600), new_token(), false};
  CHECK(door.token.size() == 32);
  CHECK(door.token != new_token());
  Request request = page();
  CHECK(status(door, request) == 401);
  request.target = "/?token=" + door.token;
  CHECK(status(door, request) == 200);
  request.target = "/?token=" + door.token.substr(1) + "0";
  CHECK(status(door, request) == 401);
  request = posted();
  CHECK(status(door, request) == 401);
  request.target = "/api/run?token=" + door.token;  // only the page takes it from the address
  CHECK(status(door, request) == 401);
  request.authorization = "Bearer " + door.token;
  CHECK(status(door, request) == 200);
}

TEST_CASE("command: a request of a page names settings and installed plans, no files and options") {
  CHECK(plan_request(R"({"plan": "llama-2-7b-64", "settings": {"tp": 4}})", true)->words() ==
        std::vector<std::string>{"llama-2-7b-64", "tp=4"});
  CHECK(plan_request("llama-2-7b-64\ntp=4\r\npp=2\n", false)->words() ==
        std::vector<std::string>{"llama-2-7b-64", "tp=4", "pp=2"});
  CHECK(request_problem("node.nic_bandwidth=400Gb/s").empty());
  CHECK(request_problem("condition={node: 3 nic: 1 bandwidth: 10GB/s}").empty());
  for (const char* refused : {"model=/etc/passwd", "model=../x", "--report=x", "tp", "=4",
                              "tp=4\nmodel=x", "node_bandwidth=a/b"})
    CHECK_FALSE(request_problem(refused).empty());
  for (const char* refused : {"--help", "/etc/passwd", "../x", "a/b"})
    CHECK_FALSE(plan_request(std::string(refused) + "\n", false));
  CHECK_FALSE(plan_request("[]", true));
  CHECK_FALSE(plan_request("a\nb\n", false));
}
