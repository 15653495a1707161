#include "sim/study/sweep/pool.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <map>
#include <stdexcept>

using namespace sim::study;

namespace {

struct Outcome {
  std::map<std::size_t, std::string> answers;
  std::map<std::size_t, std::string> failures;
  bool all = false;
};

Outcome run(std::size_t count, int workers, const std::function<std::string(std::size_t)>& answer,
            std::size_t stop_after = 1'000'000, bool takes_killed = true) {
  std::vector<std::size_t> items;
  for (std::size_t i = 0; i < count; ++i) items.push_back(i);
  Outcome outcome;
  PoolCalls calls;
  calls.answer = answer;
  calls.answered = [&](std::size_t item, const std::string& text) {
    CHECK(outcome.answers.emplace(item, text).second);
    return true;
  };
  calls.failed = [&](std::size_t item, const std::string& why) {
    CHECK(outcome.failures.emplace(item, why).second);
    return true;
  };
  if (takes_killed) calls.killed = calls.failed;
  calls.go_on = [&] { return outcome.answers.size() < stop_after; };
  outcome.all = run_pool(items, workers, calls);
  return outcome;
}

}  // namespace

TEST_CASE("study: every item is answered once at any number of workers") {
  for (const int workers : {1, 2, 5}) {
    // Answers longer than a pipe's buffer arrive whole.
    const Outcome outcome = run(40, workers, [](std::size_t item) {
      return std::string(item * 10'000, static_cast<char>('a' + item % 26));
    });
    CHECK(outcome.all);
    REQUIRE(outcome.answers.size() == 40);
    for (const auto& [item, text] : outcome.answers) {
      CHECK(text == std::string(item * 10'000, static_cast<char>('a' + item % 26)));
    }
  }
}

TEST_CASE("study: a worker that dies takes only its own item with it") {
  const Outcome outcome = run(20, 3, [](std::size_t item) {
    if (item == 3) ::raise(SIGKILL);
    if (item == 7) ::_exit(9);
    if (item == 11) throw std::runtime_error("eleven");
    if (item == 19) {
      std::signal(SIGABRT, SIG_DFL);  // not the handler of the tests
      ::raise(SIGABRT);
    }
    return std::to_string(item);
  });
  CHECK(outcome.all);
  CHECK(outcome.answers.size() == 16);
  REQUIRE(outcome.failures.size() == 4);
  CHECK(outcome.failures.at(3) ==
        "killed from outside with signal 9 (Killed); Linux does that when the host is out of "
        "memory");
  CHECK(outcome.failures.at(19) == "the simulator stopped with signal 6 (Aborted)");
  CHECK(outcome.failures.at(11) == "eleven");
  CHECK(outcome.failures.at(7) == "the simulator ended with status 9");
}

TEST_CASE("study: a worker killed from outside ends the work of those who do not take it") {
  std::size_t asked = 0;
  const auto answer = [&](std::size_t item) {
    if (item == 3) ::raise(SIGTERM);  // which workers ignore
    if (item == 5) ::raise(SIGKILL);
    return std::to_string(++asked);
  };
  CHECK(run(5, 2, answer, 100, false).answers.size() == 5);
  CHECK_THROWS_MATCHES(run(1000, 2, answer, 1000, false), Killed,
                       Catch::Matchers::Message("killed from outside with signal 9 (Killed); Linux "
                                                "does that when the host is out of memory"));
}

TEST_CASE("study: a stopped run finishes what is under way and hands out no more") {
  const Outcome outcome = run(
      1000, 2, [](std::size_t item) { return std::to_string(item); }, 10);
  CHECK_FALSE(outcome.all);
  // The run stops after ten answers; the other worker may deliver one more.
  CHECK(outcome.answers.size() >= 10);
  CHECK(outcome.answers.size() <= 11);
}

TEST_CASE("study: nothing to do is done at once") {
  CHECK(run(0, 2, [](std::size_t) { return std::string(); }).all);
}

TEST_CASE("study: a stopped pool that abandons its items ends at once") {
  const auto begin = std::chrono::steady_clock::now();
  PoolCalls calls;
  calls.answer = [](std::size_t item) {
    if (item > 0) ::sleep(30);
    return std::string("done");
  };
  std::size_t answered = 0;
  calls.answered = [&](std::size_t, const std::string&) { return ++answered > 0; };
  calls.failed = [](std::size_t, const std::string&) { return true; };
  calls.go_on = [&] { return answered == 0; };
  calls.abandon = true;
  CHECK(!run_pool({0, 1, 2, 3}, 2, calls));
  CHECK(answered == 1);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
}
