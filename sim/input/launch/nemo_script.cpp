#include "sim/input/launch/nemo_script.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "sim/base/ascii.h"
#include "sim/input/launch/launch_files.h"
#include "sim/input/launch/launch_values.h"
#include "sim/input/launch/megatron_keys.h"
#include "sim/input/launch/python/run.h"

namespace sim::input {
namespace {

using python::Followed;
using python::Object;
using python::Unread;
using python::Value;

constexpr std::string_view nemo_launcher = "nemo-2";  // workloads/launchers

bool is_recipe(const Object& one) {
  return one.name() == "pretrain_recipe" || one.name() == "finetune_recipe";
}

// A call that trains: llm.pretrain(model, data, trainer), trainer.fit(model, data), a recipe.
bool trains(const Object& one) {
  const std::string name = one.name();
  if (is_recipe(one)) return true;
  if (name == "fit") return one.of != nullptr && one.of->name() == "Trainer";
  const bool is_api = name == "pretrain" || name == "train" || name == "finetune";
  return is_api && (one.positional.size() > 2 || one.fields.contains("trainer"));
}

// PyTorch's names of types, as Megatron-LM's arguments have them.
std::string type_of(const std::string& name) {
  constexpr std::array<std::array<std::string_view, 2>, 7> types = {{{"bfloat16", "bf16"},
                                                                     {"float16", "fp16"},
                                                                     {"half", "fp16"},
                                                                     {"float32", "fp32"},
                                                                     {"float", "fp32"},
                                                                     {"uint8", "fp8"},
                                                                     {"float8_e4m3fn", "fp8"}}};
  for (const auto& [torch, ours] : types)
    if (torch == name) return std::string(ours);
  return name;
}

// [0, 0, 1, 1, 1] as ([0]*2+[1]*3), the text of a list that a plan has.
std::string runs_of(const std::vector<std::string>& words) {
  std::string all;
  for (std::size_t i = 0; i < words.size();) {
    std::size_t end = i;
    while (end < words.size() && words[end] == words[i]) ++end;
    all += fmt::format("{}[{}]*{}", all.empty() ? "(" : "+", words[i], end - i);
    i = end;
  }
  return all + ")";
}

class ScriptReader {
  using Kind = Value::Kind;

 public:
  ScriptReader(const std::string& text, const std::string& path, Followed followed)
      : text_(text), path_(path), followed_(std::move(followed)) {}

  LaunchFile run() {
    const Object* root = first_training();
    if (root == nullptr)
      return refused_launch(
          path_, fmt::format("a Python script that calls no llm.pretrain(...), llm.train(...) and "
                             "no recipe of NeMo 2 (llm.llama3_8b.pretrain_recipe()); {}",
                             "write the settings instead: model= tp= pp= micro_batch= ..."));
    gather(*root);
    for (const auto& [name, value] : followed_.environment) add("ENV_VARS." + name, value);
    consistent();
    take_harmless();
    LaunchFile file = read_megatron_keys(values_, text_, path_);
    MegatronArguments& out = file.arguments;
    if (is_recipe(*root)) out.framework = "nemo";
    std::ranges::move(notes_, std::back_inserter(out.notes));
    std::ranges::move(problems_, std::back_inserter(out.problems));
    std::ranges::move(missing_, std::back_inserter(out.missing));
    note_unread(out);
    return file;
  }

 private:
  std::string where(std::size_t at) const {
    const shell::TextPosition place = shell::place(text_, at);
    return fmt::format("{}:{}:{}", path_, place.line, place.column);
  }

  const Object* first_training() {
    const Object* first = nullptr;
    int count = 0;
    for (const Object& one : followed_.objects) {
      if (!trains(one)) continue;
      if (first == nullptr) first = &one;
      ++count;
    }
    if (count > 1)
      notes_.push_back(
          fmt::format("the script trains {} times; the first one is simulated", count));
    return first;
  }

  // --- keys ---

  LaunchValue launch_value(const Value& value) const {
    LaunchValue made;
    made.at = value.at;
    made.is_list = value.is(Kind::list);
    made.is_unknown = value.is(Kind::unknown);
    if (value.is(Kind::list)) {
      for (const Value& item : *value.items) {
        const LaunchValue one = launch_value(item);
        made.is_unknown = made.is_unknown || one.is_unknown;
        if (!one.is_list) made.words.push_back(one.text());
      }
    } else if (value.is(Kind::object)) {
      made.is_unknown = true;
      made.words.push_back(value.object->name() + "()");
    } else if (value.is(Kind::path)) {
      made.words.push_back(value.text.starts_with("torch.") ? type_of(value.name()) : value.name());
    } else {
      made.words.push_back(value.text);
    }
    return made;
  }

