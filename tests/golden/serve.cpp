// serve.cpp — `rehearse serve`: its answers, its limits, hostile requests, and the page in a real
// browser where Chromium is installed.
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>

#include "tests/golden/program.h"

using golden::run;
using golden::text_of;

namespace {

// A server on a free port, ended when the object goes out of scope.
class Server {
 public:
  Server(std::string folder, const std::string& options) : folder_(std::move(folder)) {
    run("./rehearse serve --port 0 " + golden::serve_options + options +
            " >url 2>said & echo $! >pid",
        folder_);
    for (int i = 0; i < 600 && url().empty(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    INFO(text_of(folder_ + "/said"));
    REQUIRE(!url().empty());
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server() { end(); }

  std::string url() const {
    const std::string text = text_of(folder_ + "/url");
    return text.substr(0, text.find('\n'));
  }
  // "127.0.0.1 8600"
  std::string host_and_port() const {
    std::string text = url().substr(7);
    text = text.substr(0, text.find('/'));
    return text.replace(text.find(':'), 1, " ");
  }
  // Ends it by SIGTERM; returns whether its process is gone within five seconds.
  bool end() {
    return run("kill $(cat pid) 2>/dev/null; for i in $(seq 100); do kill -0 $(cat pid) "
               "2>/dev/null || exit 0; sleep 0.05; done; exit 1",
               folder_)
               .code == 0;
  }
  // The body of the reply to a POST request, then its status in a last line.
  std::string post(const std::string& path, const std::string& body) const {
    golden::write(folder_ + "/body", body);
    return run("python3 \"" REHEARSE_SOURCE_DIR "/tests/browser/post.py\" " + url() + path +
                   " body",
               folder_)
        .out;
  }
  const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
};

const std::string small_sweep =
    "./rehearse sweep model=llama-2-7b cluster=dgx-h100 gpus=16 global_batch=32 sequence=4096 "
    "tp=1,2,4 pp=1,2 micro_batch=1,2";

bool has(const std::string& program, const std::string& folder) {
  if (run("command -v " + program, folder).code == 0) return true;
  WARN("not tested: " << program << " is not installed");
  return false;
}

}  // namespace

TEST_CASE("golden: serve answers a plan as run does, and ends cleanly on SIGTERM") {
  Server server(golden::scratch("serve"), "--quiet");
  if (!has("python3", server.folder())) return;
  const std::string said = server.post(
      "api/run", R"({"plan": "llama-2-7b-64", "settings": ["global_batch=64", "tp=4"]})");
  const std::string own =
      run("./rehearse run llama-2-7b-64 global_batch=64 tp=4 --json", server.folder()).out;
  CHECK(said.ends_with("\n200\n"));
  CHECK(nlohmann::json::parse(said.substr(0, said.rfind("\n200"))) == nlohmann::json::parse(own));
  const std::string wrong = server.post("api/run", R"({"settings": {"model": "llama-2-7b"}})");
  CHECK(wrong.ends_with("\n422\n"));
  CHECK(wrong.find("cluster") != std::string::npos);
  CHECK(server.end());
}

TEST_CASE("golden: serve stops a request that takes too long or too much memory, and goes on") {
  if (golden::skipped_when_sanitized("limit")) return;
  Server server(golden::scratch("serve-limits"), "--quiet --time-limit 1 --memory-limit 600MiB");
  if (!has("python3", server.folder())) return;
  const std::string large = server.post(
      "api/charts",
      R"({"settings": ["model=llama-3.1-405b", "cluster=meta-24k-h100", "gpus=16384", "tp=8",
          "pp=16", "global_batch=131072", "sequence=8192", "schedule=interleaved-1f1b",
          "virtual_stages=2"]})");
  INFO(large);
  CHECK(!large.ends_with("\n200\n"));
  const std::string small =
      server.post("api/run", R"({"plan": "llama-2-7b-64", "settings": ["global_batch=64"]})");
  INFO(small);
  CHECK(small.ends_with("\n200\n"));
}

TEST_CASE("golden: serve with --read-only answers no replays") {
  Server server(golden::scratch("serve-read-only"), "--quiet --read-only");
  if (!has("python3", server.folder())) return;
  CHECK(server.post("api/run", R"({"plan": "llama-2-7b-64"})").ends_with("\n403\n"));
}

TEST_CASE("golden: serve --read-only shows its folders and nothing else") {
  const std::string folder = golden::scratch("serve-folder");
  if (!has("python3", folder)) return;
  REQUIRE(run(small_sweep + " -o out -q", folder).code == 0);
  CHECK(run("./rehearse serve nothing", folder).code == 66);
  const Server server(folder, "--quiet --read-only out");
  const auto get = [&](const std::string& path) {
    return run(
        "python3 -c \"import sys, urllib.request; "
        "print(urllib.request.urlopen(sys.argv[1]).read().decode())\" " +
            server.url() + path,
        folder);
  };
  const auto page = nlohmann::json::parse(get("api/folder/0").out);
  CHECK(page["title"] == "Sweep: out");
  CHECK(get("api/folder/1").code != 0);
  CHECK(server.post("api/run", R"({"plan": "llama-2-7b-64"})").ends_with("\n403\n"));
}

TEST_CASE("golden: serve on another address than loopback needs its token") {
  Server server(golden::scratch("serve-token"), "--quiet --host 0.0.0.0");
  CHECK(server.url().find("?token=") != std::string::npos);
  CHECK(run("./rehearse serve --host nonsense", server.folder()).code == 64);
}

TEST_CASE("golden: serve refuses hostile requests and stays alive") {
  Server server(golden::scratch("serve-hostile"), "--quiet");
  if (!has("python3", server.folder())) return;
  const golden::Finished tried =
      run("timeout 300 python3 \"" REHEARSE_SOURCE_DIR "/tests/browser/hostile_test.py\" " +
              server.host_and_port(),
          server.folder());
  INFO(tried.out << tried.err);
  CHECK(tried.code == 0);
}

TEST_CASE("golden: serve shows folders of results, whose points open as plans") {
  const std::string folder = golden::scratch("serve-folder-page");
  if (!has("chromium", folder) || !has("python3", folder)) return;
  REQUIRE(run(small_sweep + " -o out -q", folder).code == 0);
  // The same sweep with ten thousand points.
  REQUIRE(run("mkdir -p long && for i in $(seq 900); do cat out/results.jsonl; done | "
              "head -10000 >long/results.jsonl",
              folder)
              .code == 0);
  const Server server(folder, "--quiet out long");
  for (const std::string name : {"out", "long"}) {
    const golden::Finished tried =
        run("timeout 300 python3 \"" REHEARSE_SOURCE_DIR "/tests/browser/folder_test.py\" " +
                server.url() + " " + name,
            folder);
    INFO(tried.out << tried.err);
    CHECK(tried.code == 0);
  }
}

// Width and height of a PNG file: eight bytes each of its first chunk, after 16 others.
std::pair<int, int> size_of_picture(const std::string& path) {
  const std::string bytes = text_of(path);
  if (bytes.size() < 24 || bytes.substr(1, 3) != "PNG") return {0, 0};
  const auto number = [&](std::size_t at) {
    int value = 0;
    for (std::size_t i = at; i < at + 4; ++i)
      value = 256 * value + static_cast<unsigned char>(bytes[i]);
    return value;
  };
  return {number(16), number(20)};
}

// The same browser draws the same bytes; another version draws the same parts.
TEST_CASE("golden: tests/browser/pictures.py makes the picture of the page") {
  const std::string folder = golden::scratch("pictures");
  if (!has("chromium", folder) || !has("python3", folder)) return;
  const golden::Finished made = run("mkdir made && timeout 500 python3 \"" REHEARSE_SOURCE_DIR
                                    "/tests/browser/pictures.py\" made",
                                    folder);
  INFO(made.out << made.err);
  REQUIRE(made.code == 0);
  INFO("run python3 tests/browser/pictures.py");
  const std::string kept = REHEARSE_SOURCE_DIR "/results/search.png";
  const auto [width, height] = size_of_picture(folder + "/made/search.png");
  CHECK(width == size_of_picture(kept).first);
  CHECK(height == size_of_picture(kept).second);
  CHECK(text_of(folder + "/made/search.png").size() > 30'000);
  const std::size_t bytes =
      text_of(kept).size() + text_of(REHEARSE_SOURCE_DIR "/results/out-of-memory.svg").size();
  CHECK(bytes <= 300'000);
}

TEST_CASE("golden: serve loses no answer of many clients") {
  Server server(golden::scratch("serve-load"), "--quiet");
  if (!has("python3", server.folder())) return;
  const golden::Finished tried =
      run("timeout 300 python3 \"" REHEARSE_SOURCE_DIR "/tests/browser/load_test.py\" " +
              server.url() + " $(cat pid) 32 3",
          server.folder());
  INFO(tried.out << tried.err);
  CHECK(tried.code == 0);
}

TEST_CASE("golden: the page of serve works in Chromium as a user uses it") {
  const std::string folder = golden::scratch("serve-page");
  if (!has("chromium", folder) || !has("python3", folder)) return;
  Server server(folder, "--quiet");
  const golden::Finished tried = run(
      "timeout 600 python3 \"" REHEARSE_SOURCE_DIR "/tests/browser/page_test.py\" " + server.url(),
      server.folder());
  INFO(tried.out << tried.err);
  CHECK(tried.code == 0);
}
