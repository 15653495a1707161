#include "sim/allocator/free_blocks/free_bins.h"

#include <set>
#include <tuple>

#include "support.h"

using namespace sim::allocator;

namespace {

using Key = std::tuple<std::int64_t, std::int64_t, int>;  // size, address, block

template <class List>
std::vector<Key> entries(const List& list) {
  std::vector<Key> all;
  for (auto p = list.first(); p.group >= 0; p = list.next(p)) {
    all.emplace_back(list.size_at(p), 0, static_cast<int>(list.block(p)));
  }
  return all;
}

// Draws insertions, removals, moves and questions, and asks a set too.
template <class List>
void agrees_with_a_set() {
  std::uint64_t seed = 1;
  const auto below = [&](std::int64_t n) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::int64_t>((seed >> 33) % static_cast<std::uint64_t>(n));
  };
  // Few sizes make long runs of equal ones, many sizes make moves across chunks.
  // Sizes of tebibytes are those of a step that goes on after it ran out of memory.
  for (const std::int64_t sizes :
       {std::int64_t{3}, std::int64_t{50}, std::int64_t{100'000}, std::int64_t{1} << 40}) {
    List list;
    std::set<Key> model;
    std::vector<Key> keys;
    for (int step = 0; step < 30'000; ++step) {
      const Key fresh{512 * (1 + below(sizes)), 512 * below(1 << 20), step};
      const bool grow = static_cast<int>(keys.size()) < (step / 10'000 == 1 ? 1000 : 40);
      const bool known = std::any_of(keys.begin(), keys.end(), [&](const Key& k) {
        return std::get<0>(k) == std::get<0>(fresh) && std::get<1>(k) == std::get<1>(fresh);
      });
      const auto [size, address, block] = fresh;
      if (!known && (keys.empty() || (grow && below(3) > 0))) {
        list.insert(size, address, static_cast<BlockId>(block));
        model.insert(fresh);
        keys.push_back(fresh);
      } else if (!keys.empty()) {
        const auto i = static_cast<std::size_t>(below(static_cast<std::int64_t>(keys.size())));
        const auto p = list.find(std::get<0>(keys[i]), std::get<1>(keys[i]));
        REQUIRE(static_cast<int>(list.block(p)) == std::get<2>(keys[i]));
        model.erase(keys[i]);
        if (!known && below(2) == 0) {
          list.move(p, size, address, static_cast<BlockId>(block));
          model.insert(fresh);
          keys[i] = fresh;
        } else {
          list.erase(p);
          keys[i] = keys.back();
          keys.pop_back();
        }
      }
      const std::int64_t want = 512 * below(sizes + 2);
      const auto fit = list.first_fit(want);
      const auto expected = model.lower_bound(Key{want, INT64_MIN, 0});
      REQUIRE((fit.group < 0) == (expected == model.end()));
      if (expected != model.end()) {
        REQUIRE(static_cast<int>(list.block(fit)) == std::get<2>(*expected));
      }
      REQUIRE(list.size() == static_cast<int>(model.size()));
      if (step % 500 != 0) continue;
      std::vector<Key> wanted;
      for (const auto& [s, a, b] : model) wanted.emplace_back(s, 0, b);
      REQUIRE(entries(list) == wanted);
      if (!model.empty()) {
        REQUIRE(list.largest_size() == std::get<0>(*model.rbegin()));
      }
    }
  }
}

}  // namespace

TEST_CASE("allocator: the free list agrees with an ordered set") {
  agrees_with_a_set<FreeBins>();
}

TEST_CASE("allocator: free blocks of thousands of sizes agree with an ordered set") {
  FreeBins list;
  std::set<Key> model;
  std::uint64_t seed = 7;
  for (int i = 0; i < 6000; ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    const std::int64_t size = 512 * (1 + static_cast<std::int64_t>(seed >> 40));
    list.insert(size, 512 * i, static_cast<BlockId>(i));
    model.insert({size, 512 * i, i});
    if (i != 4000 && i != 4200 && i != 5999) continue;
    std::vector<Key> wanted;
    for (const auto& [s, a, b] : model) wanted.emplace_back(s, 0, b);
    REQUIRE(entries(list) == wanted);
    REQUIRE(list.largest_size() == std::get<0>(*model.rbegin()));
    for (const auto& [s, a, b] : model) REQUIRE(static_cast<int>(list.block(list.find(s, a))) == b);
  }
}
