#include "sim/study/sweep/merge.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "sim/base/machine_error.h"
#include "sim/base/version.h"
#include "sim/study/sweep/records.h"

namespace sim::study {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t missing_named = 20;

struct Part {
  Manifest manifest;
  std::string folder;
  std::string problem;  // "": complete
  std::vector<std::string> lines;
};

std::vector<std::string> shard_folders(const std::string& folder, Diagnostics& problems) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    problems.push_back({folder, "is no folder", Fault::missing});
    return {};
  }
  if (fs::exists(fs::path(folder) / "shard.json", error)) return {folder};
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (file_exists((entry.path() / "shard.json").string())) found.push_back(entry.path().string());
  }
  if (error) {
    problems.push_back({folder, error.message(), Fault::missing});
    return {};
  }
  if (found.empty()) {
    problems.push_back({folder, "holds no shards (folders with a shard.json)", Fault::missing});
  }
  std::ranges::sort(found);
  return found;
}

// Whether another process is writing the file.
bool locked(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  const bool busy = ::flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(descriptor);
  return busy;
}

void read_lines(Part& part) {
  const std::string path = part.folder + "/results.jsonl";
  const std::size_t wanted = share(part.manifest.shard, part.manifest.items);
  if (locked(path)) {
    part.problem = "is still being written";
    return;
  }
  std::ifstream in(path, std::ios::binary);
  std::vector<std::string> ids;
  bool torn = false;
  for (std::string line; std::getline(in, line);) {
    const std::string id(record_id(line));
    if (in.eof() || id.empty() || !is_sound(line)) {
      torn = true;
      continue;
    }
    ids.push_back(id);
    part.lines.push_back(std::move(line));
  }
  if (torn || part.lines.size() != wanted) {
    part.problem = fmt::format("is torn: {} of {} records{}", part.lines.size(), wanted,
                               torn ? ", and a line that is not as it was written" : "");
  } else if (fingerprint(part.manifest.kind, ids) != part.manifest.own) {
    part.problem = "did not end: its records are not those of its items in order";
  }
}

