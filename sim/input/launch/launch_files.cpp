#include "sim/input/launch/launch_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <set>
#include <sstream>

#include "sim/base/ascii.h"
#include "sim/input/fields/fields.h"
#include "sim/input/launch/adapters.h"
#include "sim/input/launch/deepspeed_config.h"
#include "sim/input/schema/launcher.pb.h"
#include "sim/input/text/locate.h"
#include "sim/input/text/textproto.h"

namespace sim::input {
namespace {

namespace fs = std::filesystem;
namespace v1 = rehearse::v1;

using Launchers = std::map<std::string, v1::Launcher, std::less<>>;

const Launchers& launchers() {
  static const Launchers all = [] {
    Launchers found;
    for (const fs::path& file : files_in(fs::path(repository_root()) / "workloads" / "launchers")) {
      Source source(file.string());
      v1::Launcher launcher;
      if (load(source, launcher).empty())  // `rehearse check` reports problems
        found.emplace(file.stem().string(), std::move(launcher));
    }
    return found;
  }();
  return all;
}

bool signs(const v1::Launcher& launcher, const LaunchValues& values) {
  return std::ranges::any_of(launcher.sign(), [&](const v1::Sign& sign) {
    return std::ranges::all_of(sign.key(),
                               [&](const std::string& key) { return has_path(values, key); });
  });
}

// The row of a key: an equal path first, then the longest path that ends in "*".
const v1::LauncherKey* row_of(const v1::Launcher& launcher, std::string_view key, int depth = 0) {
  const v1::LauncherKey* best = nullptr;
  std::size_t length = 0;
  for (const v1::LauncherKey& row : launcher.key())
    for (const std::string& path : row.key()) {
      if (path == key) return &row;
      const std::string_view prefix = std::string_view(path).substr(0, path.size() - 1);
      if (path.ends_with('*') && key.starts_with(prefix) && path.size() > length) {
        best = &row;
        length = path.size();
      }
    }
  for (const std::string& name : launcher.also()) {
    const auto other = launchers().find(name);
    if (best || depth > 2 || other == launchers().end()) continue;
    best = row_of(other->second, key, depth + 1);
  }
  return best;
}

// "meta-llama/Llama-3.1-8B-Instruct" as a name of models/: "llama-3.1-8b".
std::string model_file(const std::string& name) {
  std::string file = lower(name.substr(name.find_last_of('/') + 1));
  // A release's month: "-2507".
  if (const std::size_t dash = file.find_last_of('-');
      dash != std::string::npos && file.size() - dash == 5 &&
      file.find_first_not_of("0123456789", dash + 1) == std::string::npos)
    file.erase(dash);
  for (const char* suffix : {"-instruct", "-base", "-chat", "-hf", "-it", "-pt"})
    if (file.ends_with(suffix)) file.erase(file.size() - std::string_view(suffix).size());
  if (file.starts_with("meta-")) file.erase(0, 5);
  return file;
}

// Settings that decide the global batch and are no fields of a plan.
bool is_of_batch(std::string_view field) {
  return field == "accumulation" || field == "least_batch";
}

class KeyReader {
 public:
  KeyReader(const v1::Launcher& launcher, const LaunchValues& values, const std::string& text,
            const std::string& path)
      : launcher_(launcher), values_(values), text_(text), path_(path) {}

  LaunchFile run() {
    file_.arguments.framework = launcher_.framework();
    for (const std::string& setting : launcher_.always())
      out().settings.push_back({setting, path_});
    std::vector<std::string> left;
    for (const auto& [path, value] : values_) {
      const v1::LauncherKey* row = row_of(launcher_, path);
      if (row)
        read(*row, path, value);
      else if (!is_off_word(value.text()))
        left.push_back(path);
    }
    for (const v1::Product& product : launcher_.product()) multiply(product);
    for (const v1::Absent& absent : launcher_.absent()) fill(absent);
    if (!modules_.empty()) set(fmt::format("lora_modules={}", fmt::join(modules_, ",")), {{}, at_});
    forget_unused_adapters();
    name_unread(left);
    return std::move(file_);
  }

