// solver.cpp — the solver: merging by symmetry, the helper process, the cache on disk.
#include "sim/cluster/network/solver.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "sim/cluster/network/frame.h"
#include "sim/cluster/network/reduce.h"

using namespace sim;
using namespace sim::network;

namespace fs = std::filesystem;

namespace {

SolverOptions plain(bool reduce = true) {
  SolverOptions options;
  options.cache = "";
  options.reduce = reduce;
  return options;
}

// A temporary folder.
struct Folder {
  Folder() : path(fs::temp_directory_path() / ("rehearse-test-" + std::to_string(::getpid()))) {
    fs::remove_all(path);
  }
  ~Folder() { fs::remove_all(path); }
  fs::path path;
};

// A query that needs the helper: two flows share link 0, and link 1 limits one of them.
Query uneven() {
  return {{100, 30}, {{1, {{0, 2}, {1, 1}}}, {1, {{0, 1}}}}};
}

std::vector<fs::path> files(const fs::path& folder) {
  std::vector<fs::path> all;
  for (const auto& entry : fs::directory_iterator(folder)) all.push_back(entry.path());
  return all;
}

std::string script(const Folder& folder, const std::string& body) {
  fs::create_directories(folder.path);
  const fs::path path = folder.path / "helper";
  std::ofstream(path) << "#!/bin/sh\n" << body << "\n";
  fs::permissions(path, fs::perms::owner_all);
  return path.string();
}

}  // namespace

TEST_CASE("network: rates are max-min fair and links are free again when a flow ends") {
  Solver solver(plain());
  // The link of 30 limits the first flow to 30, which takes 60 of the 100; the second gets 40: 1/30
  // and 1/40 s.
  const auto first = solver.solve(uneven());
  REQUIRE(first);
  CHECK((*first)[0] == Approx(1.0 / 30).epsilon(1e-12));
  CHECK((*first)[1] == Approx(1.0 / 40).epsilon(1e-12));
  // 10 and 30 bytes over 10: 5 each until 2 s, then the second has 20 left at 10: 4 s.
  const auto second = solver.solve(Query{{10}, {{10, {{0, 1}}}, {30, {{0, 1}}}}});
  REQUIRE(second);
  CHECK((*second)[0] == Approx(2.0).epsilon(1e-12));
  CHECK((*second)[1] == Approx(4.0).epsilon(1e-12));
  CHECK(solver.asked() == 2);
  CHECK(solver.started() == 1);
}

TEST_CASE("network: what symmetry decides needs no helper") {
  SolverOptions options = plain();
  options.helper = "/nonexistent/rehearse-network";
  Solver solver(options);
  // Three equal flows on a link of 30, four links of a ring in a row, and both at once.
  const auto shared = solver.solve(Query{{30}, {{1, {{0, 1}}}, {1, {{0, 1}}}, {1, {{0, 1}}}}});
  REQUIRE(shared);
  CHECK(*shared == Finish{0.1, 0.1, 0.1});
  const auto row = solver.solve(Query{{30, 10, 20, 50}, {{1, {{0, 1}, {1, 1}, {2, 1}, {3, 1}}}}});
  REQUIRE(row);
  CHECK(*row == Finish{0.1});
  CHECK(solver.started() == 0);
  // A cycle of flows, each between two links that it shares with its neighbours.
  const auto cycle = solver.solve(
      Query{{10, 10, 10}, {{1, {{0, 1}, {1, 1}}}, {1, {{1, 1}, {2, 1}}}, {1, {{0, 1}, {2, 1}}}}});
  REQUIRE(cycle);
  CHECK(*cycle == Finish{0.2, 0.2, 0.2});
}

TEST_CASE("network: merging equals the full problem on random problems") {
  // Few distinct capacities and sizes give many symmetries. The seed is printed on failure.
  for (unsigned seed = 1; seed <= 150; ++seed) {
    std::mt19937 random(seed);
    const auto draw = [&](unsigned most) { return static_cast<int>(random() % most); };
    Query query;
    const int links = 1 + draw(8), flows = 1 + draw(8);
    for (int l = 0; l < links; ++l) query.capacities.push_back(10.0 * (1 + draw(3)));
    for (int f = 0; f < flows; ++f) {
      Flow flow{1.0 + draw(2), {}};
      for (int l = 0; l < links; ++l) {
        if (draw(3) == 0) flow.uses.push_back({l, 1 + draw(2)});
      }
      if (flow.uses.empty()) flow.uses.push_back({draw(static_cast<unsigned>(links)), 1});
      query.flows.push_back(flow);
    }
    static Solver merged(plain()), full(plain(false));
    const auto a = merged.solve(query);
    const auto b = full.solve(query);
    REQUIRE(a);
    REQUIRE(b);
    INFO("seed " << seed << "\n" << text(query));
    for (std::size_t f = 0; f < query.flows.size(); ++f) {
      CHECK((*a)[f] == Approx((*b)[f]).epsilon(1e-9));
    }
  }
}