  void add(const std::string& key, const Value& value) {
    if (value.is(Kind::missing)) return;
    // `seq_length=recipe.data.seq_length` says nothing new.
    if (value.is(Kind::unknown) && values_.contains(key) &&
        value.text.find('.') != value.text.npos &&
        value.text.substr(value.text.find('.') + 1) == key)
      return;
    values_[key] = launch_value(value);
  }

  // All fields of an object, but those that the caller reads on its own.
  void add_all(const std::string& section, const Object& one,
               std::initializer_list<std::string_view> but = {}) {
    for (const auto& [name, value] : one.fields)
      if (std::ranges::count(but, name) == 0) add(section + name, value);
  }

  // The values that a class or a recipe brings. False: the file has no such class.
  bool preset(const std::string& name) {
    const auto brought = preset_of(nemo_launcher, name);
    if (!brought) return false;
    for (const auto& [key, value] : *brought) values_[key] = value;
    return true;
  }

  static Value argument(const Object& one, std::string_view name, std::size_t position) {
    const Value field = one.field(name);
    if (!field.is(Kind::missing) || position >= one.positional.size()) return field;
    return one.positional[position];
  }

  // --- the objects of a training ---

  void gather(const Object& root) {
    if (is_recipe(root)) recipe(root);
    const bool fits = root.name() == "fit";
    const Value network = part(root, "model", 0);
    model(network);
    data(part(root, fits ? "datamodule" : "data", 1));
    optimizer(root, network);
    const Value trainer_of = part(root, "trainer", 2);
    if (fits)
      trainer(*root.of);
    else if (trainer_of.is(Kind::object))
      trainer(*trainer_of.object);
    else if (!is_recipe(root))
      ask("gpus", trainer_of, "the trainer");
    adapters(root.field("peft"));
  }

  // A part of a training; recipes have other arguments.
  static Value part(const Object& root, std::string_view name, std::size_t position) {
    return is_recipe(root) ? root.field(name) : argument(root, name, position);
  }

  void ask(const std::string& setting, const Value& value, const std::string& what) {
    missing_.push_back({setting,
                        {where(value.at),
                         fmt::format("{} is {}, which the script does not define; write {}=", what,
                                     value.text.empty() ? "missing" : value.text, setting)}});
  }

  // llm.llama3_8b.pretrain_recipe(num_nodes=2): its name is the part before.
  void recipe(const Object& root) {
    const std::size_t dot = root.path.find_last_of('.');
    const std::string_view before =
        std::string_view(root.path).substr(0, std::min(dot, root.path.size()));
    const std::string name(before.substr(before.find_last_of('.') + 1));
    if (!preset(name))
      missing_.push_back(
          {"model",
           {where(root.at),
            fmt::format("the recipe {} is none of those that are read; write model=, tp=, pp=, "
                        "sequence= and the other settings of the recipe",
                        name)}});
    add("trainer.num_nodes", root.field("num_nodes"));
    add("trainer.devices", root.field("num_gpus_per_node"));
    if (const Value mode = root.field("performance_mode"); mode.text == "True")
      preset(name + ".performance_mode");
    if (root.name() == "finetune_recipe")
      notes_.push_back("fine-tuning is simulated as training on whole sequences");
  }

  void model(const Value& made) {
    if (!made.is(Kind::object)) {
      if (made.is(Kind::unknown)) ask("model", made, "the model");
      return;
    }
    const Value config = argument(*made.object, "config", 0);
    tokenizer(made.object->field("tokenizer"));
    if (!config.is(Kind::object)) {
      if (config.is(Kind::path) && preset(config.name())) return;
      if (!made.object->path.empty() && !preset(made.object->name()))
        ask("model", Value{Kind::unknown, made.object->name(), made.at, nullptr, nullptr},
            "the network");
      return;
    }
    const std::string name = config.object->name();
    if (!name.empty() && !preset(name))
      ask("model", Value{Kind::unknown, name, config.at, nullptr, nullptr}, "the network's class");
    add_all("model.", *config.object);
  }

  void data(const Value& made) {
    if (!made.is(Kind::object)) return;
    preset(made.object->name());
    add_all("data.", *made.object, {"tokenizer", "paths"});
    tokenizer(made.object->field("tokenizer"));
  }

  void tokenizer(const Value& made) {
    if (!made.is(Kind::object) || made.object->path.empty()) return;
    const Object& one = *made.object;
    for (const char* key : {"tokenizer.type", "tokenizer.model", "tokenizer.vocab_size"})
      values_.erase(key);
    if (one.name() == "get_nmt_tokenizer") {
      add("tokenizer.type", argument(one, "model_name", 1));
      add("tokenizer.vocab_size", one.field("vocab_size"));
    } else if (!one.positional.empty()) {
      add("tokenizer.model", one.positional.front());
    } else {
      add("tokenizer.model", one.field("pretrained_model_name"));
    }
  }

