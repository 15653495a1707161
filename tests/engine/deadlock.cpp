// deadlock.cpp — programs that are broken on purpose: both engines end with the places at which the
// ranks wait for each other.
#include "sim/engine/deadlock.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "sample.h"

using namespace sim;

namespace {

// How a replay ends; "" if it does not end in a deadlock.
std::string ending(const program::Job& job, engine::Method method, bool shortcuts) {
  engine::Options options;
  options.method = method;
  options.shortcuts = shortcuts;
  try {
    engine::run(job, sample::times(job, 4), sample::memory(job), options);
  } catch (const engine::Deadlock& deadlock) {
    CHECK_FALSE(deadlock.waiting().empty());
    return deadlock.what();
  }
  return "";
}

}  // namespace

TEST_CASE("engine: ranks that wait for each other are a typed end with their places") {
  const program::Plan plan = sample::plan(1, 1, 2, 1, 8);
  for (const auto method : {engine::Method::fast, engine::Method::reference})
    for (const bool shortcuts : {true, false}) {
      program::Job job = sample::job(plan);
      CHECK(ending(job, method, shortcuts) == "");
      // Stage 1 sends no gradients any more.
      for (program::Exchange& exchange : job.classes[1].exchanges)
        std::erase_if(exchange.messages, [](const program::Message& one) { return one.send; });
      const std::string text = ending(job, method, shortcuts);
      CAPTURE(text);
      CHECK(text.starts_with("ranks wait for each other: stage 0 (rank class 0) at step 1, "));
      CHECK(text.find("pipeline exchange") != std::string::npos);
    }
}

TEST_CASE("engine: a message that nobody receives is not forgotten at the end") {
  const program::Plan plan = sample::plan(1, 1, 2, 1, 8);
  for (const auto method : {engine::Method::fast, engine::Method::reference}) {
    program::Job job = sample::job(plan);
    for (program::Exchange& exchange : job.classes[0].exchanges)
      std::erase_if(exchange.messages, [](const program::Message& one) { return !one.send; });
    CHECK(ending(job, method, true).starts_with("ranks wait for each other: "));
  }
}
