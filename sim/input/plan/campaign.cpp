#include "sim/input/plan/campaign.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "sim/base/machine_error.h"
#include "sim/base/quantity.h"
#include "sim/base/text.h"
#include "sim/input/schema/campaign.pb.h"
#include "sim/input/text/locate.h"
#include "sim/input/text/rules.h"
#include "sim/input/text/textproto.h"

namespace sim::input {
namespace {

namespace v1 = rehearse::v1;

namespace fs = std::filesystem;
namespace pb = google::protobuf;

// Names of all fields of the schema that hold times.
constexpr std::array<std::string_view, 18> spans = {
    "after",  "background", "burn_in", "communicators", "compilation", "detection",
    "fixed",  "interval",   "length",  "load",          "mean",        "mtbf",
    "notice", "scheduling", "search",  "start",         "time",        "write"};

// Reports each time field whose text is no time.
void check_spans(const Source& source, const pb::Message& message, Diagnostics& problems) {
  const pb::Descriptor& descriptor = *message.GetDescriptor();
  const pb::Reflection& reflection = *message.GetReflection();
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const pb::FieldDescriptor& field = *descriptor.field(i);
    if (field.cpp_type() == pb::FieldDescriptor::CPPTYPE_MESSAGE) {
      const int count = field.is_repeated() ? reflection.FieldSize(message, &field)
                        : reflection.HasField(message, &field) ? 1
                                                               : 0;
      for (int k = 0; k < count; ++k)
        check_spans(source,
                    field.is_repeated() ? reflection.GetRepeatedMessage(message, &field, k)
                                        : reflection.GetMessage(message, &field),
                    problems);
    } else if (std::ranges::find(spans, field.name()) != spans.end() &&
               source.has(message, field.name())) {
      const Parsed<double> parsed = parse_span(reflection.GetString(message, &field));
      if (const auto* wrong = std::get_if<std::string>(&parsed))
        problems.push_back(
            {source.where(message, field.name()), fmt::format("'{}': {}", field.name(), *wrong)});
    }
  }
}

double to_span(const std::string& text) {
  return text.empty() ? 0 : std::get<double>(parse_span(text));
}

// All names in workloads/<folder>, sorted.
std::vector<std::string> names_in(const char* folder) {
  std::vector<std::string> names;
  if (repository_root().empty()) return names;
  for (const fs::path& file : files_in(fs::path(repository_root()) / "workloads" / folder))
    names.push_back(file.stem().string());
  return names;
}

// The path of workloads/<folder>/<name>.textproto, or the path itself.
Result<std::string> find(const char* folder, const char* noun, const std::string& name,
                         const std::string& beside) {
  const bool is_path = name.find('/') != std::string::npos || name.ends_with(".textproto");
  if (is_path || repository_root().empty()) {
    Result<std::string> path = locate(Kind::workload, name, beside);
    if (path) return path;
    Diagnostics problems = path.errors();
    for (Diagnostic& problem : problems) problem.where = name;
    return problems;
  }
  const fs::path place = fs::path(repository_root()) / "workloads" / folder;
  if (file_exists((place / (name + ".textproto")).string()))
    return (place / (name + ".textproto")).string();
  const std::vector<std::string> names = names_in(folder);
  return Diagnostics{
      {name,
       fmt::format("there is no {} '{}'{}; {} has: {}", noun, name, did_you_mean(name, names),
                   place.string(), fmt::join(names, ", ")),
       Fault::missing}};
}

double given(const std::string& text) {
  return text.empty() ? -1 : to_span(text);
}

LifetimeFields lifetime(const v1::Lifetime& from, std::string where) {
  LifetimeFields life;
  if (!from.law().empty()) life.law = from.law();
  life.mean = to_span(from.mean());
  life.shape = from.has_shape() ? from.shape() : 1;
  life.early = from.has_early() ? from.early() : 1;
  life.burn_in = to_span(from.burn_in());
  life.where = std::move(where);
  return life;
}

// Mean seconds between failures of one part, from the rate that the kind states: failures per 1000
// node-days, a count on the watched cluster, or the mean itself.
double mean_of(const v1::FailureKind& kind, const v1::Watched& watched) {
  const double node_days = 1000 * 86400.0;
  const double gpus_per_node = std::max(1, watched.gpus_per_node());
  // A node has one part "node", one "gpu" and one "nic" per GPU, and a share of a leaf switch.
  const double per_node = kind.part() == v1::FailureKind::gpu || kind.part() == v1::FailureKind::nic
                              ? gpus_per_node
                              : 1;
  if (kind.has_per_thousand_node_days())
    return kind.per_thousand_node_days() > 0 ? node_days / kind.per_thousand_node_days() * per_node
                                             : 0;
  if (kind.has_count()) {
    const double nodes = watched.gpus() / gpus_per_node;
    const double parts = kind.part() == v1::FailureKind::job ? 1 : nodes * per_node;
    return kind.count() > 0 ? parts * to_span(watched.time()) / kind.count() : 0;
  }
  return to_span(kind.life().mean());
}

void check(const v1::FailureKind& kind, const v1::FailureTable& table, const Source& source,
           Diagnostics& problems) {
  const auto refuse = [&](const char* field, std::string rule) {
    problems.push_back({source.where(kind, field), std::move(rule)});
  };
  const bool states_mean = kind.has_life() && !kind.life().mean().empty();
  const int rates = (kind.has_count() ? 1 : 0) + (kind.has_per_thousand_node_days() ? 1 : 0) +
                    (states_mean ? 1 : 0);
  if (rates != 1)
    refuse("name", fmt::format("'{}' needs one rate: count, per_thousand_node_days, or the mean of "
                               "life; it has {}",
                               kind.name(), rates));
  if (kind.has_count() && !table.has_watched())
    refuse("count", "a count needs 'watched': on how many GPUs, for how long");
  if (kind.part() == v1::FailureKind::leaf && !states_mean)
    refuse("part", fmt::format("'{}': how many leaf switches were watched is not known; give the "
                               "mean of life of one",
                               kind.name()));
  if (kind.has_per_thousand_node_days() && kind.part() == v1::FailureKind::job)
    refuse("part", "per_thousand_node_days grows with the nodes; the part is node, not job");
  if (kind.has_found() != kind.has_speed())
    refuse(kind.has_found() ? "found" : "speed",
           fmt::format("'{}': a straggler has a speed and the time in which it is found, both",
                       kind.name()));
  if (kind.takes() != v1::FailureKind::its_node && kind.has_speed() &&
      kind.takes() != v1::FailureKind::nothing)
    refuse("takes", "a straggler takes its_node when it is found, or nothing when it recovers");
}

FailureFields fields(const v1::FailureKind& from, const v1::FailureTable& table,
                     const Source& source) {
  FailureFields kind;
  kind.name = from.name();
  kind.where = source.where(from, "name");
  kind.sure = v1::FailureKind::Sure_Name(from.sure());
  kind.part = static_cast<PartOf>(from.part() - 1);
  kind.takes = static_cast<TakesWhat>(from.takes() - 1);
  kind.life = lifetime(from.life(), kind.where);
  kind.life.mean = mean_of(from, table.watched());
  kind.repair = lifetime(from.repair(), source.where(from, "repair"));
  kind.detection = given(from.detection());
  kind.speed = from.has_speed() ? from.speed() : 1;
  kind.found = lifetime(from.found(), source.where(from, "found"));
  kind.sources = {from.source().begin(), from.source().end()};
  return kind;
}

CheckpointFields fields(const v1::Checkpoint& from, std::string where) {
  CheckpointFields to;
  to.name = from.name().empty() ? (from.in_memory() ? "memory" : "storage") : from.name();
  to.where = std::move(where);
  to.interval = given(from.interval());
  to.survives = from.has_survives() ? from.survives() : -1;
  to.asynchronous = from.asynchronous();
  to.overlapped = from.overlapped();
  to.in_memory = from.in_memory();
  to.storage = to_bandwidth(from.storage());
  to.node = to_bandwidth(from.node());
  to.writer = to_bandwidth(from.writer());
  to.read = to_bandwidth(from.read());
  to.copies = from.has_copies() ? from.copies() : 1;
  to.write = given(from.write());
  to.background = given(from.background());
  to.load = given(from.load());
  to.fixed = to_span(from.fixed());
  return to;
}

RestartFields fields(const v1::Restart& from) {
  RestartFields to;
  to.detection = given(from.detection());
  to.scheduling = given(from.scheduling());
  to.start = given(from.start());
  to.communicators = given(from.communicators());
  to.compilation = given(from.compilation());
  to.search = given(from.search());
  to.slow_steps = from.slow_steps();
  to.slow_factor = from.has_slow_factor() ? from.slow_factor() : 1;
  return to;
}

void check(const v1::Campaign& from, const Source& source, Diagnostics& problems) {
  const std::vector<std::string> answers = {"wait", "shrink", "replan"};
  if (!from.answer().empty() && std::ranges::find(answers, from.answer()) == answers.end())
    problems.push_back(
        {source.where(from, "answer"),
         fmt::format("there is no answer '{}' to a failure{}; one of {}", from.answer(),
                     did_you_mean(from.answer(), answers), fmt::join(answers, ", "))});
  const std::vector<std::string> times = {"now", "save"};
  if (!from.stragglers().empty() && std::ranges::find(times, from.stragglers()) == times.end())
    problems.push_back({source.where(from, "stragglers"),
                        fmt::format("stragglers are answered now or at the next save, not '{}'{}",
                                    from.stragglers(), did_you_mean(from.stragglers(), times))});
  const bool table = !from.failures().empty(), mean = !from.mtbf().empty();
  if (table && mean)
    problems.push_back({source.where(from, "mtbf"), "failures or mtbf: one of them"});
  if (!from.trace().empty() && !table)
    problems.push_back({source.where(from, "trace"),
                        "a trace needs 'failures': the table that says what its kinds take"});
  for (int i = 0; i < from.phase_size(); ++i) {
    const v1::Phase& phase = from.phase(i);
    const bool ends = phase.has_tokens() || phase.has_steps();
    if (phase.has_tokens() && phase.has_steps())
      problems.push_back({source.where(phase, "tokens"), "tokens or steps: one of them"});
    if (!ends && i + 1 < from.phase_size())
      problems.push_back({source.where(phase, "name"),
                          fmt::format("phase '{}' has no end and another follows it; give its "
                                      "tokens or its steps",
                                      phase.name())});
  }
  double before = 0;
  for (const v1::Pool& pool : from.pool()) {
    if (to_span(pool.after()) < before)
      problems.push_back({source.where(pool, "after"),
                          fmt::format("'{}' is before the pool above it", pool.after())});
    before = to_span(pool.after());
  }
}

}  // namespace

