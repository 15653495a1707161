// serve.cpp — `rehearse serve`: a page in which each setting can be changed, on a server of this
// machine.
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "sim/base/cores.h"
#include "sim/base/quantity.h"
#include "sim/command/common/command.h"
#include "sim/command/common/heartbeat.h"
#include "sim/command/serve/confinement.h"
#include "sim/command/serve/guard.h"
#include "sim/command/serve/http_server.h"
#include "sim/command/serve/routes.h"
#include "sim/command/serve/work.h"
#include "sim/command/serve/workers.h"
#include "sim/output/page.h"
#include "sim/study/sweep/records.h"

namespace sim::command {

namespace {

namespace fs = std::filesystem;

// A folder of this server, removed at its end.
class Folder {
 public:
  Folder() {
    std::error_code error;
    std::string path =
        (fs::temp_directory_path(error) / ("rehearse-serve-" + std::string(6, 'X'))).string();
    if (error || ::mkdtemp(path.data()) == nullptr)
      throw Stop{exit_io, path + ": the folder for dropped files cannot be made"};
    path_ = path;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;  // it is in the folder for temporary files
    fs::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

Bytes memory_of(const Options& options, Bytes otherwise) {
  if (!options.has("memory-limit")) return otherwise;
  const Parsed<Bytes> size = parse_bytes(options.text("memory-limit"));
  if (const auto* problem = std::get_if<std::string>(&size))
    throw Stop{exit_usage, "--memory-limit: " + *problem};
  return std::get<Bytes>(size);
}

struct Wanted {
  std::string address = "127.0.0.1";
  int port = 0;
  web::Door door;
  web::WorkerLimits limits, search_limits;
  std::vector<std::string> folders;  // absolute paths
  bool open = false;                 // in a browser
};

bool is_loopback(const std::string& address) {
  boost::system::error_code error;
  const auto parsed = boost::asio::ip::make_address(address, error);
  if (error)
    throw Stop{exit_usage,
               fmt::format("--host: '{}' is no address; write for example 0.0.0.0", address)};
  return parsed.is_loopback();
}

Wanted wanted_of(const Options& options) {
  constexpr int usual_port = 8600, seconds_most = 86'400;
  Wanted wanted;
  wanted.address = options.text("host", wanted.address);
  wanted.port = static_cast<int>(options.number("port", usual_port, 0, 65'535));
  if (!is_loopback(wanted.address)) wanted.door.token = web::new_token();
  wanted.door.read_only = options.has("read-only");
  const int jobs = std::clamp(cores(), 2, 8);
  wanted.limits.workers = static_cast<int>(options.number("jobs", jobs, 1, 256));
  wanted.limits.time = std::chrono::seconds(options.number("time-limit", 60, 1, seconds_most));
  wanted.limits.memory = memory_of(options, wanted.limits.memory);
  for (const std::string& word : options.words()) {
    std::error_code error;
    const fs::path folder = fs::canonical(word, error);
    if (error || study::contents_of(folder) == study::FolderContents::none)
      throw Stop{exit_missing, word +
                                   ": holds no results; a folder of `rehearse sweep -o` or "
                                   "`rehearse plan -o` does"};
    wanted.folders.push_back(folder);
  }
  wanted.open = options.has("open");
  wanted.search_limits = wanted.limits;
  wanted.search_limits.workers = 1;
  wanted.search_limits.time = 10 * wanted.limits.time;
  return wanted;
}

// Shows the address in the user's browser. False: there is no program for it.
bool open_browser(const std::string& url) {
  std::string program = "xdg-open", address = url;
  std::array<char*, 3> words = {program.data(), address.data(), nullptr};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  for (const int descriptor : {STDOUT_FILENO, STDERR_FILENO})
    ::posix_spawn_file_actions_addopen(&actions, descriptor, "/dev/null", O_WRONLY, 0);
  pid_t process = -1;
  const int error =
      ::posix_spawnp(&process, program.c_str(), &actions, nullptr, words.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  return error == 0;
}

// Runs until a signal ends it. Returns the number of the signal.
int run_server(const Wanted& wanted, const Globals& globals) {
  boost::asio::io_context context(1);
  const Folder scratch;
  const auto begin = [&] {
    if (::chdir(scratch.path().c_str()) != 0) ::_exit(1);
    web::confine(scratch.path(), wanted.folders);
    web::prepare_worker();
  };
  const auto work = [&](const std::string& request, const web::Tell& tell) {
    return web::answer(request, tell, scratch.path());
  };
  web::Workers workers(context, wanted.limits, begin, work);
  web::Workers searchers(context, wanted.search_limits, begin, work);
  web::Door door = wanted.door;
  std::vector<std::string> names;
  for (const std::string& folder : wanted.folders) names.push_back(fs::path(folder).filename());
  web::Routes routes(door, workers, searchers, output::live_page(door.read_only, names),
                     wanted.folders, scratch.path());
  web::HttpServer server(context, wanted.address, wanted.port, {},
                         [&](web::Request request, web::Respond respond) {
                           routes.answer(std::move(request), std::move(respond));
                         });
  door.hosts = web::hosts_of(wanted.address, server.port());
  const std::string url =
      fmt::format("http://{}/{}", door.hosts.front(),
                  door.token.empty() ? "" : fmt::format("?token={}", door.token));
  print(url + "\n");
  if (wanted.open && !open_browser(url)) note("xdg-open cannot be started; open the address");
  if (!globals.quiet) note("the page is at " + url + "; Ctrl-C ends the server");
  int ended_by = 0;
  boost::asio::signal_set signals(context, SIGINT, SIGTERM, SIGHUP);
  signals.async_wait([&](const boost::system::error_code& error, int signal) {
    if (error) return;
    ended_by = signal;
    server.close();
    workers.stop();
    searchers.stop();
    context.stop();
  });
  context.run();
  return ended_by;
}

}  // namespace

int run_serve(const Arguments& arguments, Globals globals) {
  Options options("serve");
  options.value("port", "N", "port to listen on (8600); 0: any free one")
      .value("host", "ADDRESS",
             "address to listen on (127.0.0.1); any other than loopback needs a token, which the "
             "printed link holds")
      .value("jobs", "N", "worker processes (all cores, 2 to 8)")
      .value("time-limit", "SECONDS", "time of one request (60); ten times that for a search")
      .value("memory-limit", "SIZE", "address space of a worker (4GiB)")
      .flag("open", "open the page in the browser of this machine (xdg-open)")
      .flag("read-only", "answer no requests for replays: only the folders and lists of names")
      .words(0, 16)
      .parse(arguments, globals);
  if (globals.json)
    throw Stop{exit_usage, "--json: serve prints its address; the answers of the server are JSON"};
  end_heartbeat();  // a server is at work until it is stopped
  const Wanted wanted = wanted_of(options);
  try {
    run_server(wanted, globals);
  } catch (const boost::system::system_error& error) {
    throw Stop{exit_io, fmt::format("port {} of {}: {}", wanted.port, wanted.address,
                                    error.code().message())};
  }
  return exit_yes;
}

}  // namespace sim::command
