// evaluate.cpp — from a plan to an answer, on a shipped cluster description.
#include "sim/answer/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "sim/input/plan/plan.h"
#include "sim/output/json.h"
#include "sim/output/perfetto/perfetto.h"
#include "sim/output/perfetto/perfetto.pb.h"
#include "sim/program/parallel/offload/host_memory.h"
#include "sim/study/tune/fixes.h"
#include "tests/answer/reasons.h"

using namespace sim;

namespace {

const input::PlanFile& small_plan() {
  ::setenv("REHEARSE_ROOT", REHEARSE_SOURCE_DIR, 1);
  ::setenv("REHEARSE_NETWORK", REHEARSE_BINARY_DIR "/rehearse-network", 1);
  static const auto plan =
      input::load_plan("", {"model=llama-2-7b", "cluster=abci-a", "gpus=8", "tp=2", "pp=2",
                            "global_batch=8", "sequence=1024"});
  REQUIRE(plan);
  return *plan;
}

answer::Site& site_of(answer::Sites& sites) {
  const auto site = sites.of(small_plan().machine);
  REQUIRE(site);
  return **site;
}

}  // namespace

TEST_CASE("study: the accounts of every rank class sum to the step time to the picosecond") {
  answer::Sites sites;
  const answer::Answer answer =
      answer::evaluate(answer::checked(small_plan().plan, site_of(sites)));
  REQUIRE(answer.run.fits());
  REQUIRE(answer.run.classes.size() == 2);
  for (const engine::ClassReport& who : answer.run.classes) {
    Duration sum{};
    for (const Duration part : who.accounts) sum += part;
    CHECK(sum == answer.run.step_time);
    CHECK(who.peak_allocated <= who.peak_reserved);
    CHECK(who.peak_reserved <= who.capacity);
    std::int64_t held = 0;
    for (const std::int64_t bytes : who.peak_split) held += bytes;
    CHECK(held == who.peak_allocated.n);
  }
}

TEST_CASE("study: the same plan has the same answer every time and from every site") {
  answer::Sites first;
  answer::Sites second;
  const output::Json a =
      output::to_json(answer::evaluate(answer::checked(small_plan().plan, site_of(first))));
  const output::Json b =
      output::to_json(answer::evaluate(answer::checked(small_plan().plan, site_of(first))));
  const output::Json c =
      output::to_json(answer::evaluate(answer::checked(small_plan().plan, site_of(second))));
  CHECK(a.dump() == b.dump());
  CHECK(a.dump() == c.dump());
}

