// beside.cpp — measured beside predicted, plan beside plan, price beside throughput.
#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/golden/program.h"

using golden::run;
using nlohmann::json;

namespace {

json result_of(const std::string& command, const std::string& folder) {
  const golden::Finished finished = run(command + " --json -q", folder);
  INFO(command << "\n" << finished.err);
  const json document = json::parse(finished.out, nullptr, false);
  REQUIRE(document.is_object());
  return document["result"];
}

// A log of nccl-tests on 8 A100 GPUs.
std::string nccl_log() {
  std::string text =
      "# nThread 1 nGpus 8 minBytes 1048576 maxBytes 67108864 step: 2(factor)\n"
      "# all_reduce_perf\n";
  for (int rank = 0; rank < 8; ++rank)
    text += "#  Rank  " + std::to_string(rank) + " Group  0 Pid 1 on node1 device  " +
            std::to_string(rank) + " [0x07] NVIDIA A100-SXM4-80GB\n";
  text +=
      "#  size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong\n";
  double time = 60;
  for (std::int64_t bytes = 1 << 20; bytes <= 64 << 20; bytes *= 2, time *= 1.9) {
    const std::string us = std::to_string(time);
    text += "  " + std::to_string(bytes) + " " + std::to_string(bytes / 4) + " float sum -1 " + us +
            " 1.0 1.0 0 " + us + " 1.0 1.0 0\n";
  }
  return text;
}

}  // namespace

TEST_CASE("golden: measured collectives stand beside their predictions, one row each") {
  const std::string folder = golden::scratch("beside-collectives");
  golden::write(folder + "/nccl.log", nccl_log());
  const json compared = result_of("./rehearse topo time dgx-a100 --compare nccl.log", folder);
  REQUIRE(compared["collectives"].size() == 7);
  double sum = 0;
  for (const json& one : compared["collectives"]) {
    const double error =
        100 * (one["predicted_s"].get<double>() / one["measured_s"].get<double>() - 1);
    CHECK(one["error_pct"].get<double>() == Approx(error));
    CHECK(one["gpus"] == 8);
    sum += std::abs(error);
  }
  CHECK(compared["mean_absolute_error_pct"].get<double>() == Approx(sum / 7));
  // The same sizes as `topo time` predicts them.
  const json times =
      result_of("./rehearse topo time dgx-a100 --ranks 0-7 --min 1MiB --max 64MiB", folder);
  for (std::size_t i = 0; i < 7; ++i)
    CHECK(times["rows"][i]["seconds"].get<double>() ==
          Approx(compared["collectives"][i]["predicted_s"].get<double>()).epsilon(1e-3));
  const std::string csv =
      run("./rehearse topo time dgx-a100 --compare nccl.log --csv -", folder).out;
  CHECK(csv.starts_with("collective,gpus,nodes,bytes,measured_s,predicted_s,error_pct,source\n"));
  CHECK(std::ranges::count(csv, '\n') == 8);
  const std::string fitted = "./rehearse calibrate nccl.log --cluster dgx-a100 ";
  const json calibrated = result_of(fitted, folder);
  REQUIRE(calibrated["collectives"].size() == 7);
  CHECK(calibrated["collectives"][0]["predicted_s"] == compared["collectives"][0]["predicted_s"]);
  CHECK(calibrated["collectives"][0].contains("fitted_error_pct"));
  CHECK(run(fitted + "-q", folder).out.find("measured us") != std::string::npos);
  run(fitted + "--csv each.csv -q", folder);
  CHECK(golden::text_of(folder + "/each.csv").find("fitted_error_pct") != std::string::npos);
  CHECK(run("./rehearse topo time dgx-h100 --compare nccl.log", folder).code == 65);
}

TEST_CASE("golden: compare of two plans says what differs, account by account") {
  const std::string folder = golden::scratch("beside-plans");
  const json two = result_of("./rehearse compare llama-2-7b-64 'llama-2-7b-64 tp=8'", folder);
  CHECK(std::ranges::any_of(two["settings"], [](const json& one) {
    return one["field"] == "tp" && one["second"] == "8";
  }));
  const json first = result_of("./rehearse run llama-2-7b-64", folder);
  const json& step = two["time"].back();
  CHECK(step["what"] == "step");
  CHECK(step["first_s"].get<double>() == Approx(first["step_time_s"].get<double>()));
  double sum = 0;
  for (const json& one : two["time"]) sum += one["difference_s"].get<double>();
  CHECK(sum == Approx(2 * step["difference_s"].get<double>()).margin(1e-6));
  const json& gpu = two["memory"].back();
  CHECK(gpu["what"] == "GPU");
  double bytes = 0;
  for (const json& one : two["memory"]) bytes += one["second_gib"].get<double>();
  CHECK(bytes == Approx(2 * gpu["second_gib"].get<double>()).epsilon(1e-3));
  const golden::Finished same = run("./rehearse compare llama-2-7b-64 llama-2-7b-64 -q", folder);
  CHECK(same.code == 0);
  CHECK(same.out.find("settings that differ") == std::string::npos);
  CHECK(run("./rehearse compare no-such.log llama-2-7b-64", folder).code == 66);
}

TEST_CASE("golden: sweep and validate take a price and a limit of the error") {
  const std::string folder = golden::grid_scratch("beside-price");
  const std::string grid =
      "./rehearse sweep model=llama-3.1-8b cluster=dgx-h100,dgx-a100 gpus=8 global_batch=16 "
      "sequence=4096 tp=2,4 ";
  const json best = result_of(grid + "--price dgx-h100=3", folder)["best"];
  for (const json& one : best) {
    const json& cost = one["cost_per_million_tokens"];
    CHECK(cost.is_null() == (one["cluster"] != "dgx-h100"));
    if (!cost.is_null())
      CHECK(cost.get<double>() ==
            Approx(3e6 / 3600 / one["tokens_s_gpu"].get<double>()).epsilon(1e-3));
  }
  CHECK(run(grid + "-q", folder).out.find("cost/Mtoken") == std::string::npos);
  CHECK(run(grid + "--price 2 --csv - -q", folder).out.find(",cost_per_million_tokens\n") !=
        std::string::npos);
  golden::write(folder + "/runs.csv", run("sed -n -e 1p -e '/^T[0-9]*,torchtitan,/p' "
                                          "calibration/measured/training_runs.csv | head -n 5",
                                          folder)
                                          .out);
  CHECK(run("./rehearse validate runs.csv -q --within 50", folder).code == 0);
  const golden::Finished strict = run("./rehearse validate runs.csv -q --within 0", folder);
  CHECK(strict.code == 2);
  CHECK(strict.err.find("is above --within 0") != std::string::npos);
}

TEST_CASE("golden: run and check name the profile that a GPU borrows") {
  const std::string folder = golden::scratch("beside-profile");
  const std::string text = "kernels of h100-80 on H800-SXM5-80GB: borrowed";
  const std::string job = " gpus=8 global_batch=16 sequence=4096 -q --wide";
  CHECK(run("./rehearse run model=llama-3.1-8b cluster=hgx-h800 tp=4" + job, folder)
            .out.find(text) != std::string::npos);
  CHECK(run("./rehearse run model=llama-3.1-8b cluster=dgx-h100 tp=4" + job, folder)
            .out.find("borrowed") == std::string::npos);
  CHECK(run("./rehearse check topologies/hgx-h800.textproto --wide", folder).out.find(text) !=
        std::string::npos);
}