TEST_CASE("network: several queries at once are answered each for itself") {
  Solver solver(plain(false));
  std::vector<Query> queries;
  for (int i = 1; i <= 40; ++i) queries.push_back({{100.0}, {{1.0 * i, {{0, 1}}}}});
  const auto all = solver.solve(queries);
  REQUIRE(all);
  for (int i = 1; i <= 40; ++i) {
    CHECK((*all)[static_cast<std::size_t>(i - 1)][0] == Approx(0.01 * i).epsilon(1e-12));
  }
  CHECK(solver.started() == 1);
}

TEST_CASE("network: a solver that ends leaves no descriptor open") {
  const auto open = [] {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  };
  const auto before = open();
  {
    Solver solver(plain());
    REQUIRE(solver.solve(uneven()));
    CHECK(open() == before + 1);  // the socket
  }
  CHECK(open() == before);
}

TEST_CASE("network: a forked process asks a helper of its own") {
  Solver solver(plain());
  REQUIRE(solver.solve(uneven()));
  const pid_t child = ::fork();
  if (child == 0) {
    const auto answer = solver.solve(uneven());
    const bool good = answer && (*answer)[1] == Approx(1.0 / 40) && solver.started() == 2;
    ::_exit(good ? 0 : 1);  // without destructors, like a killed worker
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  // The parent's helper still runs and is unharmed.
  REQUIRE(solver.solve(uneven()));
  CHECK(solver.started() == 1);
}

TEST_CASE("network: a child that never asks leaves the parent's helper alone") {
  auto* solver = new Solver(plain());
  REQUIRE(solver->solve(uneven()));
  const pid_t child = ::fork();
  if (child == 0) {
    delete solver;
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(solver->solve(uneven()));
  CHECK(solver->started() == 1);
  delete solver;
}

TEST_CASE("network: a missing helper is an error value that says what to do") {
  SolverOptions options = plain();
  options.helper = "/nonexistent/rehearse-network";
  const auto answer = Solver(options).solve(uneven());
  REQUIRE_FALSE(answer);
  CHECK(answer.errors()[0].message.find("/nonexistent/rehearse-network") != std::string::npos);
  CHECK(answer.errors()[0].message.find("REHEARSE_NETWORK") != std::string::npos);
}

TEST_CASE("network: a helper that dies or babbles or is silent is an error value and no hang") {
  Folder folder;
  SolverOptions options = plain();
  const auto message = [&](const char* body, int patience_ms = 60'000) {
    options.helper = script(folder, body);
    options.patience = std::chrono::milliseconds(patience_ms);
    const auto answer = Solver(options).solve(uneven());
    REQUIRE_FALSE(answer);
    return answer.errors()[0].message;
  };
  CHECK(message("exit 3").find("died") != std::string::npos);
  CHECK(message("head -c 10 >/dev/null; echo 'Segmentation fault'").find("frames") !=
        std::string::npos);
  CHECK(message("exec sleep 20", 300).find("in time") != std::string::npos);
}

TEST_CASE("network: a helper that was killed between questions is started once more") {
  Solver solver(plain());
  REQUIRE(solver.solve(uneven()));
  REQUIRE(solver.helper() > 0);
  ::kill(solver.helper(), SIGKILL);
  REQUIRE(solver.solve(uneven()));
  CHECK(solver.started() == 2);
}

TEST_CASE("network: the cache gives the same bits and survives anything on disk") {
  Folder folder;
  SolverOptions options = plain();
  options.cache = (folder.path / "deep" / "cache").string();
  // Weights 3, 5 and 7 give times without a short decimal form.
  const Query query{{10, 7, 3}, {{1, {{0, 3}, {1, 1}}}, {1, {{1, 5}, {2, 1}}}, {2, {{2, 7}}}}};
  Solver first(options);
  const auto fresh = first.solve(query);
  REQUIRE(fresh);
  CHECK(first.asked() == 1);
  REQUIRE(files(options.cache).size() == 1);
  const fs::path entry = files(options.cache)[0];

  Solver second(options);
  const auto cached = second.solve(query);
  REQUIRE(cached);
  CHECK(*cached == *fresh);
  CHECK(second.started() == 0);

  std::string good;
  std::getline(std::ifstream(entry), good, '\0');
  for (const std::string& bad :
       {std::string(), std::string("ok 3\n1\n2\n3\n"), good.substr(0, good.size() - 2),
        good + "1\n", std::string(100, '\xff')}) {
    std::ofstream(entry, std::ios::trunc) << bad;
    Solver third(options);
    const auto again = third.solve(query);
    REQUIRE(again);
    CHECK(*again == *fresh);
    CHECK(third.asked() == 1);
  }
  std::string repaired;
  std::getline(std::ifstream(entry), repaired, '\0');
  CHECK(repaired == good);
}

TEST_CASE("network: a cache that cannot be written is no error") {
  SolverOptions options = plain();
  options.cache = "/dev/null/cache";
  REQUIRE(Solver(options).solve(uneven()));
}

TEST_CASE("network: what cannot be kept in the cache leaves nothing half written there") {
  Folder folder;
  SolverOptions options = plain();
  options.cache = (folder.path / "cache").string();
  REQUIRE(Solver(options).solve(uneven()));
  REQUIRE(files(options.cache).size() == 1);
  const fs::path entry = files(options.cache)[0];
  // A folder exists in the place of the answer, so the answer cannot be stored.
  fs::remove(entry);
  fs::create_directories(entry / "something");
  REQUIRE(Solver(options).solve(uneven()));
  CHECK(files(options.cache) == std::vector<fs::path>{entry});
  // The disk takes only ten bytes of it.
  fs::remove_all(entry);
  Solver solver(options);
  struct ::sigaction before {
  }, ignore{};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGXFSZ, &ignore, &before);
  struct ::rlimit all {};
  ::getrlimit(RLIMIT_FSIZE, &all);
  const struct ::rlimit little { 10, all.rlim_max };
  ::setrlimit(RLIMIT_FSIZE, &little);
  const bool solved{solver.solve(uneven())};
  ::setrlimit(RLIMIT_FSIZE, &all);
  ::sigaction(SIGXFSZ, &before, nullptr);
  CHECK(solved);
  CHECK(files(options.cache).empty());
}

TEST_CASE("network: queries and answers read back as they were written") {
  const Query query{{1.5e11, 0.1}, {{1e9, {{0, 2}, {1, 1}}}, {3, {{1, 4}}}}};
  const auto back = parse_query(text(query));
  REQUIRE(std::holds_alternative<Query>(back));
  CHECK(std::get<Query>(back) == query);
  const Finish finish{1.0 / 3, 2e-7};
  const auto times = parse_finish(text(finish));
  REQUIRE(std::holds_alternative<Finish>(times));
  CHECK(std::get<Finish>(times) == finish);
}

TEST_CASE("network: queries that are no queries are refused") {
  const std::string head = "rehearse-network 1\n";
  for (const std::string& bad :
       {std::string(), std::string("hello"), head, head + "links 1\n0\nflows 0\n",
        head + "links 1\n-5\nflows 0\n", head + "links 1\nnan\nflows 0\n",
        head + "links 1\ninf\nflows 0\n", head + "links 99999999999\n1\n",
        head + "links 1\n5\nflows 1\n1 1 1 1\n", head + "links 1\n5\nflows 1\n1 1 0 0\n",
        head + "links 1\n5\nflows 1\n1 2 0 1 0 1\n", head + "links 1\n5\nflows 1\n1 0\n",
        head + "links 1\n5\nflows 1\n1 1 0 1\nmore", head + "links 1\n5\nflows 2\n1 1 0 1\n"}) {
    INFO(bad);
    CHECK(std::holds_alternative<std::string>(parse_query(bad)));
  }
  CHECK(std::get<std::string>(parse_finish("error because\n")) == "because\n");
  CHECK(std::holds_alternative<std::string>(parse_finish("ok 2\n1\n")));
  CHECK(std::holds_alternative<std::string>(parse_finish("ok 1\n-1\n")));
}

TEST_CASE("network: frames come out whole from any pieces and noise is noticed") {
  const std::string sent = encode({7, "one"}) + encode({8, ""}) + encode({9, "three"});
  for (std::size_t piece = 1; piece <= sent.size(); ++piece) {
    FrameBuffer buffer;
    std::string got;
    for (std::size_t at = 0; at < sent.size(); at += piece) {
      const std::string part = sent.substr(at, piece);
      buffer.append(part.data(), part.size());
      while (const auto frame = buffer.next()) {
        got += std::to_string(frame->id) + frame->text + ".";
      }
    }
    CHECK(got == "7one.8.9three.");
    CHECK(buffer.good());
  }
  FrameBuffer noise;
  noise.append("RNX", 3);
  CHECK_FALSE(noise.good());
  FrameBuffer huge;
  const std::string header = "RN1\n" + std::string(8, '\0') + std::string(8, '\xff');
  huge.append(header.data(), header.size());
  CHECK_FALSE(huge.good());
}
