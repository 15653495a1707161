// evaluate.cpp — the whole way from a plan to an answer, on a real cluster description.
#include "sim/search/evaluate.h"

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

#include "sim/config/plan.h"
#include "sim/report/json.h"
#include "sim/report/perfetto.h"
#include "sim/report/perfetto.pb.h"
#include "sim/search/fixes.h"
#include "sim/workload/host_memory.h"

using namespace sim;

namespace {

const config::PlanFile& small_plan() {
  ::setenv("REHEARSE_ROOT", REHEARSE_SOURCE_DIR, 1);
  ::setenv("REHEARSE_NETWORK", REHEARSE_BINARY_DIR "/rehearse-network", 1);
  static const auto plan =
      config::load_plan("", {"model=llama-2-7b", "cluster=abci-a", "gpus=8", "tp=2", "pp=2",
                             "global_batch=8", "sequence=1024"});
  REQUIRE(plan);
  return *plan;
}

search::Site& site_of(search::Sites& sites) {
  const auto site = sites.of(small_plan().machine);
  REQUIRE(site);
  return **site;
}

}  // namespace

TEST_CASE("search: the accounts of every rank class sum to the step time to the picosecond") {
  search::Sites sites;
  const report::Answer answer = search::evaluate(small_plan().plan, site_of(sites));
  REQUIRE(answer.run.fits());
  REQUIRE(answer.run.classes.size() == 2);
  for (const replay::ClassReport& who : answer.run.classes) {
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

TEST_CASE("search: the same plan has the same answer every time and from every site") {
  search::Sites first;
  search::Sites second;
  const report::Json a = report::to_json(search::evaluate(small_plan().plan, site_of(first)));
  const report::Json b = report::to_json(search::evaluate(small_plan().plan, site_of(first)));
  const report::Json c = report::to_json(search::evaluate(small_plan().plan, site_of(second)));
  CHECK(a.dump() == b.dump());
  CHECK(a.dump() == c.dump());
}

TEST_CASE("search: machines that differ in anything have sites of their own") {
  search::Sites sites;
  const config::Machine machine = small_plan().machine;
  const search::Site* own = *sites.of(machine);
  CHECK(*sites.of(machine) == own);
  std::vector<const search::Site*> all = {own};
  const auto other = [&](const std::function<void(config::Machine&)>& change) {
    config::Machine changed = machine;
    change(changed);
    const search::Site* site = *sites.of(changed);
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

TEST_CASE("search: each collective that nothing hides costs what its ranks come apart") {
  search::Sites sites;
  search::Site& site = site_of(sites);
  const Duration before = search::evaluate(small_plan().plan, site).run.step_time;
  site.profile.device.overlap.arrival += from_seconds(1e-3);
  const Duration after = search::evaluate(small_plan().plan, site).run.step_time;
  // Forward of a layer gathers twice and scatters twice; 16 layers, two microbatches.
  CHECK(seconds(after - before) > 2 * 16 * 4 * 1e-3);
}

TEST_CASE("search: throughput of each convention is its FLOPs over step time and GPUs") {
  search::Sites sites;
  const report::Answer answer = search::evaluate(small_plan().plan, site_of(sites));
  // 8 sequences of 1024 tokens over the step on 8 GPUs.
  CHECK(report::tokens_per_second_gpu(answer) == Approx(1024 / report::step_seconds(answer)));
  const double paper = model::flops_paper(small_plan().plan.architecture, 8, 1024, 32000);
  CHECK(report::rate(answer, "paper").tflops_gpu ==
        Approx(paper / report::step_seconds(answer) / 8 * 1e-12));
  CHECK(answer.hfu > answer.mfu);  // the head and the recomputed softmax run, too
}

TEST_CASE("search: a site is loaded once and its digest tells machines apart") {
  search::Sites sites;
  const search::Site& site = site_of(sites);
  CHECK(&site == &site_of(sites));
  search::SiteChange faster;
  faster.nics = 8;
  faster.nic = {50'000'000'000};
  const auto changed = sites.find("abci-a", "", faster);
  REQUIRE(changed);
  CHECK((*changed)->digest != site.digest);
  CHECK((*changed)->machine.cluster.node.nics == 8);
  // Eight NICs for eight GPUs: one each.
  CHECK((*changed)->machine.cluster.node.nic_of_gpu == std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7});
}

TEST_CASE("search: masks take a worker as long as their elements and the loaders beside it say") {
  const auto loader = [](std::vector<std::string> more) {
    std::vector<std::string> settings = {
        "model=llama-2-7b",    "cluster=abci-a", "gpus=8",
        "global_batch=16",     "micro_batch=2",  "reset_attention_mask=true",
        "attention_mask=true", "data_workers=3"};
    settings.insert(settings.end(), more.begin(), more.end());
    const auto file = config::load_plan("", settings);
    REQUIRE(file);
    search::Sites sites;
    search::Site& site = **sites.of(file->machine);
    REQUIRE(site.machine.cluster.node.gpus == 8);
    device::LoaderProfile& profile = site.profile.device.host.loader;
    profile.mask = Duration{8'000'000'000};
    profile.neighbour = 0.125;
    const workload::Job job = search::job_of(file->plan, site);
    return replay::price(job, site.machine.gpu, site.profile.device, *site.network, site.others)
        .loader;
  };
  // 8 ms for 2^20 elements; a GPU of each pair loads data: 3 others.
  const replay::LoaderTimes pairs = loader({"sequence=1024", "tp=2", "pp=1"});
  CHECK(pairs.sequence.ps == 11'000'000'000);
  CHECK(pairs.workers == 3);
  CHECK(pairs.sequences == 2);
  CHECK(pairs.microbatches == 2);
  CHECK(pairs.replicas == 4);
  CHECK(pairs.in_flight == 1);
  CHECK(loader({"sequence=2048", "tp=2", "pp=1"}).sequence.ps == 44'000'000'000);
  CHECK(loader({"sequence=1024", "tp=8", "pp=1"}).sequence.ps == 8'000'000'000);
  // Of four stages the first and the last.
  const replay::LoaderTimes stages = loader({"sequence=1024", "tp=1", "pp=4"});
  CHECK(stages.sequence.ps == 11'000'000'000);
  CHECK(stages.in_flight == 4);
  CHECK(loader({"sequence=1024", "tp=2", "pp=1", "reset_attention_mask=false"}).sequence.ps == 0);
}

TEST_CASE("search: a plan that is larger than its cluster is a problem with both sizes") {
  search::Sites sites;
  workload::Plan plan = small_plan().plan;
  plan.mesh.dp = 1 << 20;
  plan.batch.global_batch = plan.mesh.dp;
  const std::vector<std::string> problems = search::problems(plan, site_of(sites));
  REQUIRE_FALSE(problems.empty());
  CHECK(problems.back().find("4194304 GPUs are needed and abci-a has ") == 0);
}

TEST_CASE("search: single changes differ in one setting and are possible") {
  search::Sites sites;
  search::Site& site = site_of(sites);
  std::set<std::string> texts;
  for (const search::Change& change : search::single_changes(small_plan().plan, site)) {
    INFO(change.text);
    CHECK(texts.insert(change.text).second);
    CHECK(search::problems(change.plan, site).empty());
    CHECK(change.plan.world() == small_plan().plan.world());
    CHECK(report::to_json(change.plan) != report::to_json(small_plan().plan));
  }
  CHECK(texts.count("tp=4") == 1);
  CHECK(texts.count("recompute=full") == 1);
  CHECK(texts.count("micro_batch=0") == 0);  // there is nothing to halve
}

TEST_CASE("search: a change is what its text makes of the plan on the command line") {
  search::Sites sites;
  search::Site& site = site_of(sites);
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{}, {"pp=1", "tp=1"}, {"pp=1", "zero=2"}}) {
    std::vector<std::string> words = {
        "model=llama-2-7b", "cluster=abci-a",  "gpus=8",       "tp=2", "pp=2",
        "micro_batch=2",    "global_batch=16", "sequence=1024"};
    words.insert(words.end(), more.begin(), more.end());
    const auto plan = config::load_plan("", words);
    REQUIRE(plan);
    std::set<std::string> texts;
    for (const search::Change& change : search::single_changes(plan->plan, site)) {
      INFO(change.text);
      texts.insert(change.text);
      std::vector<std::string> changed = words;
      std::istringstream settings(change.text);
      for (std::string word; settings >> word;) changed.push_back(word);
      // Replicas fill the world again.
      const auto read = config::load_plan("", changed);
      REQUIRE(read);
      CHECK(report::to_json(read->plan) == report::to_json(change.plan));
    }
    CHECK(texts.count("first_stage_layers=15") ==
          (plan->plan.mesh.pp == 2));  // 16 and 16: 15 and 17
    CHECK(texts.count("zero=3") == !plan->plan.shards_parameters());
    CHECK(texts.count("fsdp.reshard_after_forward=true") == plan->plan.shards_parameters());
  }
}

TEST_CASE("search: the single changes of a plan, in order") {
  small_plan();
  search::Sites sites;
  const auto texts = [&](std::vector<std::string> settings) {
    const auto file = config::load_plan("", settings);
    REQUIRE(file);
    const auto site = sites.of(file->machine);
    REQUIRE(site);
    std::vector<std::string> all;
    for (const search::Change& change : search::single_changes(file->plan, **site))
      all.push_back(change.text);
    return all;
  };
  const std::string expandable = "allocator_options=expandable_segments:True";
  const std::string block = "recompute=full recompute_method=block recompute_layers=";
  using Texts = std::vector<std::string>;
  CHECK(texts({"model=llama-2-7b", "cluster=abci-a", "gpus=8", "pp=4", "micro_batch=4",
               "global_batch=32", "sequence=4096", "zero=0"}) ==
        Texts{"avoid_record_streams=true", expandable, "distributed_optimizer=true",
              "micro_batch=2", "micro_batch=1", block + "8", "recompute=full",
              "first_stage_layers=5", "last_stage_layers=5", "zero=2", "zero=3", "tp=2", "cp=2",
              "pp=8"});
  // No replicas to trade; chunks of 8 layers, each end gives one to a chunk of the other.
  CHECK(texts({"model=llama-2-7b", "cluster=abci-a", "gpus=8", "pp=2", "tp=4", "virtual_stages=2",
               "schedule=interleaved-1f1b", "global_batch=32", "sequence=4096", "attention=unfused",
               "sequence_parallel=false", "avoid_record_streams=true"}) ==
        Texts{expandable, "sequence_parallel=true", "attention=flash", "recompute=selective",
              block + "8", "recompute=full", "first_stage_layers=14", "last_stage_layers=14",
              "virtual_stages=1 schedule=1f1b"});
  CHECK(texts({"model=llama-2-7b", "cluster=abci-a", "gpus=8", "zero=2", "global_batch=8",
               "sequence=4096", "recompute=full"}) == Texts{"avoid_record_streams=true", expandable,
                                                            "fsdp.reshard_after_forward=true",
                                                            "tp=2", "cp=2", "pp=2"});
  // Two layers a stage are too few to give one to each of fifteen others; four are not for three.
  CHECK(texts({"model=llama-2-7b", "cluster=abci-a", "gpus=16", "pp=16", "schedule=zb-h1",
               "global_batch=32", "sequence=4096"}) == Texts{"avoid_record_streams=true",
                                                             expandable, block + "2",
                                                             "recompute=full", "schedule=1f1b"});
  CHECK(texts({"model=llama-2-7b", "architecture.layers=16", "cluster=abci-a", "gpus=4", "pp=4",
               "global_batch=32", "sequence=4096", "avoid_record_streams=true", expandable}) ==
        Texts{block + "4", "recompute=full", "first_stage_layers=1", "last_stage_layers=1"});
}

TEST_CASE("search: state that is too large for a GPU fits in shards or behind a smaller stage") {
  search::Sites sites;
  search::Site& site = site_of(sites);
  // 6.7e9 parameters in bf16 with fp32 gradients are 37.7 GiB: more than an A100-40GB leaves.
  const auto plan = config::load_plan(
      "", {"model=llama-2-7b", "cluster=abci-a", "gpus=8", "global_batch=8", "sequence=1024"});
  REQUIRE(plan);
  REQUIRE_FALSE(search::evaluate(plan->plan, site).run.fits());
  bool zero = false;
  for (const search::Fix& fix : search::find_fixes(plan->plan, site, false).fixes)
    if (fix.change == "zero=3") zero = fix.answer.run.fits();
  CHECK(zero);
}

TEST_CASE("search: a plan that does not fit is given the fewest recomputed layers that fit") {
  search::Sites sites;
  search::Site& site = site_of(sites);
  workload::Plan plan = small_plan().plan;
  plan.batch.micro_batch = 8;  // of one replica: too much for 40 GB
  plan.batch.global_batch = 16;
  plan.batch.sequence = 2048;
  const report::Answer answer = search::evaluate(plan, site);
  REQUIRE_FALSE(answer.run.fits());
  const search::Fixes fixes = search::find_fixes(plan, site, true);
  CHECK_FALSE(fixes.pairs);
  bool found = false;
  for (const search::Fix& fix : fixes.fixes) {
    if (!fix.answer.run.fits()) continue;
    INFO(fix.change);
    CHECK(report::peak_reserved(fix.answer.run) <= report::fullest(fix.answer.run).capacity);
    workload::Plan one_less = fix.answer.plan;
    if (one_less.policy.recompute_method != workload::RecomputeMethod::block) continue;
    found = true;
    one_less.policy.recompute_layers -= 1;
    CHECK_FALSE(search::evaluate(one_less, site).run.fits());
  }
  CHECK(found);
}

TEST_CASE("search: where no single change is enough two are offered") {
  search::Sites sites;
  search::Site& site = site_of(sites);
  workload::Plan plan = small_plan().plan;
  plan.batch.micro_batch = 4;
  plan.batch.global_batch = 16;
  plan.batch.sequence = 16384;
  const search::Fixes fixes = search::find_fixes(plan, site, true);
  REQUIRE(fixes.pairs);
  for (const search::Fix& fix : fixes.fixes) {
    CHECK(fix.change.find(' ') != std::string::npos);
    CHECK(fix.answer.run.fits());
  }
}

TEST_CASE("search: in a trace of a replay the slices of a track never overlap") {
  namespace pf = rehearse::perfetto;
  search::Sites sites;
  const std::string path = std::string(REHEARSE_BINARY_DIR) + "/evaluate.pftrace";
  report::PerfettoTrace writer({"stage 0", "stage 1"});
  REQUIRE(writer.open(path).empty());
  replay::Options options;
  options.observer = &writer;
  const report::Answer watched = search::evaluate(small_plan().plan, site_of(sites), options);
  REQUIRE(writer.close().empty());
  CHECK(watched.run.step_time == search::evaluate(small_plan().plan, site_of(sites)).run.step_time);

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
    // A sequence's events belong to one track, and its number is the track's.
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

TEST_CASE("search: why a plan cannot run is said, and host memory once the rest is right") {
  small_plan();
  const auto file = config::load_plan(
      "", {"model=llama-2-7b", "cluster=dgx-h100", "gpus=16", "global_batch=16", "sequence=1024",
           "optimizer_cpu_offload=true", "precision_aware_optimizer=true"});
  REQUIRE(file);
  const auto problems_on = [&](int nodes, std::int64_t gib) {
    config::Machine machine = file->machine;
    machine.cluster.nodes = nodes;
    machine.cluster.node.cpu_memory = Bytes{gib << 30};
    search::Sites sites;
    const auto site = sites.of(machine);
    REQUIRE(site);
    return search::problems(file->plan, **site);
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

TEST_CASE("search: saved tensors that wait on the CPUs count against their memory") {
  const auto file = config::load_plan(
      "", {"model=llama-2-7b", "cluster=dgx-h100", "gpus=16", "pp=2", "global_batch=64",
           "sequence=1024", "offload_modules=core_attn,attn_proj"});
  REQUIRE(file);
  const auto site_with = [&](search::Sites& sites, std::int64_t bytes) {
    config::Machine machine = file->machine;
    machine.cluster.node.cpu_memory = Bytes{bytes};
    const auto site = sites.of(machine);
    REQUIRE(site);
    return *site;
  };
  search::Sites sites;
  search::Site* wide = site_with(sites, std::int64_t{1} << 40);
  REQUIRE(search::problems(file->plan, *wide).empty());
  const report::Answer answer = search::evaluate(file->plan, *wide);
  // The eight ranks of a node are of one stage; the first has two microbatches under way.
  const workload::Job job = search::job_of(file->plan, *wide);
  CHECK(answer.host.activations.n == 8 * workload::host_activations(job.classes.front()));
  CHECK(answer.host.activations.n > 0);
  CHECK(answer.host.optimizer.n == 0);
  search::Sites enough, little;
  CHECK(search::problems(file->plan, *site_with(enough, answer.host.activations.n)).empty());
  const auto full = search::problems(file->plan, *site_with(little, answer.host.activations.n - 1));
  REQUIRE(full.size() == 1);
  CHECK(full[0].find("ranks leave ") == 0);
  CHECK(full[0].find("offload fewer modules") != std::string::npos);
}

TEST_CASE("search: what is advised where the CPUs' memory is full runs") {
  small_plan();
  const auto full = [](std::vector<std::string> settings, std::int64_t gib) {
    settings.insert(settings.end(),
                    {"model=llama-2-7b", "cluster=dgx-h100", "gpus=16", "global_batch=16",
                     "sequence=1024", fmt::format("node.cpu_memory={}GiB", gib)});
    const auto file = config::load_plan("", settings);
    REQUIRE(file);
    search::Sites sites;
    const auto site = sites.of(file->machine);
    REQUIRE(site);
    const std::vector<std::string> found = search::problems(file->plan, **site);
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