TEST_CASE("study: machines that differ in anything have sites of their own") {
  answer::Sites sites;
  const input::Machine machine = small_plan().machine;
  const answer::Site* own = *sites.of(machine);
  CHECK(*sites.of(machine) == own);
  std::vector<const answer::Site*> all = {own};
  const auto other = [&](const std::function<void(input::Machine&)>& change) {
    input::Machine changed = machine;
    change(changed);
    const answer::Site* site = *sites.of(changed);
    CHECK(*sites.of(changed) == site);
    CHECK(std::ranges::count(all, site) == 0);
    all.push_back(site);
  };
  other([](auto& m) { m.cluster.node.cpu_memory = Bytes{m.cluster.node.cpu_memory.n + 1}; });
  other([](auto& m) { m.cluster.node.host_copy = Bandwidth{1'000'000'000}; });
  other([](auto& m) { m.cluster.node.host.copied /= 2; });
  other([](auto& m) { m.cluster.conditions.push_back({.node = 0, .speed = 0.5}); });
  other([](auto& m) { m.cluster.fabric.oversubscription = 3; });
  other([](auto& m) { m.gpu.memory = Bytes{m.gpu.memory.n - 1}; });
  CHECK(*sites.of(machine) == own);
}

TEST_CASE("study: each collective that nothing hides costs what its ranks come apart") {
  answer::Sites sites;
  answer::Site& site = site_of(sites);
  const Duration before = answer::evaluate(answer::checked(small_plan().plan, site)).run.step_time;
  site.profile.device.overlap.arrival += from_seconds(1e-3);
  const Duration after = answer::evaluate(answer::checked(small_plan().plan, site)).run.step_time;
  // Forward of a layer gathers twice and scatters twice; 16 layers, two microbatches.
  CHECK(seconds(after - before) > 2 * 16 * 4 * 1e-3);
}

TEST_CASE("study: throughput of each convention is its FLOPs over step time and GPUs") {
  answer::Sites sites;
  const answer::Answer answer =
      answer::evaluate(answer::checked(small_plan().plan, site_of(sites)));
  // 8 sequences of 1024 tokens over the step on 8 GPUs.
  CHECK(answer::tokens_per_second_gpu(answer) == Approx(1024 / answer::step_seconds(answer)));
  const double paper = model::flops_paper(small_plan().plan->architecture, 8, 1024, 32000);
  CHECK(answer::rate(answer, "paper").tflops_gpu ==
        Approx(paper / answer::step_seconds(answer) / 8 * 1e-12));
  CHECK(answer.hfu > answer.mfu);  // the head and the recomputed softmax run, too
}

TEST_CASE("study: a site is loaded once and its digest tells machines apart") {
  answer::Sites sites;
  const answer::Site& site = site_of(sites);
  CHECK(&site == &site_of(sites));
  answer::SiteChange faster;
  faster.nics = 8;
  faster.nic = {50'000'000'000};
  const auto changed = sites.find("abci-a", "", faster);
  REQUIRE(changed);
  CHECK((*changed)->digest != site.digest);
  CHECK((*changed)->machine.cluster.node.nics == 8);
  // Eight NICs for eight GPUs: one each.
  CHECK((*changed)->machine.cluster.node.nic_of_gpu == std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7});
}

TEST_CASE("study: masks take a worker as long as their elements and the loaders beside it say") {
  const auto loader = [](std::vector<std::string> more) {
    std::vector<std::string> settings = {
        "model=llama-2-7b",    "cluster=abci-a", "gpus=8",
        "global_batch=16",     "micro_batch=2",  "reset_attention_mask=true",
        "attention_mask=true", "data_workers=3"};
    settings.insert(settings.end(), more.begin(), more.end());
    const auto file = input::load_plan("", settings);
    REQUIRE(file);
    answer::Sites sites;
    answer::Site& site = **sites.of(file->machine);
    REQUIRE(site.machine.cluster.node.gpus == 8);
    device::LoaderProfile& profile = site.profile.device.host.loader;
    profile.mask = Duration{8'000'000'000};
    profile.neighbour = 0.125;
    const program::Job job = answer::job_of(file->plan, site);
    return engine::price(job, site.machine.gpu, site.profile.device, *site.network, site.others)
        .loader;
  };
  // 2^20 mask elements take 8 ms, plus 1 ms per other loader. One GPU of each pair loads data: 3
  // others.
  const engine::LoaderTimes pairs = loader({"sequence=1024", "tp=2", "pp=1"});
  CHECK(pairs.sequence.ps == 11'000'000'000);
  CHECK(pairs.workers == 3);
  CHECK(pairs.sequences == 2);
  CHECK(pairs.microbatches == 2);
  CHECK(pairs.replicas == 4);
  CHECK(pairs.in_flight == 1);
  CHECK(loader({"sequence=2048", "tp=2", "pp=1"}).sequence.ps == 44'000'000'000);
  CHECK(loader({"sequence=1024", "tp=8", "pp=1"}).sequence.ps == 8'000'000'000);
  // The first and the last of four stages load data.
  const engine::LoaderTimes stages = loader({"sequence=1024", "tp=1", "pp=4"});
  CHECK(stages.sequence.ps == 11'000'000'000);
  CHECK(stages.in_flight == 4);
  CHECK(loader({"sequence=1024", "tp=2", "pp=1", "reset_attention_mask=false"}).sequence.ps == 0);
}

TEST_CASE("study: a plan that is larger than its cluster is a problem with both sizes") {
  answer::Sites sites;
  program::Plan plan = small_plan().plan;
  plan.mesh.dp = 1 << 18;
  plan.batch.global_batch = plan.mesh.dp;
  const std::vector<std::string> problems = support::reasons(plan, site_of(sites));
  REQUIRE_FALSE(problems.empty());
  CHECK(problems.back().find("1048576 GPUs are needed and abci-a has ") == 0);
}

TEST_CASE("study: single changes differ in one setting and are possible") {
  answer::Sites sites;
  answer::Site& site = site_of(sites);
  std::set<std::string> texts;
  for (const study::Change& change :
       study::single_changes(answer::checked(small_plan().plan, site))) {
    INFO(change.text);
    CHECK(texts.insert(change.text).second);
    CHECK(support::reasons(change.plan.plan(), site).empty());
    CHECK(change.plan->world() == small_plan().plan->world());
    CHECK(output::to_json(change.plan.plan()) != output::to_json(small_plan().plan));
  }
  CHECK(texts.count("tp=4") == 1);
  CHECK(texts.count("recompute=full") == 1);
  CHECK(texts.count("micro_batch=0") == 0);  // there is nothing to halve
}

TEST_CASE("study: a change is what its text makes of the plan on the command line") {
  answer::Sites sites;
  answer::Site& site = site_of(sites);
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{}, {"pp=1", "tp=1"}, {"pp=1", "zero=2"}}) {
    std::vector<std::string> words = {
        "model=llama-2-7b", "cluster=abci-a",  "gpus=8",       "tp=2", "pp=2",
        "micro_batch=2",    "global_batch=16", "sequence=1024"};
    words.insert(words.end(), more.begin(), more.end());
    const auto plan = input::load_plan("", words);
    REQUIRE(plan);
    std::set<std::string> texts;
    for (const study::Change& change : study::single_changes(answer::checked(plan->plan, site))) {
      INFO(change.text);
      texts.insert(change.text);
      std::vector<std::string> changed = words;
      std::istringstream settings(change.text);
      for (std::string word; settings >> word;) changed.push_back(word);
      // The number of replicas follows from the GPUs again.
      const auto read = input::load_plan("", changed);
      REQUIRE(read);
      CHECK(output::to_json(read->plan) == output::to_json(change.plan.plan()));
    }
    CHECK(texts.count("first_stage_layers=15") ==
          (plan->plan->mesh.pp == 2));  // 16 and 16: 15 and 17
    CHECK(texts.count("zero=3") == !plan->plan->shards_parameters());
    CHECK(texts.count("fsdp.reshard_after_forward=true") == plan->plan->shards_parameters());
  }
}

TEST_CASE("study: the single changes of a plan, in order") {
  small_plan();
  answer::Sites sites;
  const auto texts = [&](std::vector<std::string> settings) {
    const auto file = input::load_plan("", settings);
    REQUIRE(file);
    const auto site = sites.of(file->machine);
    REQUIRE(site);
    std::vector<std::string> all;
    for (const study::Change& change : study::single_changes(answer::checked(file->plan, **site)))
      all.push_back(change.text);
    return all;
  };
  const std::string expandable = "allocator_options=expandable_segments:True";
  const std::string block = "recompute=full recompute_method=block recompute_layers=";
  using Texts = std::vector<std::string>;
  CHECK(texts({"model=llama-2-7b", "cluster=abci-a", "gpus=8", "pp=4", "micro_batch=4",
               "global_batch=32", "sequence=4096", "zero=0"}) ==
        Texts{"avoid_record_streams=true", expandable, "attention_mask=false", "cross_entropy=te",
              "distributed_optimizer=true", "micro_batch=2", "micro_batch=1", block + "8",
              "recompute=full", "first_stage_layers=5", "last_stage_layers=5", "zero=2", "zero=3",
              "tp=2", "cp=2", "pp=8"});
  // There are no replicas to trade for other degrees. Chunks have 8 layers; an end stage may give
  // one of its layers to a chunk of the other.
  CHECK(texts({"model=llama-2-7b", "cluster=abci-a", "gpus=8", "pp=2", "tp=4", "virtual_stages=2",
               "schedule=interleaved-1f1b", "global_batch=32", "sequence=4096", "attention=unfused",
               "sequence_parallel=false", "avoid_record_streams=true"}) ==
        Texts{expandable, "cross_entropy=te", "sequence_parallel=true", "attention=flash",
              "recompute=selective", block + "8", "recompute=full", "first_stage_layers=14",
              "last_stage_layers=14", "virtual_stages=1 schedule=1f1b"});
  CHECK(texts({"model=llama-2-7b", "cluster=abci-a", "gpus=8", "zero=2", "global_batch=8",
               "sequence=4096", "recompute=full"}) ==
        Texts{"avoid_record_streams=true", expandable, "cross_entropy=one_kernel",
              "fsdp.reshard_after_forward=true", "tp=2", "cp=2", "pp=2"});
  // With two layers per stage an end stage cannot give one layer to each of fifteen others. Nor can
  // it with four layers and three others.
  CHECK(texts({"model=llama-2-7b", "cluster=abci-a", "gpus=16", "pp=16", "schedule=zb-h1",
               "global_batch=32", "sequence=4096"}) ==
        Texts{"avoid_record_streams=true", expandable, "attention_mask=false", "cross_entropy=te",
              block + "2", "recompute=full", "schedule=1f1b"});
  CHECK(texts({"model=llama-2-7b", "architecture.layers=16", "cluster=abci-a", "gpus=4", "pp=4",
               "global_batch=32", "sequence=4096", "avoid_record_streams=true", expandable}) ==
        Texts{"attention_mask=false", "cross_entropy=te", block + "4", "recompute=full",
              "first_stage_layers=1", "last_stage_layers=1"});
}

TEST_CASE("study: state that is too large for a GPU fits in shards or behind a smaller stage") {
  answer::Sites sites;
  answer::Site& site = site_of(sites);
  // 6.7e9 parameters in bf16 with fp32 gradients take 37.7 GiB, more than an A100-40GB has free.
  const auto plan = input::load_plan(
      "", {"model=llama-2-7b", "cluster=abci-a", "gpus=8", "global_batch=8", "sequence=1024"});
  REQUIRE(plan);
  REQUIRE_FALSE(answer::evaluate(answer::checked(plan->plan, site)).run.fits());
  bool zero = false;
  for (const study::Fix& fix : study::find_fixes(answer::checked(plan->plan, site), false).fixes)
    if (fix.change == "zero=3") zero = fix.answer.run.fits();
  CHECK(zero);
}

TEST_CASE("study: a plan that does not fit is given the fewest recomputed layers that fit") {
  answer::Sites sites;
  answer::Site& site = site_of(sites);
  program::Plan plan = small_plan().plan;
  plan.batch.micro_batch = 8;  // of one replica: too much for 40 GB
  plan.batch.global_batch = 16;
  plan.batch.sequence = 2048;
  const answer::Answer answer = answer::evaluate(answer::checked(plan, site));
  REQUIRE_FALSE(answer.run.fits());
  const study::Fixes fixes = study::find_fixes(answer::checked(plan, site), true);
  CHECK_FALSE(fixes.pairs);
  bool found = false;
  for (const study::Fix& fix : fixes.fixes) {
    if (!fix.answer.run.fits()) continue;
    INFO(fix.change);
    CHECK(answer::peak_reserved(fix.answer.run) <= answer::fullest(fix.answer.run).capacity);
    program::Plan one_less = fix.answer.plan;
    if (one_less.policy.recompute_method != program::RecomputeMethod::block) continue;
    found = true;
    one_less.policy.recompute_layers -= 1;
    CHECK_FALSE(answer::evaluate(answer::checked(one_less, site)).run.fits());
  }
  CHECK(found);
}

TEST_CASE("study: where no single change is enough two are offered") {
  answer::Sites sites;
  answer::Site& site = site_of(sites);
  program::Plan plan = small_plan().plan;
  plan.batch.micro_batch = 4;
  plan.batch.global_batch = 16;
  plan.batch.sequence = 16384;
  const study::Fixes fixes = study::find_fixes(answer::checked(plan, site), true);
  REQUIRE(fixes.pairs);
  for (const study::Fix& fix : fixes.fixes) {
    CHECK(fix.change.find(' ') != std::string::npos);
    CHECK(fix.answer.run.fits());
  }
}

TEST_CASE("study: in a trace of a replay the slices of a track never overlap") {
  namespace pf = rehearse::perfetto;
  answer::Sites sites;
  const std::string path = std::string(REHEARSE_BINARY_DIR) + "/evaluate.pftrace";
  output::PerfettoTrace writer({"stage 0", "stage 1"});
  REQUIRE(writer.open(path).empty());
  engine::Options options;
  options.observer = &writer;
  const answer::Answer watched =
      answer::evaluate(answer::checked(small_plan().plan, site_of(sites)), options);
  REQUIRE(writer.close().empty());
  CHECK(watched.run.step_time ==
        answer::evaluate(answer::checked(small_plan().plan, site_of(sites))).run.step_time);

  std::ifstream in(path, std::ios::binary);
  pf::Trace trace;
  REQUIRE(trace.ParseFromIstream(&in));
  std::map<std::uint64_t, std::uint64_t> last;  // track -> end of its last slice
  std::map<std::uint64_t, std::int64_t> open;
  std::size_t slices = 0;
  std::size_t counters = 0;
  for (const pf::TracePacket& packet : trace.packet()) {
    if (!packet.has_track_event()) continue;
    const auto& event = packet.track_event();
    // The events of a packet sequence belong to one track, with the sequence's number.
    const std::uint64_t track = packet.trusted_packet_sequence_id();
    if (event.type() == pf::TrackEvent::TYPE_COUNTER) {
      ++counters;
      REQUIRE(event.counter_value() >= 0);
      continue;
    }
    REQUIRE(packet.timestamp() >= last[track]);
    last[track] = packet.timestamp();
    const bool begins = event.type() == pf::TrackEvent::TYPE_SLICE_BEGIN;
    open[track] += begins ? 1 : -1;
    REQUIRE((open[track] == 0 || open[track] == 1));
    slices += begins ? 1 : 0;
  }
  CHECK(slices > 1000);
  CHECK(counters > 1000);
  CHECK(last.size() >= 4);  // compute and communication of two stages
}

TEST_CASE("study: why a plan cannot run is said, and host memory once the rest is right") {
  small_plan();
  const auto file = input::load_plan(
      "", {"model=llama-2-7b", "cluster=dgx-h100", "gpus=16", "global_batch=16", "sequence=1024",
           "optimizer_cpu_offload=true", "precision_aware_optimizer=true"});
  REQUIRE(file);
  const auto problems_on = [&](int nodes, std::int64_t gib) {
    input::Machine machine = file->machine;
    machine.cluster.nodes = nodes;
    machine.cluster.node.cpu_memory = Bytes{gib << 30};
    answer::Sites sites;
    const auto site = sites.of(machine);
    REQUIRE(site);
    return support::reasons(file->plan, **site);
  };
  CHECK(problems_on(2, 2048).empty());
  const std::vector<std::string> host = problems_on(2, 16);
  REQUIRE(host.size() == 1);
  CHECK(host[0].find("8 ranks offload") == 0);
  CHECK(host[0].find("which have 16.0") != std::string::npos);
  const std::vector<std::string> few = problems_on(1, 16);
  REQUIRE(few.size() == 1);
  CHECK(few[0].find("16 GPUs are needed") == 0);
}

TEST_CASE("study: saved tensors that wait on the CPUs count against their memory") {
  const auto file = input::load_plan(
      "", {"model=llama-2-7b", "cluster=dgx-h100", "gpus=16", "pp=2", "global_batch=64",
           "sequence=1024", "offload_modules=core_attn,attn_proj"});
  REQUIRE(file);
  const auto site_with = [&](answer::Sites& sites, std::int64_t bytes) {
    input::Machine machine = file->machine;
    machine.cluster.node.cpu_memory = Bytes{bytes};
    const auto site = sites.of(machine);
    REQUIRE(site);
    return *site;
  };
  answer::Sites sites;
  answer::Site* wide = site_with(sites, std::int64_t{1} << 40);
  REQUIRE(support::reasons(file->plan, *wide).empty());
  const answer::Answer answer = answer::evaluate(answer::checked(file->plan, *wide));
  // The eight ranks of a node are of one stage; the first has two microbatches under way.
  const program::Job job = answer::job_of(file->plan, *wide);
  CHECK(answer.host.activations.n == 8 * program::host_activations(job.classes.front()));
  CHECK(answer.host.activations.n > 0);
  CHECK(answer.host.optimizer.n == 0);
  answer::Sites enough, little;
  CHECK(support::reasons(file->plan, *site_with(enough, answer.host.activations.n)).empty());
  const auto full = support::reasons(file->plan, *site_with(little, answer.host.activations.n - 1));
  REQUIRE(full.size() == 1);
  CHECK(full[0].find("ranks leave ") == 0);
  CHECK(full[0].find("offload fewer modules") != std::string::npos);
}

TEST_CASE("study: what is advised where the CPUs' memory is full runs") {
  small_plan();
  const auto full = [](std::vector<std::string> settings, std::int64_t gib) {
    settings.insert(settings.end(),
                    {"model=llama-2-7b", "cluster=dgx-h100", "gpus=16", "global_batch=16",
                     "sequence=1024", fmt::format("node.cpu_memory={}GiB", gib)});
    const auto file = input::load_plan("", settings);
    REQUIRE(file);
    answer::Sites sites;
    const auto site = sites.of(file->machine);
    REQUIRE(site);
    const std::vector<std::string> found = support::reasons(file->plan, **site);
    return found.empty() ? std::string() : found.front();
  };
  const std::vector<std::vector<std::string>> ways = {
      {"precision_aware_optimizer=true"},
      {"deepspeed_optimizer=true", "overlap_grad_reduce=false", "overlap_param_gather=false",
       "fp32_gradients=false", "gradient_accumulation_fusion=false"}};
  for (const std::vector<std::string>& way : ways)
    for (const int gib : {1, 16, 40}) {
      std::vector<std::string> settings = way;
      settings.emplace_back("optimizer_cpu_offload=true");
      const std::string said = full(settings, gib);
      INFO(said);
      const std::string fraction = "write optimizer_offload_fraction ";
      const std::string off = "write optimizer_cpu_offload=false";
      const std::size_t at = said.find(fraction);
      if (at != std::string::npos) {
        settings.push_back("optimizer_offload_fraction=" + said.substr(at + fraction.size(), 4));
      } else {
        REQUIRE(said.find(off) != std::string::npos);
        settings.back() = "optimizer_cpu_offload=false";
      }
      CHECK(full(settings, gib).empty());
    }
}