  void trainer(const Object& one) {
    if (!one.path.empty()) preset(one.name());
    for (const char* key : {"devices", "num_nodes", "precision"})
      add(std::string("trainer.") + key, one.field(key));
    const Value strategy = one.field("strategy");
    if (strategy.is(Kind::object)) {
      const std::string name = strategy.object->name();
      if (name.starts_with("FSDP"))
        problems_.push_back({where(strategy.at),
                             fmt::format("{} is not read; write data_parallel=fsdp2 and the other "
                                         "settings, without the script",
                                         name)});
      if (!name.empty()) preset(name);
      add_all("trainer.strategy.", *strategy.object, {"ddp"});
      const Value ddp = strategy.object->field("ddp");
      if (ddp.is(Kind::object)) {
        if (!ddp.object->path.empty()) preset("DistributedDataParallelConfig");
        add_all("ddp.", *ddp.object);
      }
      fsdp(strategy.object->field("fsdp"));
    }
    precision(one.field("plugins"));
    callbacks(one.field("callbacks"));
  }

  void fsdp(const Value& kind) {
    values_.erase("trainer.strategy.fsdp");
    if (kind.text == "megatron")
      values_["ddp.use_megatron_fsdp"] = {{"true"}, kind.at};
    else if (const auto custom = values_.find("ddp.use_custom_fsdp");
             custom == values_.end() || is_off_word(custom->second.text()))
      values_.erase("ddp.data_parallel_sharding_strategy");  // only Megatron-FSDP reads it
  }

  // MegatronMixedPrecision, a function that makes one (bf16_mixed()), or a list with it.
  void precision(const Value& plugins) {
    if (plugins.is(Kind::list)) {
      for (const Value& one : *plugins.items) precision(one);
      return;
    }
    if (!plugins.is(Kind::object)) return add("trainer.plugins.precision", plugins);
    const Object& one = *plugins.object;
    if (!one.path.empty() && !preset(one.name()))
      return notes_.push_back(
          fmt::format("{}: the plugin {} is not simulated", where(one.at), one.name()));
    for (const auto& [name, value] : one.fields)
      add(name == "precision"             ? "trainer.plugins.precision"
          : name == "fp8_params"          ? "model.fp8_param_gather"
          : name == "grad_reduce_in_fp32" ? "ddp." + name
                                          : "model." + name,
          value);
    if (!one.positional.empty()) add("trainer.plugins.precision", one.positional.front());
  }

  // MegatronCommOverlapCallback sets the overlaps of the model, and those of gradients if the
  // optimizer is distributed.
  void callbacks(const Value& all) {
    if (!all.is(Kind::list)) return;
    const auto sharded = values_.find("optimizer.use_distributed_optimizer");
    const bool of_gradients = sharded != values_.end() && !is_off_word(sharded->second.text());
    for (const Value& one : *all.items) {
      if (!one.is(Kind::object) || one.object->name() != "MegatronCommOverlapCallback") continue;
      values_["model.tp_comm_overlap"] = {{"false"}, 0};
      if (of_gradients) preset(one.object->name());
      for (const auto& [name, value] : one.object->fields) {
        const bool is_of_gradients = name.starts_with("overlap_grad") ||
                                     name.starts_with("overlap_param") ||
                                     name == "align_param_gather" || name == "bucket_size";
        if (of_gradients || !is_of_gradients)
          add((is_of_gradients ? "ddp." : "model.") + name, value);
      }
    }
  }

  // The optimizer of the call, or that of the model. Its configuration decides about the
  // distributed optimizer [nemo/lightning/pytorch/strategies/megatron_strategy.py:connect].
  void optimizer(const Object& root, const Value& network) {
    Value made = root.field("optim");
    if ((made.is(Kind::missing) || made.is(Kind::nothing)) && network.is(Kind::object))
      made = network.object->field("optim");
    const bool is_named = made.is(Kind::object) && !made.object->path.empty();
    if (!made.is(Kind::object)) {
      if (!is_recipe(root)) preset("optimizer");
      return;
    }
    if (is_named && !preset(made.object->name()))
      notes_.push_back(fmt::format("{}: the optimizer {} is simulated as Adam", where(made.at),
                                   made.object->name()));
    const Value config = argument(*made.object, "config", 0);
    if (!config.is(Kind::object)) return;
    if (!config.object->path.empty()) preset("OptimizerConfig");
    add_all("optimizer.", *config.object);
  }

  void adapters(const Value& peft) {
    if (peft.is(Kind::missing) || peft.is(Kind::nothing)) return;
    if (!peft.is(Kind::object) || !preset(peft.object->name()))
      return problems_.push_back(
          {where(peft.at), "only adapters of LoRA are simulated: peft=llm.peft.LoRA(...)"});
    add_all("peft.", *peft.object);
  }

  // --- after all ---

