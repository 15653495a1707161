// The clock and the agenda: order of events, and that nothing is lost.
#include "sim/base/event_queue.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "sim/base/random.h"

using namespace sim;

TEST_CASE("base: events fire in order of time") {
  EventQueue<int> queue;
  queue.schedule(Time{30}, 0, 3);
  queue.schedule(Time{10}, 0, 1);
  queue.schedule(Time{20}, 0, 2);
  CHECK(queue.now() == Time{0});
  for (const int expected : {1, 2, 3}) {
    CHECK(queue.pop() == expected);
    CHECK(queue.now() == Time{10 * expected});
  }
  CHECK(queue.empty());
}

TEST_CASE("base: at one instant lower kinds fire first, then what was scheduled first") {
  EventQueue<int> queue;
  queue.schedule(Time{5}, 2, 20);
  queue.schedule(Time{5}, 1, 10);
  queue.schedule(Time{5}, 2, 21);
  queue.schedule(Time{5}, 0, 0);
  queue.schedule(Time{5}, 1, 11);
  std::vector<int> order;
  while (!queue.empty()) order.push_back(queue.pop());
  CHECK(order == std::vector<int>{0, 10, 11, 20, 21});
}

TEST_CASE("base: an event may schedule another at the same instant, and it fires") {
  EventQueue<int> queue;
  queue.schedule(Time{7}, 1, 1);
  CHECK(queue.pop() == 1);
  queue.schedule(queue.now(), 0, 2);
  CHECK(queue.pop() == 2);
  CHECK(queue.now() == Time{7});
}

TEST_CASE("base: the queue sorts as a stable sort by time and kind does") {
  struct Event {
    std::int64_t when;
    std::uint8_t kind;
    int number;
  };
  Random random(1);
  for (int size = 1; size <= 64; ++size) {
    std::vector<Event> events;
    EventQueue<int> queue;
    for (int i = 0; i < size; ++i) {
      events.push_back({static_cast<std::int64_t>(random.next() % 8),
                        static_cast<std::uint8_t>(random.next() % 3), i});
      queue.schedule(Time{events.back().when}, events.back().kind, i);
    }
    std::ranges::stable_sort(events, [](const Event& a, const Event& b) {
      return a.when != b.when ? a.when < b.when : a.kind < b.kind;
    });
    for (const Event& event : events) REQUIRE(queue.pop() == event.number);
    REQUIRE(queue.empty());
  }
}
