// verdict.cpp — the confidence of an outcome at capacities around what a plan needs.
#include "sim/answer/verdict.h"

#include <catch2/catch.hpp>
#include <cstdlib>

#include "sim/answer/evaluate.h"
#include "sim/input/plan/plan.h"

using namespace sim;

namespace {

constexpr std::int64_t mib = 1 << 20;

// llama-2-7b on 8 A100s. The GPU has `spare` bytes more than the plan reserves. The unexplained
// memory is uncertain by 512 MiB either way.
struct Case {
  Case() {
    site = *sites.of(file.machine);
    site->profile.device.memory.unexplained = {1024 * mib};
    site->profile.device.memory.unexplained_least = {512 * mib};
    site->profile.device.memory.unexplained_most = {1536 * mib};
    const engine::RunReport run = answer::evaluate(answer::checked(file.plan, *site)).run;
    const engine::ClassReport& who = answer::fullest(run);
    slack = who.capacity.n - who.peak_reserved.n;
    reserved = who.peak_reserved.n;
    memory = site->machine.gpu.memory.n;
  }
  answer::Answer with_spare(std::int64_t spare) {
    site->machine.gpu.memory = {memory - slack + spare};
    return answer::evaluate(answer::checked(file.plan, *site));
  }

  static Result<input::PlanFile> loaded() {
    ::setenv("REHEARSE_ROOT", REHEARSE_SOURCE_DIR, 1);
    ::setenv("REHEARSE_NETWORK", REHEARSE_BINARY_DIR "/rehearse-network", 1);
    return input::load_plan("", {"model=llama-2-7b", "cluster=abci-a", "gpus=8", "tp=2", "pp=2",
                                 "global_batch=8", "sequence=1024"});
  }

  input::PlanFile file = *loaded();
  answer::Sites sites;
  answer::Site* site = nullptr;
  std::int64_t slack = 0, memory = 0, reserved = 0;
};

}  // namespace

TEST_CASE("answer: an outcome is certain where the range of unexplained memory cannot change it") {
  Case run;
  const answer::Answer roomy = run.with_spare(run.reserved / 10);
  REQUIRE(roomy.run.fits());
  CHECK_FALSE(roomy.verdict.tight);
  CHECK(roomy.verdict.fits_probability == 1);
  const answer::Answer hopeless = run.with_spare(-run.reserved / 2);
  REQUIRE_FALSE(hopeless.run.fits());
  CHECK_FALSE(hopeless.verdict.tight);
  CHECK(hopeless.verdict.fits_probability == 0);
}

TEST_CASE("answer: little memory that stays unreserved makes an outcome tight") {
  Case run;
  // Less than 2 % of the memory is free, and less than the uncertainty.
  const answer::Answer barely = run.with_spare(run.reserved / 200);
  REQUIRE(barely.run.fits());
  CHECK(barely.verdict.tight);
  CHECK_FALSE(barely.verdict.hangs_on.empty());
  CHECK(barely.verdict.fits_probability > 0);
  CHECK(barely.verdict.fits_probability <= 1);
}

TEST_CASE("answer: the probability falls as the capacity falls, from one to nothing") {
  Case run;
  double last = 1;
  bool both = false;  // the range decided at least once
  for (std::int64_t spare = 1024 * mib; spare > -6 * 1024 * mib; spare -= 256 * mib) {
    const answer::Answer answer = run.with_spare(spare);
    const double fits = answer.verdict.fits_probability;
    CAPTURE(spare, answer.run.fits());
    CHECK((answer.run.fits() ? fits >= 0.5 : fits <= 0.5));
    // Allocator retries change the outcome at single capacities; so the probability of fitting may
    // rise again by up to a half.
    CHECK(fits <= last + 0.5);
    both = both || (fits > 0 && fits < 1);
    last = fits;
  }
  CHECK(last == 0);
  CHECK(both);
}