Result<FailureFile> load_failures(const std::string& name, const std::string& beside) {
  const Result<std::string> path = find("failures", "table of failures", name, beside);
  if (!path) return path.errors();
  v1::FailureTable table;
  Source source(*path);
  Diagnostics problems = load(source, table);
  check_spans(source, table, problems);
  if (!problems.empty()) return problems;
  for (const v1::FailureKind& kind : table.kind()) check(kind, table, source, problems);
  if (!problems.empty()) return problems;
  FailureFile file;
  file.name = table.name().empty() ? std::filesystem::path(*path).stem().string() : table.name();
  file.path = *path;
  file.sources = {table.source().begin(), table.source().end()};
  for (const v1::FailureKind& kind : table.kind())
    file.kinds.push_back(fields(kind, table, source));
  return file;
}

bool is_campaign(const std::string& name) {
  const Result<std::string> path = find("campaigns", "campaign", name, "");
  if (!path) return false;
  const Result<std::string> text = read_file(*path);
  return text && (text->rfind("length:", 0) == 0 || text->find("\nlength:") != std::string::npos);
}

Result<CampaignFile> load_campaign(const std::string& name) {
  const Result<std::string> path = find("campaigns", "campaign", name, "");
  if (!path) return path.errors();
  v1::Campaign from;
  Source source(*path);
  Diagnostics problems = load(source, from);
  check_spans(source, from, problems);
  if (problems.empty()) check(from, source, problems);
  if (!problems.empty()) return problems;
  CampaignFile file;
  file.name = from.name().empty() ? std::filesystem::path(*path).stem().string() : from.name();
  file.path = *path;
  file.plan = from.plan();
  file.settings = {from.set().begin(), from.set().end()};
  file.length = to_span(from.length());
  file.failures = from.failures();
  file.trace = from.trace();
  file.mtbf = given(from.mtbf());
  file.spares = from.spares();
  file.spares_where = source.where(from, "spares");
  for (const v1::Checkpoint& checkpoint : from.checkpoint())
    file.checkpoints.push_back(fields(checkpoint, source.where(checkpoint)));
  file.restart = fields(from.restart());
  if (!from.answer().empty()) file.answer = from.answer();
  if (!from.stragglers().empty()) file.stragglers = from.stragglers();
  if (from.has_missing_most()) file.missing_most = from.missing_most();
  for (const v1::Phase& phase : from.phase())
    file.phases.push_back({phase.name(),
                           source.where(phase),
                           {phase.set().begin(), phase.set().end()},
                           phase.tokens(),
                           phase.steps()});
  for (const v1::Pool& pool : from.pool())
    file.pools.push_back({source.where(pool),
                          to_span(pool.after()),
                          to_span(pool.notice()),
                          pool.nodes(),
                          {pool.set().begin(), pool.set().end()}});
  return file;
}

std::vector<std::string> campaign_names() {
  return names_in("campaigns");
}

std::vector<std::string> failure_names() {
  return names_in("failures");
}

}  // namespace sim::input
