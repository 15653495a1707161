#include "sim/study/sweep/shard.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cassert>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "sim/base/json_text.h"
#include "sim/base/version.h"
#include "sim/input/text/textproto.h"
#include "sim/output/output.h"

namespace sim::study {

namespace {

using output::Json;

constexpr const char* schema = "rehearse/shard/1";
constexpr std::int64_t manifest_bytes_max = 1 << 20;

std::optional<int> whole(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The variable as a number; std::nullopt if it is missing or another text ("undefined").
std::optional<int> number(const Environment& environment, const char* name) {
  const char* text = environment(name);
  return text == nullptr ? std::nullopt : whole(text);
}

std::optional<Shard> checked(std::optional<int> index, std::optional<int> of) {
  if (!index || !of || *index < 0 || *of < 1 || *of > shards_max || *index >= *of)
    return std::nullopt;
  return Shard{*index + 1, *of};
}

// The shard of a task in an array from `first` to `last` in steps of `step`.
std::optional<Shard> of_range(std::optional<int> task, std::optional<int> first,
                              std::optional<int> last, std::optional<int> step) {
  if (!task || !first || !last) return std::nullopt;
  const int by = step.value_or(1);
  if (by < 1 || *last < *first) return std::nullopt;
  return checked((*task - *first) / by, (*last - *first) / by + 1);
}

// The shard of a task in a job array.
std::optional<Shard> array_shard(const Environment& environment) {
  const auto get = [&](const char* name) { return number(environment, name); };
  if (const auto slurm = of_range(get("SLURM_ARRAY_TASK_ID"), get("SLURM_ARRAY_TASK_MIN"),
                                  get("SLURM_ARRAY_TASK_MAX"), get("SLURM_ARRAY_TASK_STEP"))) {
    return slurm;
  }
  return of_range(get("SGE_TASK_ID"), get("SGE_TASK_FIRST"), get("SGE_TASK_LAST"),
                  get("SGE_TASK_STEPSIZE"));
}

// Combines array and job step: every rank of every task has its own share.
Shard product(const std::optional<Shard>& array, const std::optional<Shard>& step) {
  const Shard outer = array.value_or(Shard{});
  const Shard inner = step.value_or(Shard{});
  return {(outer.number - 1) * inner.of + inner.number, outer.of * inner.of};
}

Diagnostics refusal(std::string message) {
  return {{"--shard", std::move(message)}};
}

Result<Shard> from_environment(std::string_view count, const Environment& environment) {
  const std::optional<Shard> step = step_shard(environment);
  std::optional<Shard> array = array_shard(environment);
  if (!count.empty()) {
    const std::optional<int> of = whole(count);
    std::optional<int> task = number(environment, "PBS_ARRAY_INDEX");
    if (!task) task = number(environment, "PBS_ARRAYID");
    if (!task) {
      return refusal(
          "'auto/N' is for an array of PBS, which says PBS_ARRAY_INDEX; there is none here");
    }
    array = checked(*task - 1, of);
    if (!array) {
      return refusal(
          fmt::format("PBS_ARRAY_INDEX is {} of an array of {}: count it from 1 (qsub -J 1-{})",
                      *task, count, count));
    }
  }
  if (array || step) return product(array, step);
  if (environment("PBS_ARRAY_INDEX") != nullptr || environment("PBS_ARRAYID") != nullptr) {
    return refusal("PBS does not say how large its array is: write --shard auto/N");
  }
  return refusal(
      "'auto' finds no array of jobs and no ranks here (Slurm, Grid Engine, PBS, MPI); write the "
      "share as I/N, such as 1/8");
}

}  // namespace

std::size_t share(const Shard& shard, std::size_t items) {
  const auto first = static_cast<std::size_t>(shard.number - 1);
  const auto of = static_cast<std::size_t>(shard.of);
  return first >= items ? 0 : (items - first - 1) / of + 1;
}

std::size_t item(const Shard& shard, std::size_t index) {
  return static_cast<std::size_t>(shard.number - 1) + index * static_cast<std::size_t>(shard.of);
}

std::optional<Shard> step_shard(const Environment& environment) {
  const auto get = [&](const char* name) { return number(environment, name); };
  struct Names {
    const char *rank, *size;
  };
  // A batch script also has SLURM_PROCID, but no SLURM_STEP_ID or one of a single task.
  constexpr Names all[] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                           {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},
                           {"PMI_RANK", "PMI_SIZE"},
                           {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"}};
  for (const Names& names : all) {
    if (const auto shard = checked(get(names.rank), get(names.size)); shard && shard->of > 1)
      return shard;
  }
  return std::nullopt;
}

Result<Shard> read_shard(std::string_view text, const Environment& environment) {
  if (text == "auto") return from_environment("", environment);
  if (text.substr(0, 5) == "auto/") return from_environment(text.substr(5), environment);
  const std::size_t slash = text.find('/');
  if (slash != std::string_view::npos) {
    const auto index = whole(text.substr(0, slash));
    const auto shard =
        checked(index ? std::optional(*index - 1) : std::nullopt, whole(text.substr(slash + 1)));
    if (shard) return *shard;
  }
  return refusal(
      fmt::format("'{}' is not I/N with I from 1 to N and N at most {}, such as 1/8, nor `auto`",
                  text, shards_max));
}

std::string shard_folder(const std::string& folder, const Shard& shard) {
  return fmt::format("{}/shard-{:04}-of-{:04}", folder, shard.number, shard.of);
}

std::string fingerprint(const std::string& kind, const std::vector<std::string>& ids) {
  std::string text = fmt::format("{} {} {}\n", kind, output::version_text, ids.size());
  for (const std::string& id : ids) text += id + "\n";
  return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
}

Manifest manifest(const std::string& kind, const std::vector<std::string>& ids, const Shard& shard,
                  const std::vector<std::string>& arguments) {
  std::vector<std::string> own;
  for (std::size_t i = 0; i < share(shard, ids.size()); ++i) own.push_back(ids[item(shard, i)]);
  return {kind,
          output::version_text,
          fingerprint(kind, ids),
          fingerprint(kind, own),
          ids.size(),
          shard,
          arguments};
}

std::string write_manifest(const std::string& folder, const Manifest& manifest) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return folder + ": " + error.message();
  return output::write_file(folder + "/shard.json", to_json(manifest).dump(2) + "\n");
}

std::string other_work(const std::string& folder, const Manifest& manifest) {
  const std::string path = folder + "/shard.json";
  if (!std::filesystem::exists(path)) return "";
  const Result<Manifest> there = load_manifest(path);
  if (!there) return there.errors().front().where + ": " + there.errors().front().message;
  if (there->fingerprint == manifest.fingerprint && there->shard == manifest.shard) return "";
  return folder + " holds a shard of other inputs or of another version";
}

Json to_json(const Manifest& manifest) {
  return {{"schema", schema},
          {"kind", manifest.kind},
          {"version", manifest.version},
          {"fingerprint", manifest.fingerprint},
          {"shard_fingerprint", manifest.own},
          {"items", manifest.items},
          {"shard", manifest.shard.number},
          {"of", manifest.shard.of},
          {"arguments", manifest.arguments}};
}

Result<Manifest> load_manifest(const std::string& path) {
  const Result<std::string> text = input::read_file(path, manifest_bytes_max);
  if (!text) return text.errors();
  try {
    const Json json = Json::parse(*text);
    if (json.at("schema") != schema)
      return Diagnostics{{path, fmt::format("is not of the schema {}", schema)}};
    Manifest manifest{json.at("kind"),        json.at("version"),
                      json.at("fingerprint"), json.at("shard_fingerprint"),
                      json.at("items"),       {json.at("shard"), json.at("of")},
                      json.at("arguments")};
    if (!checked(manifest.shard.number - 1, manifest.shard.of))
      return Diagnostics{{path, "shard is not from 1 to `of`"}};
    return manifest;
  } catch (const Json::parse_error& problem) {
    const std::string read = text->substr(0, problem.byte - std::min<std::size_t>(problem.byte, 1));
    return Diagnostics{{fmt::format("{}:{}", path, 1 + std::ranges::count(read, '\n')),
                        fmt::format("is no JSON, so not the shard.json of a shard: {}",
                                    json_text(problem.what()))}};
  } catch (const Json::exception& problem) {
    return Diagnostics{
        {path, fmt::format("is not the shard.json of a shard: {}", json_text(problem.what()))}};
  }
}

}  // namespace sim::study
