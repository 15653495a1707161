#include "sim/command/serve/routes.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "sim/command/serve/plan_request.h"
#include "sim/output/json.h"
#include "sim/output/output.h"

namespace sim::command::web {

namespace {

using output::Json;

// The number of searches whose results are kept.
constexpr std::size_t searches_most = 16;
constexpr std::string_view folder_path = "/api/folder/";

Reply problems(int status, const Diagnostics& all) {
  const Json body = output::document(
      "error", {{"exit_code", static_cast<int>(exit_data)}, {"problems", problems_json(all)}});
  return {status, "application/json", output::line(body) + "\n"};
}

bool is_json(const Request& request) {
  return request.content_type.starts_with("application/json");
}

// A whole number from 1 up, or a list "8,16" of them.
std::optional<std::string> counts(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end()) return std::nullopt;
  const std::string text = found->is_string() ? found->get<std::string>() : output::line(*found);
  if (text.empty() || text.find_first_not_of("0123456789,") != std::string::npos)
    return std::nullopt;
  return text;
}

// The words of `rehearse plan` for a search; an error names what is missing.
Result<Arguments> search_arguments(const Json& json, const PlanRequest& plan) {
  Arguments words;
  Diagnostics missing;
  for (const char* key : {"model", "cluster"}) {
    const std::string name = json.value(key, "");
    if (is_plain_name(name)) {
      words.push_back(name);
    } else {
      missing.push_back({key, "is missing: the name of an installed one"});
    }
  }
  for (const char* key : {"gpus", "batch", "sequence"}) {
    if (const std::optional<std::string> value = counts(json, key)) {
      words.push_back(fmt::format("--{}={}", key, *value));
    } else {
      missing.push_back({key, "is missing: a whole number"});
    }
  }
  if (!missing.empty()) return missing;
  words.insert(words.end(), plan.settings.begin(), plan.settings.end());
  return words;
}

}  // namespace

void Routes::answer(Request request, Respond respond) {
  if (const std::optional<Reply> refused = refusal(door_, request)) return respond(*refused);
  const std::string path = path_of(request.target);
  const bool get = request.method == "GET";
  if (path == "/" && get) return respond({200, "text/html; charset=utf-8", page_});
  if (path == "/api/names" && get) return list("", std::move(respond));
  if (path == "/api/fields" && get) return list("fields", std::move(respond));
  if (get && path.starts_with(folder_path)) return folder(path, std::move(respond));
  if (get) return respond(problem(404, "this server has no such page"));
  for (const char* what : {"run", "fixes", "charts", "launch"})
    if (path == fmt::format("/api/{}", what)) return plan(what, request, std::move(respond));
  if (path == "/api/file") return file(request, std::move(respond));
  if (path == snapshot_path) return snapshot(request, respond);
  if (path == "/api/search") return start_search(request, respond);
  if (path == "/api/search/state") return search_state(request, respond, false);
  if (path == "/api/search/stop") return search_state(request, respond, true);
  respond(problem(404, "this server has no such page"));
}

void Routes::list(const std::string& kind, Respond respond) {
  if (const auto found = lists_.find(kind); found != lists_.end())
    return respond({200, "application/json", found->second});
  const Json words = kind.empty() ? Json::array() : Json::array({kind});
  workers_.submit({output::line({{"do", "list"}, {"settings", words}}), nullptr,
                   [this, kind, respond = std::move(respond)](Reply reply) {
                     if (reply.status == 200) lists_[kind] = reply.body;
                     respond(std::move(reply));
                   },
                   ""});
}

void Routes::plan(const std::string& what, const Request& request, Respond respond) {
  const Result<PlanRequest> wanted = plan_request(request.body, is_json(request));
  if (!wanted) return respond(problems(422, wanted.errors()));
  if (wanted->words().empty())
    return respond(
        problems(422, {{"settings", "are missing: model=NAME cluster=NAME gpus=N ..."}}));
  workers_.submit(
      {output::line({{"do", what}, {"plan", wanted->plan}, {"settings", wanted->settings}}),
       nullptr, std::move(respond), ""});
}

