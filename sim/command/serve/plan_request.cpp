#include "sim/command/serve/plan_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/output/json.h"

namespace sim::command::web {

namespace {

constexpr std::size_t settings_most = 400, key_bytes_most = 80, value_bytes_most = 16'384;

bool is_key(const std::string& key) {
  if (key.empty() || key.size() > key_bytes_most || key.front() == '-' || key.front() == '.')
    return false;
  return std::ranges::all_of(key, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-';
  });
}

// A slash belongs to a rate ("400Gb/s"); any other is part of a path.
bool names_file(const std::string& value) {
  for (std::size_t at = value.find('/'); at != std::string::npos; at = value.find('/', at + 1)) {
    const bool per_second = at > 0 && at + 1 < value.size() && value[at + 1] == 's' &&
                            (at + 2 == value.size() ||
                             std::string_view(" ,}").find(value[at + 2]) != std::string_view::npos);
    if (!per_second) return true;
  }
  return value.find('\\') != std::string::npos;
}

std::string text_of(const output::Json& value) {
  return value.is_string() ? value.get<std::string>() : output::line(value);
}

void add(PlanRequest& request, Diagnostics& problems, std::string setting) {
  const std::string problem = request_problem(setting);
  if (!problem.empty()) problems.push_back({setting.substr(0, key_bytes_most), problem});
  request.settings.push_back(std::move(setting));
}

void read_json(const std::string& body, PlanRequest& request, Diagnostics& problems) {
  const output::Json json = output::Json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    problems.push_back({"body", "is not a JSON object such as {\"settings\": [\"tp=4\"]}"});
    return;
  }
  for (const auto& [key, value] : json.items()) {
    if (key == "plan" && (value.is_string() || value.is_null())) {
      request.plan = value.is_null() ? "" : value.get<std::string>();
    } else if (key == "settings" && value.is_object()) {
      for (const auto& [name, one] : value.items())
        add(request, problems, fmt::format("{}={}", name, text_of(one)));
    } else if (key == "settings" && value.is_array()) {
      for (const output::Json& one : value) add(request, problems, text_of(one));
    } else {
      problems.push_back({key.substr(0, key_bytes_most),
                          "unknown; a request has \"plan\" (a name) and \"settings\" (a list)"});
    }
  }
}

void read_text(const std::string& body, PlanRequest& request, Diagnostics& problems) {
  for (std::size_t at = 0; at < body.size();) {
    const std::size_t end = std::min(body.find('\n', at), body.size());
    std::string line = body.substr(at, end - at);
    at = end + 1;
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (line.empty()) continue;
    if (line.find('=') != std::string::npos) {
      add(request, problems, std::move(line));
    } else if (request.plan.empty()) {
      request.plan = std::move(line);
    } else {
      problems.push_back({line.substr(0, key_bytes_most), "is a second plan; write one"});
    }
  }
}

}  // namespace

std::vector<std::string> PlanRequest::words() const {
  std::vector<std::string> all;
  if (!plan.empty()) all.push_back(plan);
  all.insert(all.end(), settings.begin(), settings.end());
  return all;
}

std::string request_problem(const std::string& setting) {
  const std::size_t at = setting.find('=');
  if (at == std::string::npos || !is_key(setting.substr(0, at)))
    return "is no setting; write for example tp=4";
  const std::string value = setting.substr(at + 1);
  if (value.size() > value_bytes_most) return "is too long";
  if (std::ranges::any_of(value, [](char c) { return static_cast<unsigned char>(c) < ' '; }))
    return "has a control character";
  if (names_file(value))
    return "names a file; a page uses installed models, clusters and plans, by name";
  return "";
}

bool is_plain_name(const std::string& name) {
  return is_key(name) && name.find("..") == std::string::npos;
}

Result<PlanRequest> plan_request(const std::string& body, bool json) {
  PlanRequest request;
  Diagnostics problems;
  if (json) {
    read_json(body, request, problems);
  } else {
    read_text(body, request, problems);
  }
  if (!request.plan.empty() && !is_plain_name(request.plan))
    problems.push_back({"plan", "is not the name of an installed plan"});
  if (request.settings.size() > settings_most)
    problems.push_back({"settings", fmt::format("are more than {}", settings_most)});
  if (!problems.empty()) return problems;
  return request;
}

}  // namespace sim::command::web