 private:
  MegatronArguments& out() { return file_.arguments; }

  std::string where(const LaunchValue& value) const {
    const shell::TextPosition place = shell::place(text_, value.at);
    return fmt::format("{}:{}:{}", path_, place.line, place.column);
  }

  void set(const std::string& setting, const LaunchValue& value) {
    const std::string field = setting.substr(0, setting.find('='));
    if (!is_of_batch(field)) return out().settings.push_back({setting, where(value)});
    const std::string number = setting.substr(field.size() + 1);
    std::from_chars(number.data(), number.data() + number.size(),
                    field == "accumulation" ? out().accumulation : out().least_batch);
  }

  // Each setting of a key whose value is unknown becomes missing.
  template <class Settings>
  void ask(const Settings& settings, const std::string& path, const LaunchValue& value) {
    for (const std::string& setting : settings) {
      const std::string field = setting.substr(0, setting.find('='));
      out().missing.push_back(
          {field == "accumulation" ? "global_batch" : field,
           {where(value), fmt::format("{} is {}, which this file does not decide; write {}=", path,
                                      value.text().substr(0, 80),
                                      field == "accumulation" ? "global_batch" : field)}});
    }
  }

  void read(const v1::LauncherKey& row, const std::string& path, const LaunchValue& value) {
    const std::string text = value.text();
    const bool is_unknown = value.is_unknown || text == "auto" || !reference_of(text).empty();
    const bool is_path = row.deepspeed() && !chosen_by(row, text);
    if (row.choice_size() > 0 && !is_path) return choose(row, path, value, is_unknown);
    const bool is_off = (is_off_word(text) && !value.is_list) ||
                        (text == "0" && !row.zero_counts()) ||
                        (text == "-1" && row.minus_is_default());
    if (is_off) return;
    if (row.has_refuse())
      return out().problems.push_back({where(value), fmt::format("{}: {}", path, row.refuse())});
    if (row.has_note())
      return out().notes.push_back(fmt::format("{} is not simulated: {}", path, row.note()));
    if (row.model()) return name_model(path, value);
    if (row.modules()) return name_modules(path, value);
    if (row.deepspeed()) return follow_deepspeed(path, value, is_unknown);
    if (row.has_adds()) {
      return name_modules(path, {{row.adds()}, value.at});
    }
    if (is_unknown) return ask(row.set(), path, value);
    for (const std::string& setting : row.set())
      set(setting.ends_with('=') ? setting + text : setting, value);
  }

  static bool chosen_by(const v1::LauncherKey& row, const std::string& text) {
    return std::ranges::any_of(row.choice(), [&](const v1::Choice& choice) {
      return std::ranges::count(choice.is(), lower(text)) > 0;
    });
  }

  bool is_on(const std::string& key) const {
    const auto at = values_.lower_bound(key);
    for (auto it = at; it != values_.end() && it->first.starts_with(key); ++it)
      if ((it->first.size() == key.size() || it->first[key.size()] == '.') &&
          !is_off_word(it->second.text()))
        return true;
    return false;
  }

  void fill(const v1::Absent& absent) {
    if (std::ranges::any_of(absent.key(), [this](const auto& key) { return is_on(key); })) return;
    if (absent.has_with() && !is_on(absent.with())) return;
    if (absent.has_refuse()) out().problems.push_back({path_, absent.refuse()});
    for (const std::string& setting : absent.set()) {
      const std::string field = setting.substr(0, setting.find('=') + 1);
      if (std::ranges::none_of(out().settings,
                               [&](const Setting& one) { return one.text.starts_with(field); }))
        set(setting, {});
    }
  }

  // Files that train the whole network may still describe adapters.
  void forget_unused_adapters() {
    const auto says = [&](std::string_view setting) {
      return std::ranges::any_of(out().settings,
                                 [&](const Setting& one) { return one.text.starts_with(setting); });
    };
    const bool none = says("adapters=false");
    if (!none && (says("adapters=true") || says("lora_rank=") || says("lora_modules="))) return;
    std::erase_if(out().settings, [&](const Setting& one) {
      return one.text.starts_with("lora_dropout=") || (none && one.text.starts_with("lora_"));
    });
  }