  void consistent() {
    // The optimizer decides, and not `ddp`.
    if (values_.contains("optimizer.use_distributed_optimizer"))
      values_.erase("ddp.use_distributed_optimizer");
    const auto of = [&](const char* key) {
      const auto found = values_.find(key);
      return found == values_.end() ? nullptr : &found->second;
    };
    // The length of the data is that of the model; both must agree.
    if (const LaunchValue* length = of("data.seq_length")) {
      const LaunchValue* other = of("model.seq_length");
      if (other != nullptr && other->at > 0 && other->text() != length->text() &&
          !other->is_unknown && !length->is_unknown)
        problems_.push_back(
            {where(other->at), fmt::format("the model's seq_length is {}, but that of the data is "
                                           "{}; NeMo wants one length: write the same twice",
                                           other->text(), length->text())});
      values_["model.seq_length"] = *length;
    }
    // Learned positions have the length of the model.
    if (const LaunchValue* length = of("model.seq_length");
        length != nullptr && has_path(values_, "model.num_layers") &&
        !values_.contains("model.max_position_embeddings"))
      values_["model.max_position_embeddings"] = *length;
    if (of("model.vocab_size") != nullptr && !is_off_word(of("model.vocab_size")->text()))
      std::erase_if(values_, [](const auto& one) { return one.first.starts_with("tokenizer."); });
    if (const LaunchValue* offload = of("model.cpu_offloading"))
      if (!is_off_word(offload->text())) values_.erase("model.cpu_offloading");
    // Chunks follow from a layout.
    if (const LaunchValue* layout = of("trainer.strategy.pipeline_model_parallel_layout");
        layout != nullptr && !is_off_word(layout->text()))
      values_.erase("trainer.strategy.virtual_pipeline_model_parallel_size");
    if (const auto experts = values_.find("model.moe_layer_freq");
        experts != values_.end() && experts->second.is_list)
      experts->second = {{runs_of(experts->second.words)}, experts->second.at};
    if (const auto function = values_.find("model.activation_func"); function != values_.end())
      if (function->second.text() == "squared_relu")
        values_["model.activation"] = {{"squared-relu"}, function->second.at};
  }

  // Erases the keys without effect on a step.
  void take_harmless() {
    std::erase_if(values_, [&](const auto& one) {
      const std::string& key = one.first;
      const KeyEffect effect = key_effect(nemo_launcher, key);
      if (effect == KeyEffect::noted && !is_off_word(one.second.text()))
        notes_.push_back(fmt::format("{} is not simulated", key));
      return effect == KeyEffect::harmless || effect == KeyEffect::noted;
    });
  }

  void note_unread(MegatronArguments& out) const {
    std::set<std::string> seen;
    for (const Unread& one : followed_.unread) {
      const std::string place = where(one.at);
      std::string said;
      switch (one.kind) {
        case Unread::Kind::condition:
          said =
              fmt::format("{}: only the run decides '{}'; it is taken as false", place, one.text);
          break;
        case Unread::Kind::loop:
          said = fmt::format("{}: the body of the loop is not read", place);
          break;
        case Unread::Kind::assignment:
          said = fmt::format("{}: {} is not read: the script does not say whose field it is", place,
                             one.text);
          break;
        case Unread::Kind::keywords:
          said = fmt::format("{}: the arguments in {} are not read", place, one.text);
          break;
      }
      if (seen.insert(said).second) out.notes.push_back(std::move(said));
    }
  }

  const std::string& text_;
  const std::string& path_;
  Followed followed_;
  LaunchValues values_;
  std::vector<std::string> notes_;
  std::vector<Missing> missing_;
  Diagnostics problems_;
};

}  // namespace

LaunchFile read_nemo_script(const std::string& text, const std::string& path) {
  if (text.size() > max_launch_bytes) return refused_launch(path, "too large for a script");
  Followed followed = python::follow(text, &trains);
  if (!followed.problem.message.empty()) {
    const shell::TextPosition place = shell::place(text, followed.problem.at);
    return refused_launch(fmt::format("{}:{}:{}", path, place.line, place.column),
                          fmt::format("not Python that is read: {}", followed.problem.message));
  }
  if (followed.too_long)
    return refused_launch(path, "the script makes too many steps to follow; write a shorter one");
  return ScriptReader(text, path, std::move(followed)).run();
}

bool is_python(std::string_view text) {
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::size_t first = line.find_first_not_of(" \t\r");
    if (first == std::string_view::npos || line[first] == '#') continue;
    line.remove_prefix(first);
    const bool imports = line.starts_with("import ") ||
                         (line.starts_with("from ") && line.find(" import ") != line.npos);
    return imports || line.starts_with("\"\"\"") || line.starts_with("'''") ||
           line.starts_with("r\"\"\"");
  }
  return false;
}

}  // namespace sim::input
