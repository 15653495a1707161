#include "sim/command/serve/guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>

#include "sim/command/common/command.h"
#include "sim/output/json.h"

namespace sim::command::web {

namespace {

constexpr std::size_t target_bytes_most = 2048;

// Compares all characters, so that the time says nothing about the token.
bool same_secret(const std::string& a, const std::string& b) {
  unsigned different = a.size() == b.size() ? 0U : 1U;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    different |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  return different == 0;
}

bool has_token(const Door& door, const Request& request) {
  constexpr std::string_view scheme = "Bearer ", query = "token=";
  if (request.authorization.starts_with(scheme))
    return same_secret(request.authorization.substr(scheme.size()), door.token);
  // The first page is opened from a link, which can only carry the token in its query.
  const std::size_t at = request.target.find('?');
  if (path_of(request.target) != "/" || at == std::string::npos) return false;
  const std::string rest = request.target.substr(at + 1);
  return rest.starts_with(query) && same_secret(rest.substr(query.size()), door.token);
}

// A target that only a program with bad intentions sends.
bool strange(const std::string& target) {
  if (target.empty() || target.front() != '/' || target.size() > target_bytes_most) return true;
  const std::string path = path_of(target);
  if (path.find("..") != std::string::npos || path.find("//") != std::string::npos) return true;
  return std::ranges::any_of(path, [](char c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    return !letter && c != '/' && c != '-' && c != '_' && c != '.';
  });
}

bool names(const std::vector<std::string>& hosts, const std::string& host) {
  return std::ranges::find(hosts, host) != hosts.end();
}

}  // namespace

Reply problem(int status, const std::string& message) {
  const Diagnostics problems = {{"", message}};
  const output::Json body = output::document("error", {{"exit_code", static_cast<int>(exit_usage)},
                                                       {"problems", problems_json(problems)}});
  return {status, "application/json", output::line(body) + "\n"};
}

std::vector<std::string> hosts_of(const std::string& address, int port) {
  std::vector<std::string> all;
  for (const char* name : {"127.0.0.1", "localhost", "[::1]"})
    all.push_back(fmt::format("{}:{}", name, port));
  const bool six = address.find(':') != std::string::npos;
  const std::string own =
      six ? fmt::format("[{}]:{}", address, port) : fmt::format("{}:{}", address, port);
  if (!names(all, own)) all.push_back(own);
  return all;
}

std::string path_of(const std::string& target) {
  return target.substr(0, target.find('?'));
}

std::optional<Reply> refusal(const Door& door, const Request& request) {
  if (strange(request.target)) return problem(400, "the address is none of this server");
  if (request.hosts != 1 || !names(door.hosts, request.host))
    return problem(421, fmt::format("Host: this server is {}", door.hosts.front()));
  if (!request.origin.empty() &&
      (!request.origin.starts_with("http://") || !names(door.hosts, request.origin.substr(7))))
    return problem(403, "Origin: another site sent this request");
  if (!request.fetch_site.empty() && request.fetch_site != "same-origin" &&
      (request.fetch_site != "none" || request.method != "GET") && path_of(request.target) != "/")
    return problem(403, "Sec-Fetch-Site: another site sent this request");
  if (!door.token.empty() && !has_token(door, request))
    return problem(401, "the token is missing; open the address that `rehearse serve` printed");
  if (request.method != "GET" && request.method != "POST")
    return problem(405, "methods: GET and POST");
  const bool bytes = path_of(request.target) == snapshot_path;
  if (request.method == "POST" && bytes != (request.content_type == "application/octet-stream"))
    return problem(415, "Content-Type: application/octet-stream for a memory snapshot, only");
  if (request.method == "POST" && !bytes && !request.content_type.starts_with("application/json") &&
      !request.content_type.starts_with("text/plain"))
    return problem(415, "Content-Type: application/json or text/plain");
  if (request.method == "GET" && !request.body.empty())
    return problem(400, "a GET request has no body");
  if (door.read_only && request.method == "POST")
    return problem(403, "this server is read-only; start it without --read-only");
  return std::nullopt;
}

std::string new_token() {
  std::random_device random;
  std::string token;
  for (int i = 0; i < 4; ++i) token += fmt::format("{:08x}", random());
  return token;
}

}  // namespace sim::command::web