  void name_modules(const std::string& path, const LaunchValue& value) {
    const AdapterModules named = adapter_modules(value.words);
    modules_.insert(named.modules.begin(), named.modules.end());
    at_ = value.at;
    for (const std::string& other : named.others)
      out().notes.push_back(
          fmt::format("{}: an adapter beside {} is not simulated", path, other.substr(0, 80)));
  }

  void follow_deepspeed(const std::string& path, const LaunchValue& value, bool is_unknown) {
    const std::string name = value.text();
    const auto file = is_unknown ? std::nullopt : above(path_, name);
    if (!file) {
      out().missing.push_back(
          {"zero",
           {where(value),
            fmt::format("{} is {}, which is not found from the folder of this file; write zero= "
                        "with its stage",
                        path, name.substr(0, 80))}});
      return;
    }
    MegatronArguments said = read_deepspeed_of_trainer(file->text, file->path);
    for (Setting& setting : said.settings) out().settings.push_back(std::move(setting));
    std::ranges::move(said.notes, std::back_inserter(out().notes));
    std::ranges::move(said.problems, std::back_inserter(out().problems));
  }

  void choose(const v1::LauncherKey& row, const std::string& path, const LaunchValue& value,
              bool is_unknown) {
    const std::string word = lower(value.text());
    const v1::Choice* chosen = nullptr;
    for (const v1::Choice& choice : row.choice()) {
      if (std::ranges::count(choice.is(), word) > 0) chosen = &choice;
      if (choice.is_size() == 0 && !chosen && !is_off_word(word)) chosen = &choice;
    }
    if (!chosen && is_off_word(word)) return;
    if (!chosen || (is_unknown && std::ranges::count(chosen->is(), word) == 0)) {
      std::vector<std::string> words, settings;
      for (const v1::Choice& choice : row.choice()) {
        words.insert(words.end(), choice.is().begin(), choice.is().end());
        settings.insert(settings.end(), choice.set().begin(), choice.set().end());
      }
      if (is_unknown) {
        if (settings.size() > 1) settings.resize(1);
        return ask(settings, path, value);
      }
      return out().problems.push_back(
          {where(value), fmt::format("{} is {}; read are {}", path, value.text().substr(0, 80),
                                     fmt::join(words, ", "))});
    }
    if (chosen->has_refuse())
      out().problems.push_back({where(value), fmt::format("{}: {}", path, chosen->refuse())});
    if (chosen->has_note())
      out().notes.push_back(fmt::format("{} is not simulated: {}", path, chosen->note()));
    for (const std::string& setting : chosen->set())
      set(setting.ends_with('=') ? setting + word : setting, value);
  }

  void name_model(const std::string& path, const LaunchValue& value) {
    const std::string name = model_file(value.text());
    const std::vector<std::string> known = names(Kind::model);
    if (std::ranges::count(known, name) > 0) return set("model=" + name, value);
    out().missing.push_back(
        {"model",
         {where(value),
          fmt::format("{} is {}, and models/ has no file for it; write model= with a name of "
                      "models/ or the path of its config.json",
                      path, value.text().substr(0, 80))}});
  }

  // The whole number of a key; nothing if it is missing, or no number from 1 to 2^24.
  std::optional<std::int64_t> whole(const std::string& key) const {
    const auto found = values_.find(key);
    if (found == values_.end()) return std::nullopt;
    const std::string& text = found->second.text();
    std::int64_t n = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
    const bool is_whole = error == std::errc{} && end == text.data() + text.size();
    return is_whole && n >= 1 && n <= 1 << 24 ? std::optional(n) : std::nullopt;
  }

