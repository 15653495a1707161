#include "sim/input/text/locate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "sim/base/ascii.h"
#include "sim/base/machine_error.h"
#include "sim/base/program_files.h"
#include "sim/base/text.h"
#include "sim/input/text/confine.h"

namespace sim::input {
namespace fs = std::filesystem;
namespace {

struct Home {
  Kind kind;
  std::string_view noun, folder, extension;
};
constexpr Home homes[] = {{Kind::model, "model", "models", ".json"},
                          {Kind::topology, "cluster", "topologies", ".textproto"},
                          {Kind::workload, "plan or grid", "workloads", ".textproto"},
                          {Kind::profile, "profile", "calibration", ".textproto"}};

const Home& home_of(Kind kind) {
  const Home& home = homes[static_cast<std::size_t>(kind)];
  assert(home.kind == kind);
  return home;
}

struct Shelf {
  std::string_view folder, extension, what;  // folder and suffix of files, and their kind as text
};
constexpr Shelf shelves[] = {
    {"models", ".json",
     "a model; name a plan and write model={0} after it, or model={0} cluster=NAME gpus=N"},
    {"topologies", ".textproto",
     "a cluster; name a plan and write cluster={0} after it, or model=NAME cluster={0} gpus=N"},
    {"workloads", ".textproto", "a plan or a grid"},
    {"workloads/campaigns", ".textproto", "a campaign; `rehearse campaign {0}` runs it"},
    {"workloads/failures", ".textproto",
     "a table of failures; `rehearse campaign --failures {0}` takes it"},
    {"workloads/frameworks", ".textproto", "a framework; a plan names it: framework={0}"},
    {"calibration", ".textproto", "a profile, which a cluster names"}};

// How a model that the repository lacks is named.
constexpr const char* own_model = "; a folder or a config.json of Hugging Face is a model too";

// The other kind of file with this name: "a cluster; ...", or "".
std::string other_kind(const fs::path& root, std::string_view name) {
  std::error_code error;
  for (const Shelf& shelf : shelves)
    if (fs::exists(root / shelf.folder / fmt::format("{}{}", name, shelf.extension), error))
      return fmt::format(fmt::runtime(shelf.what), name);
  return "";
}

bool is_root(const fs::path& folder) {
  std::error_code error;
  return fs::is_directory(folder / "models", error) &&
         fs::is_directory(folder / "topologies", error);
}

// A file that may not be read counts as missing, so that an answer does not tell that it exists.
bool is_there(const fs::path& path) {
  return may_read(path.string()) && file_exists(path.string());
}

// A name as it is compared with others: "meta-llama/Llama-3.1-70B" gives "llama3170b".
std::string bare(std::string_view name) {
  std::string text;
  for (const char c : lower(name.substr(name.find_last_of('/') + 1)))
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) text += c;
  return text;
}

// Whether `whole` has the characters of `part` in their order.
bool has_in_order(std::string_view part, std::string_view whole) {
  for (const char c : part) {
    const std::size_t at = whole.find(c);
    if (at == std::string_view::npos) return false;
    whole.remove_prefix(at + 1);
  }
  return true;
}

// "; did you mean 'llama-3.1-70b'?" for "llama3-70b": the names that only add to it, the shortest
// first; without any, the nearest of did_you_mean.
std::string meant(std::string_view name, const std::vector<std::string>& all) {
  constexpr std::size_t least_asked = 3, most_shown = 3;
  const std::string asked = bare(name);
  std::vector<std::string> longer;
  for (const std::string& one : all)
    if (asked.size() >= least_asked && has_in_order(asked, bare(one))) longer.push_back(one);
  if (longer.empty()) return did_you_mean(name, all);
  std::ranges::stable_sort(longer, {}, [](const std::string& one) { return bare(one).size(); });
  longer.resize(std::min(longer.size(), most_shown));
  return fmt::format("; did you mean '{}'?", fmt::join(longer, "' or '"));
}

// The files of `all` whose text has this name.
std::vector<std::string> with_text(const Home& home, std::string_view name,
                                   const std::vector<std::string>& all) {
  std::vector<std::string> found;
  for (const std::string& one : all) {
    const fs::path file =
        fs::path(repository_root()) / home.folder / fmt::format("{}{}", one, home.extension);
    std::ifstream in(file);
    const std::string text((std::istreambuf_iterator<char>(in)), {});
    if (contains(text, name)) found.push_back(one);
  }
  return found;
}

// "; aws-p5 mentions it": files whose text has this name, such as a cluster's name at its provider.
std::string mentioned(const Home& home, std::string_view name,
                      const std::vector<std::string>& all) {
  constexpr std::size_t least_asked = 5;
  if (name.size() < least_asked) return "";
  const std::vector<std::string> found = with_text(home, name, all);
  constexpr std::size_t most_shown = 3;
  if (found.empty() || found.size() > most_shown) return "";
  return fmt::format("; '{}' mention{} it", fmt::join(found, "' and '"),
                     found.size() == 1 ? "s" : "");
}

bool looks_like_path(std::string_view name) {
  return name.find('/') != std::string_view::npos || name.ends_with(".textproto") ||
         name.ends_with(".json");
}

}  // namespace

