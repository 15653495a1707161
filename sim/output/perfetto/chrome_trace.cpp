#include "sim/output/perfetto/chrome_trace.h"

#include <fmt/format.h>

#include "sim/output/json.h"

namespace sim::output {

namespace {

// Microseconds: "12.345".
std::string micros(std::int64_t ps) {
  const std::int64_t ns = ps / 1000;
  return fmt::format("{}.{:03}", ns / 1000, ns % 1000);
}

std::string json_string(std::string_view text) {
  return Json(std::string(text)).dump();
}

// "pid": a process must not be 0 in Chrome's viewer.
std::string of(int rank_class, program::Stream stream) {
  return fmt::format(R"("pid":{},"tid":{})", rank_class + 1, static_cast<int>(stream) + 1);
}

std::string named(std::string_view what, const std::string& of, std::string_view name) {
  return fmt::format(R"("ph":"M","name":"{}",{},"args":{{"name":{}}})", what, of,
                     json_string(name));
}

}  // namespace

std::string ChromeTrace::open(const std::string& path) {
  if (std::string problem = file_.open(path); !problem.empty()) return problem;
  processes_.resize(classes_.size());
  file_.write("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
  for (std::size_t c = 0; c < classes_.size(); ++c)
    event(named("process_name", fmt::format(R"("pid":{})", c + 1), classes_[c]));
  return "";
}

std::string ChromeTrace::close() {
  file_.write("\n]}\n");
  return file_.close();
}

void ChromeTrace::event(const std::string& text) {
  file_.write(first_ ? "\n{" : ",\n{");
  file_.write(text);
  file_.write("}");
  first_ = false;
}

void ChromeTrace::operation(int rank_class, program::Stream stream, std::string_view name,
                            const engine::ProgramLocation& place, Time start, Time waited_until,
                            Time end) {
  const std::string at = of(rank_class, stream);
  bool& known = processes_.at(static_cast<std::size_t>(rank_class))
                    .named.at(static_cast<std::size_t>(stream));
  if (!known) event(named("thread_name", at, "stream " + std::string(program::name(stream))));
  known = true;
  std::string arguments = fmt::format(R"("step":{})", place.step);
  if (place.microbatch >= 0) arguments += fmt::format(R"(,"microbatch":{})", place.microbatch);
  if (place.layer >= 0) arguments += fmt::format(R"(,"layer":{})", place.layer);
  if (waited_until > start)
    arguments += fmt::format(R"(,"waited_us":{})", micros((waited_until - start).ps));
  // Ends are rounded like begins, so neighbours stay adjacent.
  const std::int64_t length = end.ps / 1000 * 1000 - start.ps / 1000 * 1000;
  event(fmt::format(R"("ph":"X","name":{},"cat":{},{},"ts":{},"dur":{},"args":{{{}}})",
                    json_string(name), json_string(program::name(place.pass)), at, micros(start.ps),
                    micros(length), arguments));
  for (const engine::MessageEnd& one : ends_)
    event(fmt::format(R"("ph":"{}","name":"message","cat":"message","id":"{}",{},"ts":{}{})",
                      one.sends ? "s" : "f", one.number, at, micros(one.sends ? start.ps : end.ps),
                      one.sends ? "" : R"(,"bp":"e")"));
  ends_.clear();
}

void ChromeTrace::memory(const engine::MemoryChange& change) {
  Process& process = processes_.at(static_cast<std::size_t>(change.rank_class));
  std::int64_t& held = process.held.at(static_cast<std::size_t>(change.category));
  held += change.delta;
  const auto counter = [&](std::string_view what, std::int64_t bytes) {
    event(fmt::format(R"("ph":"C","name":{},"pid":{},"ts":{},"args":{{"bytes":{}}})",
                      json_string("memory: " + std::string(what)), change.rank_class + 1,
                      micros(change.when.ps), bytes));
  };
  counter(program::name(change.category), held);
  counter("allocated", change.allocated.n);
  counter("reserved", change.reserved.n);
}

}  // namespace sim::output