  bool holds(const v1::KeyIs& condition) const {
    const auto found = values_.find(condition.key());
    std::string word = found == values_.end() ? "" : lower(found->second.text());
    if (is_off_word(word)) word.clear();
    return std::ranges::count(condition.is(), word) > 0;
  }

  void multiply(const v1::Product& product) {
    if (!std::ranges::all_of(product.when(), [this](const auto& one) { return holds(one); }))
      return;
    constexpr std::int64_t most = std::int64_t{1} << 32;
    std::int64_t all = std::max<std::int64_t>(product.times(), 1);
    for (const std::string& key : product.key()) {
      const auto n = whole(key);
      if (!n || all > most) return;
      all *= *n;
    }
    for (const std::string& key : product.or_one()) {
      const auto found = values_.find(key);
      const bool is_missing = found == values_.end() || is_off_word(found->second.text());
      const auto n = is_missing ? std::optional<std::int64_t>(1) : whole(key);
      if (!n || all > most) return;
      all *= *n;
    }
    all /= std::max<std::int64_t>(product.divide(), 1);
    if (const std::int64_t unit = whole(product.round_to()).value_or(1); all <= most)
      all = (all + unit - 1) / unit * unit;
    set(fmt::format("{}={}", product.setting(), all), values_.find(product.key(0))->second);
  }