std::string repository_root() {
  if (const char* root = std::getenv("REHEARSE_ROOT"); root && *root) return root;
  fs::path folder = program_folder();
  while (!folder.empty()) {
    for (const fs::path& data : {folder, folder / "share" / "rehearse"})
      if (is_root(data)) return data.string();
    if (folder == folder.root_path()) break;
    folder = folder.parent_path();
  }
  return "";
}

Result<std::string> locate(Kind kind, std::string_view name, const std::string& beside) {
  const Home& home = home_of(kind);
  if (name.empty()) return Diagnostics{{"", fmt::format("no {} is named", home.noun)}};
  if (looks_like_path(name)) {
    // The folder of a model, as it is downloaded, has its config.json.
    const auto file_in = [&](const fs::path& path) {
      std::error_code none;
      const bool folder = kind == Kind::model && fs::is_directory(path, none);
      return (folder ? path / "config.json" : path).lexically_normal().string();
    };
    const fs::path given(name);
    const fs::path near = fs::path(beside).parent_path() / given;
    if (!beside.empty() && is_there(near)) return file_in(near);
    if (is_there(given)) return kind == Kind::model ? file_in(given) : given.string();
    if (given.is_absolute()) return given.string();
    const fs::path in_root = fs::path(repository_root()) / given;
    if (!repository_root().empty() && is_there(in_root)) return in_root.string();
    const std::string other = meant(name, names(kind));
    return Diagnostics{{"",
                        fmt::format("there is no file '{}'{}{}", name, other,
                                    kind == Kind::model ? own_model : ""),
                        Fault::missing}};
  }
  const std::string root = repository_root();
  std::error_code error;
  const bool is_file = is_there(name) && fs::is_regular_file(fs::path(name), error);
  if (root.empty() && is_file) return std::string(name);
  if (root.empty())
    return Diagnostics{{"",
                        fmt::format("the folder of '{}' was not found; set REHEARSE_ROOT to "
                                    "the repository, or give the path of a file",
                                    name),
                        Fault::missing}};
  const fs::path folder = fs::path(root) / home.folder;
  const fs::path file = folder / fmt::format("{}{}", name, home.extension);
  if (is_there(file)) return file.string();
  if (is_file) return std::string(name);  // not in the repository: a file without a suffix
  const std::vector<std::string> all = names(kind);
  if (std::string other = other_kind(root, name); !other.empty()) {
    const std::vector<std::string> users =
        kind == Kind::topology ? with_text(home, fmt::format("profile: \"{}\"", name), all)
                              : std::vector<std::string>{};
    if (!users.empty()) other += fmt::format(": {}", fmt::join(users, ", "));
    return Diagnostics{
        {"", fmt::format("there is no {} '{}': it is {}", home.noun, name, other), Fault::missing}};
  }
  if (const Result<std::string> there = data_folder(home.folder); !there) return there;
  std::string near = mentioned(home, name, all);
  if (near.empty()) near = meant(name, all);
  std::string listed;
  for (const std::string& one : all) listed += (listed.empty() ? "" : ", ") + one;
  return Diagnostics{{"",
                      fmt::format("there is no {} '{}'{}{}; {} has: {}", home.noun, name, near,
                                  kind == Kind::model ? own_model : "", folder.string(), listed),
                      Fault::missing}};
}

Result<std::string> data_folder(std::string_view name) {
  const std::string root = repository_root();
  const auto missing = [](std::string message) {
    return Diagnostics{{"", std::move(message), Fault::missing}};
  };
  if (root.empty())
    return missing(
        fmt::format("the folder {} was not found; set REHEARSE_ROOT to the repository", name));
  const fs::path folder = fs::path(root) / name;
  std::error_code error;
  if (fs::is_directory(folder, error)) return folder.string();
  return missing(
      fmt::format("there is no folder {}; set REHEARSE_ROOT to the repository", folder.string()));
}

std::vector<std::string> names(Kind kind) {
  const Home& home = home_of(kind);
  std::vector<std::string> found;
  for (const fs::path& file : files_in(fs::path(repository_root()) / home.folder, home.extension))
    found.push_back(file.stem().string());
  return found;
}

std::vector<fs::path> files_in(const fs::path& folder, std::string_view extension) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (it->path().extension() == extension) found.push_back(it->path());
  throw_machine_error(error.value(), folder.string());
  std::ranges::sort(found, {}, [](const fs::path& file) { return file.stem().string(); });
  return found;
}

}  // namespace sim::input