// Text of a list of numbers, such as "1, 4 to 6 and 9".
std::string ranges(const std::vector<int>& numbers) {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    texts.push_back(last == i ? fmt::format("{}", numbers[i])
                              : fmt::format("{} to {}", numbers[i], numbers[last]));
    i = last + 1;
  }
  if (texts.size() > missing_named) {
    const std::size_t more = texts.size() - missing_named;
    texts.resize(missing_named);
    texts.push_back(fmt::format("{} more", more));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::vector<Part> load_parts(const std::vector<std::string>& folders, Diagnostics& problems) {
  std::vector<Part> parts;
  for (const std::string& given : folders) {
    for (const std::string& folder : shard_folders(given, problems)) {
      Result<Manifest> manifest = load_manifest(folder + "/shard.json");
      if (!manifest) {
        for (Diagnostic problem : manifest.errors()) {
          problem.message += "; make this shard anew: its command with --overwrite";
          problems.push_back(std::move(problem));
        }
        continue;
      }
      parts.push_back({*manifest, folder, "", {}});
    }
  }
  return parts;
}

// Checks that all shards belong to the work of the first one.
void compare(const std::vector<Part>& parts, Diagnostics& problems) {
  const Manifest& first = parts.front().manifest;
  if (first.version != output::version_text) {
    problems.push_back({parts.front().folder,
                        fmt::format("is of version {}; this is {}, and a merge is made by the "
                                    "version that made the shards",
                                    first.version, output::version_text)});
  }
  for (const Part& part : parts) {
    const Manifest& other = part.manifest;
    std::string what;
    if (other.version != first.version) {
      what = fmt::format("version {} and version {}", other.version, first.version);
    } else if (other.kind != first.kind) {
      what = fmt::format("a {} and a {}", other.kind, first.kind);
    } else if (other.shard.of != first.shard.of) {
      what = fmt::format("one of {} shards and one of {}", other.shard.of, first.shard.of);
    } else if (other.fingerprint != first.fingerprint || other.items != first.items) {
      what =
          fmt::format("other inputs: fingerprints {} and {}", other.fingerprint, first.fingerprint);
    }
    if (what.empty()) continue;
    problems.push_back(
        {part.folder, fmt::format("does not belong to {}: {}", parts.front().folder, what)});
  }
}

// Complete shards by number; `problems` lists the others.
std::map<int, Part> whole_parts(std::vector<Part> parts, Diagnostics& problems) {
  const int of = parts.front().manifest.shard.of;
  const std::string parent = fs::path(parts.front().folder).parent_path().string();
  std::map<int, Part> whole;
  std::map<int, Part> broken;
  for (Part& part : parts) {
    read_lines(part);
    const int number = part.manifest.shard.number;
    std::map<int, Part>& where = part.problem.empty() ? whole : broken;
    if (const auto there = whole.find(number);
        part.problem.empty() && there != whole.end() && there->second.lines != part.lines) {
      problems.push_back({part.folder, fmt::format("is shard {} like {}, with other records",
                                                   number, there->second.folder)});
    }
    where.emplace(number, std::move(part));
  }
  std::vector<int> missing;
  for (int number = 1; number <= of; ++number) {
    if (whole.count(number) == 1) continue;
    const auto there = broken.find(number);
    if (there == broken.end()) {
      missing.push_back(number);
      continue;
    }
    const Part& part = there->second;
    problems.push_back({part.folder,
                        fmt::format("shard {} of {} {}; go on with: {}", number, of, part.problem,
                                    resume_command(part.manifest, part.folder)),
                        Fault::missing});
  }
  if (!missing.empty()) {
    problems.push_back({parent.empty() ? "." : parent,
                        fmt::format("of {} shards {} {} missing: {}", of, missing.size(),
                                    missing.size() == 1 ? "is" : "are", ranges(missing)),
                        Fault::missing});
  }
  return whole;
}

}  // namespace

std::string quoted(const std::string& word) {
  const bool plain = !word.empty() && word.find_first_not_of(
                                          "abcdefghijklmnopqrstuvwxyz"
                                          "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                          "0123456789_-./=:,+@%") == std::string::npos;
  if (plain) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

std::string resume_command(const Manifest& manifest, const std::string& folder) {
  std::string text = "rehearse " + manifest.kind;
  for (const std::string& word : manifest.arguments) text += " " + quoted(word);
  const std::string parent = fs::path(folder).parent_path().string();
  return text + fmt::format(" -o {} --shard {}/{}", quoted(parent.empty() ? "." : parent),
                            manifest.shard.number, manifest.shard.of);
}

Result<Merged> merge(const std::vector<std::string>& folders, int of) {
  Diagnostics problems;
  std::vector<Part> parts = load_parts(folders, problems);
  if (of > 0) std::erase_if(parts, [&](const Part& p) { return p.manifest.shard.of != of; });
  if (parts.empty() && problems.empty()) {
    problems.push_back({folders.front(), "holds no such shards", Fault::missing});
  }
  if (parts.empty()) return problems;
  compare(parts, problems);
  if (!problems.empty()) return problems;
  const Manifest first = parts.front().manifest;
  std::map<int, Part> whole = whole_parts(std::move(parts), problems);
  if (!problems.empty()) return problems;
  Merged merged{first.kind, first.arguments, {}};
  std::vector<std::string> ids;
  for (std::size_t i = 0; i < first.items; ++i) {
    const int number = static_cast<int>(i % static_cast<std::size_t>(first.shard.of)) + 1;
    std::string& line = whole.at(number).lines[i / static_cast<std::size_t>(first.shard.of)];
    ids.emplace_back(record_id(line));
    merged.lines.push_back(std::move(line));
  }
  if (fingerprint(first.kind, ids) != first.fingerprint) {
    return Diagnostics{{folders.front(),
                        "the records of these shards are not those of the work "
                        "that they say they are of"}};
  }
  return merged;
}

}  // namespace sim::study