  void name_unread(const std::vector<std::string>& left) {
    if (left.empty()) return;
    constexpr std::size_t most = 24;
    const std::size_t shown = std::min(left.size(), most);
    out().notes.push_back(fmt::format(
        "not read: {}{}",
        fmt::join(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
        left.size() > most ? fmt::format(" and {} more", left.size() - most) : ""));
  }

  const v1::Launcher& launcher_;
  const LaunchValues& values_;
  const std::string& text_;
  const std::string& path_;
  LaunchFile file_;
  std::set<std::string> modules_;  // with adapters: "linear_qkv"
  std::size_t at_ = 0;             // place of the last key that names some
};

int effects_of(const v1::LauncherKey& row) {
  return static_cast<int>(row.set_size() > 0) + static_cast<int>(row.choice_size() > 0) +
         static_cast<int>(row.has_note()) + static_cast<int>(row.has_refuse()) +
         static_cast<int>(row.harmless()) + static_cast<int>(row.together()) +
         static_cast<int>(row.model()) + static_cast<int>(row.modules()) +
         static_cast<int>(row.has_adds()) +
         static_cast<int>(row.deepspeed() && row.choice_size() == 0);
}

const v1::Preset* find_preset(const v1::Launcher& launcher, std::string_view name) {
  for (const v1::Preset& preset : launcher.preset())
    if (std::ranges::count(preset.name(), name) > 0) return &preset;
  return nullptr;
}

// Adds "key=value key=value" of a preset after those of the presets that it is made of.
void add_preset(const v1::Launcher& launcher, const v1::Preset& preset, int depth,
                LaunchValues& to) {
  for (const std::string& name : preset.of())
    if (const v1::Preset* base = find_preset(launcher, name); base && depth < 8)
      add_preset(launcher, *base, depth + 1, to);
  for (const std::string& line : preset.value()) {
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      const std::size_t equals = std::min(word.find('='), word.size());
      LaunchValue& value = to[word.substr(0, equals)] = {};
      std::istringstream parts(word.substr(std::min(equals + 1, word.size())));
      for (std::string part; std::getline(parts, part, ',');) value.words.push_back(part);
      value.is_list = value.words.size() > 1;
    }
  }
}

bool is_included(const std::string& name) {
  return std::ranges::any_of(launchers(), [&](const auto& one) {
    return std::ranges::count(one.second.also(), name) > 0;
  });
}

}  // namespace

std::optional<LaunchFile> read_by_launcher(const LaunchValues& given, const std::string& text,
                                           const std::string& path) {
  // Some programs accept '-' for '_' in the names of keys.
  LaunchValues values;
  for (const auto& [key, value] : given) {
    std::string name = key;
    std::ranges::replace(name, '-', '_');
    values.emplace(std::move(name), value);
  }
  const std::string name = launcher_of(values);
  if (name.empty()) return std::nullopt;
  const v1::Launcher& launcher = launchers().find(name)->second;
  if (launcher.has_refuse())
    return refused_launch(path, fmt::format("{}: {}", launcher.line(), launcher.refuse()));
  return KeyReader(launcher, values, text, path).run();
}

std::optional<LaunchValues> preset_of(std::string_view name, std::string_view preset) {
  const auto launcher = launchers().find(name);
  if (launcher == launchers().end()) return std::nullopt;
  const v1::Preset* found = find_preset(launcher->second, preset);
  if (!found) return std::nullopt;
  LaunchValues values;
  add_preset(launcher->second, *found, 0, values);
  return values;
}

std::string launcher_of(const LaunchValues& values) {
  std::string found;
  for (const auto& [name, launcher] : launchers())
    if (signs(launcher, values) && (found.empty() || is_included(found))) found = name;
  return found;
}

std::pair<std::string, std::size_t> launcher_of(std::span<const shell::Word> words) {
  for (const auto& [name, launcher] : launchers())
    for (const std::string& command : launcher.command()) {
      std::size_t i = 0, start = 0;
      bool same = true;
      while (same && start < command.size()) {
        const std::size_t end = std::min(command.find(' ', start), command.size());
        same = i < words.size() && words[i].text == command.substr(start, end - start);
        start = end + 1;
        ++i;
      }
      if (same) return {name, i};
    }
  return {};
}

std::optional<MegatronArguments> read_rows(std::string_view name, const LaunchValues& values,
                                           const std::string& text, const std::string& path) {
  const auto launcher = launchers().find(name);
  if (launcher == launchers().end()) return std::nullopt;
  return KeyReader(launcher->second, values, text, path).run().arguments;
}

KeyEffect key_effect(std::string_view name, std::string_view key) {
  const auto launcher = launchers().find(name);
  const v1::LauncherKey* row =
      launcher == launchers().end() ? nullptr : row_of(launcher->second, key);
  if (!row) return KeyEffect::unknown;
  return row->has_note()     ? KeyEffect::noted
         : row->has_refuse() ? KeyEffect::refused
         : row->harmless()   ? KeyEffect::harmless
                             : KeyEffect::simulated;
}

std::vector<std::string> launcher_names() {
  std::vector<std::string> found;
  for (const auto& [name, launcher] : launchers()) found.push_back(name);
  return found;
}

Diagnostics launcher_problems(const std::string& path) {
  Source source(path);
  v1::Launcher launcher;
  Diagnostics problems = load(source, launcher);
  const auto check = [&](const auto& message, const auto& settings) {
    for (const std::string& setting : settings) {
      const std::string field = setting.substr(0, setting.find('='));
      if (!is_of_batch(field) && find_plan_field(field) == nullptr)
        problems.push_back({source.where(message), fmt::format("a plan has no field '{}'", field)});
    }
  };
  for (const v1::LauncherKey& row : launcher.key()) {
    if (effects_of(row) != 1)
      problems.push_back({source.where(row),
                          "a key has one effect: set, choice, note, refuse, harmless, together or "
                          "model"});
    check(row, row.set());
    for (const v1::Choice& choice : row.choice()) check(choice, choice.set());
  }
  for (const v1::Absent& absent : launcher.absent()) {
    check(absent, absent.set());
    if (absent.has_refuse() == (absent.set_size() > 0))
      problems.push_back({source.where(absent), "a missing key has one effect: set or refuse"});
  }
  check(launcher, launcher.always());
  for (const v1::Preset& preset : launcher.preset())
    for (const std::string& base : preset.of())
      if (find_preset(launcher, base) == nullptr)
        problems.push_back({source.where(preset), fmt::format("there is no preset '{}'", base)});
  for (const std::string& name : launcher.also())
    if (!launchers().contains(name))
      problems.push_back(
          {source.where(launcher, "also"), fmt::format("there is no launcher '{}'", name)});
  return problems;
}

}  // namespace sim::input
