// trace_cases.cpp — small traces in the format of PyTorch's profiler: events, kernels, steps and
// measurements.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "sim/calibrate/trace/measured.h"
#include "tests/calibrate/described.h"
#include "tests/cases.h"

using namespace sim;
using namespace sim::calibrate;

namespace {

std::string told(const TraceFile& file, const TraceEvent& e) {
  std::string text = fmt::format("event {} '{}' of '{}' {:g}+{:g}", static_cast<int>(e.kind),
                                 e.name, e.thread, e.start_us, e.duration_us);
  if (e.external >= 0) text += fmt::format(" external {}", e.external);
  if (e.correlation >= 0) text += fmt::format(" correlation {}", e.correlation);
  if (e.stream >= 0) text += fmt::format(" stream {}", e.stream);
  for (int i = 0; i < static_cast<int>(Argument::count_); ++i)
    if (const auto value = file.argument(e, static_cast<Argument>(i)); !value.empty())
      text += fmt::format(" {}={}", i, value);
  return text + "\n";
}

std::string told(const MeasuredTrace& trace) {
  std::string text =
      fmt::format("trace of '{}' rank {} of {}{}, zero {} ns: {}\n", trace.device, trace.rank,
                  trace.world, trace.fake ? " fake" : "", trace.zero_ns, trace.found);
  for (const MeasuredKernel& k : trace.kernels) {
    text += fmt::format("  {} '{}' on {} at {}+{}", name(k.family), k.name, k.stream, k.start_ns,
                        k.duration_ns);
    if (k.launch_ns != unknown_time) text += fmt::format(" launched {}", k.launch_ns);
    if (k.ranks > 0 || !k.group.empty()) text += fmt::format(" group '{}' of {}", k.group, k.ranks);
    if (k.bytes > 0) text += fmt::format(" {} B", k.bytes);
    if (k.copies > 0) text += fmt::format(" in {} copies", k.copies);
    text += "\n";
  }
  for (const MeasuredStep& step : trace.steps)
    text += fmt::format("  {}: {} to {}, length {}, kernels {}\n", step.name, step.begin_ns,
                        step.end_ns, step.length_ns, fmt::join(step.kernels, " "));
  return text;
}

// Expands lines "k NAME TS DUR KEY=VALUE ..." to the profiler's JSON. The first letter means: k
// kernel, m copy, o operation, c call, a annotation. A line "top KEY=VALUE" sets a field of the
// file. In names ~ stands for a blank.
std::string as_json(const std::string& text) {
  const std::map<std::string, std::string> categories = {{"k", "kernel"},
                                                         {"m", "gpu_memcpy"},
                                                         {"o", "cpu_op"},
                                                         {"c", "cuda_runtime"},
                                                         {"a", "user_annotation"}};
  std::string events, top, line;
  for (std::istringstream lines(text); std::getline(lines, line);) {
    std::istringstream words(line);
    std::string kind, word, name, start, duration;
    words >> kind;
    if (kind == "top") {
      std::getline(words, word);
      const std::size_t equals = word.find('=');
      top += ", \"" + word.substr(1, equals - 1) + "\": " + word.substr(equals + 1);
      continue;
    }
    words >> name >> start >> duration;
    std::replace(name.begin(), name.end(), '~', ' ');
    std::string arguments, thread = "1";
    while (words >> word) {
      const std::size_t equals = word.find('=');
      std::string key = word.substr(0, equals);
      std::replace(key.begin(), key.end(), '_', ' ');
      if (key == "tid") {
        thread = word.substr(equals + 1);
        continue;
      }
      arguments += (arguments.empty() ? "\"" : ", \"") + key + "\": " + word.substr(equals + 1);
    }
    events += events.empty() ? "" : ",\n";
    events += fmt::format("{{\"ph\": \"X\", \"cat\": \"{}\", \"name\": \"{}\", ",
                          categories.at(kind), name);
    events += fmt::format("\"ts\": {}, \"dur\": {}, \"tid\": {}, \"args\": {{{}}}}}", start,
                          duration, thread, arguments);
  }
  return "{\"schemaVersion\": 1" + top + ", \"traceEvents\": [" + events + "]}";
}

}  // namespace

TEST_CASE("trace: small traces are read as they were") {
  cases::hold("tests/calibrate/data/trace_cases.txt", [](const std::string& text) {
    const auto file = read_trace_events(as_json(text), "file");
    if (!file) return file.errors()[0].message;
    std::string all;
    for (const TraceEvent& e : file->events) all += told(*file, e);
    all += told(measured_trace(*file, "file"));
    return all + described::described(measurements_of(*file, "file"));
  });
}

TEST_CASE("trace: JSON of profilers is read as it was") {
  cases::hold("tests/calibrate/data/json_cases.txt", [](const std::string& text) {
    const auto file = read_trace_events(text, "file");
    if (!file) return file.errors()[0].where + ": " + file.errors()[0].message;
    std::string all;
    for (const TraceEvent& e : file->events) all += told(*file, e);
    for (const auto& [key, value] : file->top) all += key + " = " + value + "\n";
    return all;
  });
  // JSON may be nested 64 levels deep, not deeper.
  for (const int deep : {60, 70}) {
    const auto file = read_trace_events(std::string(static_cast<std::size_t>(deep), '[') +
                                            std::string(static_cast<std::size_t>(deep), ']'),
                                        "file");
    CHECK(static_cast<bool>(file) == (deep == 60));
  }
}