void Routes::file(const Request& request, Respond respond) {
  const Json json = Json::parse(request.body, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("name") || !json["name"].is_string() ||
      !json.contains("text") || !json["text"].is_string())
    return respond(problem(422, "a file is {\"name\": \"config.json\", \"text\": ...}"));
  const Json settings = {{"settings", json.value("settings", Json::array())}};
  const Result<PlanRequest> plan = plan_request(output::line(settings), true);
  if (!plan) return respond(problems(422, plan.errors()));
  workers_.submit({output::line({{"do", "file"},
                                 {"name", json["name"]},
                                 {"text", json["text"]},
                                 {"settings", plan->settings}}),
                   nullptr, std::move(respond), ""});
}

void Routes::snapshot(const Request& request, const Respond& respond) {
  const std::string path = fmt::format("{}/snapshot-{}", scratch_, ++last_snapshot_);
  const std::string problem_of_disk = output::write_file(path, request.body);
  if (!problem_of_disk.empty()) return respond(problem(503, problem_of_disk));
  workers_.submit({output::line({{"do", "snapshot"}, {"name", "snapshot"}, {"file", path}}),
                   nullptr,
                   [path, respond](Reply reply) {
                     std::error_code ignored;  // the folder is removed with the server
                     std::filesystem::remove(path, ignored);
                     respond(std::move(reply));
                   },
                   ""});
}

void Routes::folder(const std::string& path, Respond respond) {
  const std::string number = path.substr(folder_path.size());
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), index);
  if (error != std::errc{} || end != number.data() + number.size() || index >= folders_.size())
    return respond(problem(404, "this server shows no such folder"));
  workers_.submit({output::line({{"do", "sweep"}, {"folder", folders_[index]}}), nullptr,
                   std::move(respond), ""});
}

void Routes::start_search(const Request& request, const Respond& respond) {
  const Json json = Json::parse(request.body, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return respond(problem(422, "a search is a JSON object"));
  for (const char* key : {"model", "cluster"})
    if (json.contains(key) && !json[key].is_string())
      return respond(problem(422, fmt::format("{}: a name", key)));
  const Json settings = {{"settings", json.value("settings", Json::array())}};
  const Result<PlanRequest> plan = plan_request(output::line(settings), true);
  if (!plan) return respond(problems(422, plan.errors()));
  const Result<Arguments> words = search_arguments(json, *plan);
  if (!words) return respond(problems(422, words.errors()));
  while (searches_.size() >= searches_most) {
    const auto old = std::ranges::find_if(searches_, [](const auto& s) { return s.second.status; });
    if (old == searches_.end()) return respond(problem(503, "too many searches wait"));
    searches_.erase(old);
  }
  const std::int64_t id = ++last_search_;
  searches_[id] = {};
  const auto of = [this, id](auto&& use) {
    if (const auto found = searches_.find(id); found != searches_.end()) use(found->second);
  };
  const std::uint64_t number = searchers_.submit(
      {output::line({{"do", "search"}, {"words", *words}}),
       [of](std::string text) { of([&](Search& s) { s.progress = std::move(text); }); },
       [of](Reply reply) {
         of([&](Search& s) {
           s.status = reply.status;
           s.result = std::move(reply.body);
         });
       },
       ""});
  of([&](Search& s) { s.number = number; });
  respond({200, "application/json", output::line({{"job", id}})});
}

void Routes::search_state(const Request& request, const Respond& respond, bool stop) {
  const Json json = Json::parse(request.body, nullptr, /*allow_exceptions=*/false);
  const bool named = json.is_object() && json.contains("job") && json["job"].is_number_integer();
  const auto found = named ? searches_.find(json["job"].get<std::int64_t>()) : searches_.end();
  if (found == searches_.end()) return respond(problem(404, "there is no such search"));
  const Search& search = found->second;
  if (stop && search.status == 0) searchers_.interrupt(search.number);
  // The parts are JSON already.
  respond({200, "application/json",
           fmt::format("{{\"running\":{},\"status\":{},\"progress\":{},\"result\":{}}}",
                       search.status == 0, search.status,
                       search.progress.empty() ? "null" : search.progress,
                       search.result.empty() ? "null" : search.result)});
}

}  // namespace sim::command::web
