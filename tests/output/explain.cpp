// explain.cpp — the report of `explain`: every byte of the GPU, by tensor, and whether
// fragmentation caused the failure.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "sim/output/documents/explain_document.h"
#include "tests/engine/sample.h"

using namespace sim;

namespace {

struct Explained {
  answer::Answer answer;
  output::PeakTensors tensors;

  Explained(const program::Plan& plan, Bytes memory) {
    const program::Job job = sample::job(plan);
    engine::Options options;
    options.observer = &tensors;
    const engine::Memory device = sample::memory(job, memory);
    answer.run = engine::run(job, sample::times(job), device, options);
    answer.plan = plan;
    answer.machine = {"toy", "toy GPU", 8, memory, 1e12};
    answer.rates = {{"paper", "", 1}, {"megatron", "", 1}};
  }
};

std::int64_t sum(const std::vector<output::HeldTensors>& tensors) {
  std::int64_t bytes = 0;
  for (const output::HeldTensors& held : tensors) bytes += held.bytes.n;
  return bytes;
}

constexpr Bytes plenty{std::int64_t{64} << 30};

}  // namespace

TEST_CASE("output: the tensors at the peak add up to what is allocated there") {
  const Explained fits(sample::plan(1, 2, 2, 1, 4), plenty);
  for (std::size_t c = 0; c < fits.answer.run.classes.size(); ++c) {
    CAPTURE(c);
    const engine::ClassReport& who = fits.answer.run.classes[c];
    const auto tensors = fits.tensors.of(c);
    CHECK(sum(tensors) == who.peak_allocated.n);
    engine::Split split{};
    for (const auto& held : tensors) {
      CHECK(held.count > 0);
      split[static_cast<std::size_t>(held.category)] += held.bytes.n;
    }
    CHECK(split == who.peak_split);
  }
}

TEST_CASE("output: the tensors of a rank that runs out are those of that moment") {
  const Explained fits(sample::plan(1, 1, 1, 1, 4), plenty);
  const Bytes tight{fits.answer.run.classes[0].peak_reserved.n * 3 / 4};
  const Explained fails(sample::plan(1, 1, 1, 1, 4), tight);
  REQUIRE(!fails.answer.run.fits());
  CHECK(sum(fails.tensors.of(0)) == fails.answer.run.classes[0].out_of_memory->allocated.n);
  const std::string text = output::text(output::explain_document(fails.answer, fails.tensors));
  for (const char* part : {"out of memory on stage 0", "free on the device", "what holds it",
                           "fragmentation: asked for", "where the peak is", "gradient buffer"}) {
    INFO(part);
    CHECK(text.find(part) != std::string::npos);
  }
  const output::Json json = result(output::explain_document(fails.answer, fails.tensors));
  CHECK(json["nearest_to_its_limit"] == 0);
  CHECK(json["rank_classes"][0]["tensors_held"].size() > 5);
}

TEST_CASE("output: of a plan that fits explain says the headroom") {
  const Explained fits(sample::plan(1, 1, 2, 1, 4), plenty);
  const std::string text = output::text(output::explain_document(fits.answer, fits.tensors));
  CHECK(text.find("headroom: stage ") != std::string::npos);
  CHECK(text.find("fragmentation") == std::string::npos);
}

TEST_CASE("output: free bytes at the failing request are those of its own pool and stream") {
  // All reserved but unallocated memory lies in one of the three kinds of free block.
  const Explained fits(sample::plan(1, 2, 1, 1, 4), plenty);
  const Bytes tight{fits.answer.run.classes[0].peak_reserved.n * 9 / 10};
  const Explained fails(sample::plan(1, 2, 1, 1, 4), tight);
  REQUIRE(!fails.answer.run.fits());
  const engine::OutOfMemory& event =
      *fails.answer.run.classes[fails.answer.run.out_of_memory.front()].out_of_memory;
  CHECK(event.cached + event.cached_elsewhere + event.pending == event.reserved - event.allocated);
  CHECK(event.largest_free_block <= event.cached);
  CHECK(event.largest_free_block < event.requested);
}

TEST_CASE("output: of ranks as near to their limit as each other the first is explained") {
  Explained two(sample::plan(1, 1, 2, 1, 4), plenty);
  REQUIRE(two.answer.run.classes.size() == 2);
  engine::ClassReport &first = two.answer.run.classes[0], &second = two.answer.run.classes[1];
  second.stage = first.stage;
  second.capacity = first.capacity;
  second.peak_reserved = first.peak_reserved;
  const auto nearest = [&] {
    return result(output::explain_document(two.answer, two.tensors))["nearest_to_its_limit"];
  };
  const auto peaks = [&] {
    const std::string text = output::text(output::explain_document(two.answer, two.tensors));
    return text.find(second.peak_place.label) != std::string::npos;
  };
  second.peak_place.label = "the second's place";
  CHECK(nearest() == 0);
  CHECK_FALSE(peaks());
  ++second.peak_reserved.n;
  CHECK(nearest() == 1);
  CHECK(peaks());
  second.peak_reserved.n -= 2;
  CHECK(nearest() == 0);
  // A plan that runs out of memory is nearer than one that fits. Of two that run out, the one that
  // fails earlier is nearer.
  const Explained fails(sample::plan(1, 1, 1, 1, 4),
                        Bytes{two.answer.run.classes[0].peak_reserved.n / 2});
  REQUIRE(!fails.answer.run.fits());
  second.out_of_memory = fails.answer.run.classes[0].out_of_memory;
  CHECK(peaks());
  first.out_of_memory = second.out_of_memory;
  CHECK_FALSE(peaks());
  first.out_of_memory->when = first.out_of_memory->when + Duration{1};
  CHECK(peaks());
}
