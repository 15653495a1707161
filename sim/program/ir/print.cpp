#include "sim/program/ir/print.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace sim::program {
namespace {

constexpr std::uint64_t mixed(std::uint64_t h, std::uint64_t v) {
  h = (h ^ v) * 0x9e3779b97f4a7c15ull;
  return h ^ (h >> 29);
}

// Sinks for the printed lines: Text builds the text, Hash builds the fingerprint.
class Text {
 public:
  using Result = std::string;
  Text& operator<<(std::string_view word) {
    if (!result_.empty() && result_.back() != '\n') result_ += ' ';
    result_ += word;
    return *this;
  }
  template <class Number>
  requires std::is_arithmetic_v<Number> Text& operator<<(Number n) {
    return *this << std::string_view(fmt::format("{}", n));
  }
  Text& quoted(std::string_view word) {
    return *this << std::string_view('"' + std::string(word) + '"');
  }
  // Tensors and events: "^2", "%2" or "t3.1.0".
  Text& name(std::string_view sign, std::uint64_t a, std::optional<std::uint64_t> b = {},
             std::optional<std::uint64_t> c = {}) {
    std::string word = fmt::format("{}{}", sign, a);
    if (b) word += fmt::format(".{}", *b);
    if (c) word += fmt::format(".{}", *c);
    return *this << std::string_view(word);
  }
  Text& indented() {
    result_ += " ";
    return *this;
  }
  void end() { result_ += '\n'; }
  void append(const Result& lines) { result_ += lines; }
  const Result& result() const { return result_; }

 private:
  std::string result_;
};

class Hash {
 public:
  using Result = std::uint64_t;
  Hash& operator<<(std::string_view word) {
    for (const char c : word) result_ = mixed(result_, static_cast<unsigned char>(c));
    result_ = mixed(result_, 256);
    return *this;
  }
  template <class Number>
  requires std::is_integral_v<Number> Hash& operator<<(Number n) {
    result_ = mixed(result_, static_cast<std::uint64_t>(n));
    return *this;
  }
  Hash& operator<<(double n) { return *this << std::bit_cast<std::uint64_t>(n); }
  Hash& quoted(std::string_view word) { return *this << word; }
  Hash& name(std::string_view sign, std::uint64_t a, std::optional<std::uint64_t> b = {},
             std::optional<std::uint64_t> c = {}) {
    return *this << static_cast<int>(sign.front()) << a << b.value_or(0) << c.value_or(0);
  }
  Hash& indented() { return *this; }
  void end() { result_ = mixed(result_, 257); }
  void append(Result lines) { result_ = mixed(result_, lines); }
  Result result() const { return result_; }

 private:
  std::uint64_t result_ = 14695981039346656037ull;
};

constexpr std::array op_names = {
    "alloc", "free",   "move",       "record_stream", "kernel",      "collective", "exchange",
    "wait",  "record", "sync_event", "sync_stream",   "sync_device", "host"};
constexpr std::array flag_names = {"joins",      "overlapped", "optimizer",
                                   "recomputed", "maybe",      "beside"};
constexpr std::array kind_names = {"gemm",      "attention forward", "attention backward",
                                   "norm",      "elementwise",       "softmax",
                                   "copy",      "reduction",         "optimizer",
                                   "embedding", "host copy",         "pageable copy",
                                   "CPU update"};
constexpr std::array role_names = {"forward", "input gradient", "weight gradient"};
constexpr std::array host_names = {
    "layer_forward", "layer_backward",  "microbatch",       "step",  "blocking_read", "data",
    "launches",      "experts_forward", "experts_backward", "expert",
    "graph",         "layer_forward_half", "layer_backward_half", "experts_forward_third",
    "experts_backward_third"};

template <class Enum, std::size_t N>
std::string_view named(const std::array<const char*, N>& names, Enum value) {
  return names.at(static_cast<std::size_t>(value));
}

// Name of a tensor or event: template, call, and index of the instruction that made it. 0: empty.
using Name = std::uint64_t;
constexpr Name name_of(std::uint64_t pattern, std::uint64_t call, std::uint64_t made) {
  return (pattern + 1) << 44 | call << 24 | made;
}

// The names of all slots, or of all events, and a hash over them.
class Names {
 public:
  Name at(std::size_t i) const { return i < names_.size() ? names_[i] : 0; }
  void set(std::size_t i, Name name) {
    if (i >= names_.size()) names_.resize(i + 1, 0);
    hash_ ^= weight(i, names_[i]) ^ weight(i, name);
    names_[i] = name;
  }
  std::uint64_t hash() const { return hash_; }

 private:
  static std::uint64_t weight(std::size_t i, Name name) {
    return name == 0 ? 0 : mixed(mixed(0x2545f4914f6cdd1dull, i), name);
  }
  std::vector<Name> names_;
  std::uint64_t hash_ = 0;
};

// The inputs and outputs of a block: tensors by slot, and events.
struct BlockView {
  using Key = std::pair<Space, std::uint32_t>;
  std::uint32_t number = 0;  // equal for blocks with equal content
  std::vector<Key> tensors_in;
  std::vector<std::size_t> named;  // inputs that a printed instruction uses, in order
  std::vector<std::uint32_t> events_in;
  // Content of a slot after the block: tensor made here (>= 0), input (-2 - index), empty (-1).
  std::map<Key, std::int64_t> tensors_out;
  std::map<std::uint32_t, std::int64_t> events_out;  // by the instruction that set them
};

template <class Sink>
class Printer {
 public:
  explicit Printer(const Program& program) : program_(program), views_(program.blocks.size()) {
    frames_.assign(program.frames, std::make_shared<Names>());
    for (const model::Operation& o : program.operations) operations_.push_back(line(o));
  }

  typename Sink::Result run() {
    head();
    section("set-up", program_.setup);
    section("first step", program_.first_step);
    section("step", program_.step);
    out_ << "cuts";
    for (const std::uint32_t cut : program_.cuts) out_ << cut;
    out_.end();
    return out_.result();
  }

 private:
  struct Memo {
    std::uint32_t walk;
    std::shared_ptr<const Names> frame, fixed, events;
  };

  void head() {
    out_ << "stage" << program_.stage << "cp" << program_.cp_rank << "ranks" << program_.ranks
         << "layers" << program_.layers << "parameters" << program_.parameters << "frames"
         << program_.frames << "communicators";
    for (const Stream s : program_.communicators) out_ << name(s);
    out_.end();
  }

  void section(std::string_view title, const std::vector<Pass>& passes) {
    out_ << title;
    out_.end();
    for (const Pass& pass : passes) {
      const std::uint32_t walk = this->walk(pass);
      out_ << "pass template" << pattern(pass.pattern) << "walk" << walk << "microbatch"
           << pass.microbatch << "frame" << pass.frame;
      if (pass.acquires) out_ << "acquires";
      if (pass.releases) out_ << "releases";
      if (pass.steady) out_ << "steady";
      out_.end();
    }
  }

  std::uint32_t pattern(std::uint32_t index) {
    return patterns_.try_emplace(index, static_cast<std::uint32_t>(patterns_.size())).first->second;
  }

  // Runs a pass; a template that is handed the same as before leaves the same as before.
  std::uint32_t walk(const Pass& pass) {
    std::shared_ptr<const Names>& frame = frame_of(pass.frame);
    const auto key = std::tuple(pass.pattern, frame->hash(), fixed_->hash(), events_->hash());
    auto memo = memos_.find(key);
    if (memo == memos_.end()) memo = memos_.emplace(key, run(pass, *frame)).first;
    frame = memo->second.frame;
    fixed_ = memo->second.fixed;
    events_ = memo->second.events;
    return memo->second.walk;
  }

  std::shared_ptr<const Names>& frame_of(std::uint32_t frame) {
    while (frames_.size() <= frame) frames_.push_back(std::make_shared<Names>());
    return frames_[frame];
  }

  Memo run(const Pass& pass, const Names& frame_before) {
    const Template& t = program_.templates[pass.pattern];
    const std::uint32_t number = pattern(pass.pattern);
    Names frame = frame_before, fixed = *fixed_, events = *events_;
    Sink lines;
    lines << "template" << number << name(t.kind) << "chunk" << t.chunk;
    lines.end();
    for (std::size_t call = 0; call < t.calls.size(); ++call)
      run(t.calls[call], name_of(number, call, 0), frame, fixed, events, lines);
    const auto [it, added] =
        walks_.try_emplace(lines.result(), static_cast<std::uint32_t>(walks_.size()));
    if (added) {
      out_ << "walk" << it->second;
      out_.end();
      out_.append(lines.result());
    }
    return {it->second, std::make_shared<Names>(std::move(frame)),
            std::make_shared<Names>(std::move(fixed)), std::make_shared<Names>(std::move(events))};
  }

  void run(const Call& call, Name made, Names& frame, Names& fixed, Names& events, Sink& lines) {
    const BlockView& block = view(call.block);
    lines.indented();
    lines << "call block" << block.number << "layer" << call.layer;
    const auto holder = [&](const BlockView::Key& key) -> std::pair<Names&, std::size_t> {
      switch (key.first) {
        case Space::fixed:
          return {fixed, 2 * std::size_t{key.second}};
        case Space::local:
          return {fixed, 2 * std::size_t{key.second} + 1};
        case Space::microbatch:
          return {frame, key.second};
        case Space::layer:
          break;
      }
      return {frame, std::size_t{call.layer_base} + key.second};
    };
    const auto say = [&](Name name) {
      if (name == 0)
        lines << "-";
      else
        lines.name("t", (name >> 44) - 1, name >> 24 & 0xfffff, name & 0xffffff);
    };
    std::vector<Name> in;
    for (const BlockView::Key& key : block.tensors_in) {
      const auto [names, at] = holder(key);
      in.push_back(names.at(at));
    }
    for (const std::size_t handed : block.named) say(in[handed]);
    for (const std::uint32_t event : block.events_in) say(events.at(event));
    lines.end();
    for (const auto& [key, what] : block.tensors_out) {
      const auto [names, at] = holder(key);
      names.set(at, what >= 0    ? made + static_cast<Name>(what)
                    : what == -1 ? 0
                                 : in[static_cast<std::size_t>(-2 - what)]);
    }
    for (const auto& [event, what] : block.events_out)
      events.set(event, made + static_cast<Name>(what));
  }

  const BlockView& view(std::uint32_t index) {
    std::unique_ptr<BlockView>& known = views_[index];
    if (!known) known = std::make_unique<BlockView>(look(program_.blocks[index]));
    return *known;
  }

  BlockView look(const Block& block) {
    BlockView view;
    Sink lines;
    std::int64_t made = 0, instruction = 0;
    // A tensor's name inside the block; what the block did not make itself it was handed.
    const auto held = [&](const BlockView::Key& key) -> std::int64_t& {
      const auto [it, unknown] = view.tensors_out.try_emplace(key, 0);
      if (unknown) {
        it->second = -2 - static_cast<std::int64_t>(view.tensors_in.size());
        view.tensors_in.push_back(key);
      }
      return it->second;
    };
    const auto say = [&](std::int64_t tensor) {
      if (tensor == -1) {
        lines << "-";
      } else if (tensor >= 0) {
        lines.name("%", static_cast<std::uint64_t>(tensor));
      } else {
        const auto handed = static_cast<std::size_t>(-2 - tensor);
        const auto it = std::find(view.named.begin(), view.named.end(), handed);
        lines.name("^", static_cast<std::uint64_t>(it - view.named.begin()));
        if (it == view.named.end()) view.named.push_back(handed);
      }
    };
    for (const Instruction& i : block.code) {
      const BlockView::Key key{i.space, i.index};
      if (i.op == Op::move) {
        std::int64_t& from = held(key);
        const std::int64_t tensor = std::exchange(from, -1);
        const Slot to = destination(i);
        view.tensors_out[{to.space, to.index}] = tensor;
        continue;
      }
      lines.indented();
      lines << named(op_names, i.op);
      if (i.op == Op::alloc) {
        say(view.tensors_out[key] = made++);
        lines << i.value << name(i.category) << name(i.stream);
        lines.quoted(program_.labels[i.label]);
      } else if (i.op == Op::free) {
        say(std::exchange(held(key), -1));
      } else if (i.op == Op::record_stream) {
        say(held(key));
        lines << name(i.stream);
      } else {
        work(i, lines);
        event(i, instruction, view, lines);
      }
      for (std::size_t flag = 0; flag < flag_names.size(); ++flag)
        if (i.flags >> flag & 1) lines << flag_names[flag];
      lines.end();
      ++instruction;
    }
    number(block, lines, view);
    return view;
  }

  // Blocks that do the same have one number; a new one is printed.
  void number(const Block& block, const Sink& lines, BlockView& view) {
    Sink whole;
    whole << "block";
    whole.quoted(block.name).end();
    whole.append(lines.result());
    const auto [it, added] =
        blocks_.try_emplace(whole.result(), static_cast<std::uint32_t>(blocks_.size()));
    view.number = it->second;
    if (!added) return;
    out_ << "number" << it->second;
    out_.end();
    out_.append(whole.result());
  }

  void work(const Instruction& i, Sink& lines) {
    if (i.op == Op::host) {
      lines << named(host_names, i.index) << i.value;
      return;
    }
    if (i.op != Op::sync_device) lines << name(i.stream);
    if (i.op == Op::kernel) lines << operations_[i.index];
    if (i.op == Op::collective) {
      const Transfer& t = program_.transfers[i.index];
      lines << collective::name(t.kind) << name(t.communicator) << t.bytes.n;
      if (t.pieces > 1) lines << "pieces" << t.pieces;
      if (t.choices.of_token > 0)
        lines << "choices" << t.choices.of_token << t.choices.groups << t.choices.top_groups;
      if (t.route != 0) lines << "route" << t.route;
      if (t.followed) lines << "followed";
    }
    if (i.op == Op::exchange) {
      const Exchange& exchange = program_.exchanges[i.index];
      lines << name(exchange.communicator);
      for (const Message& m : exchange.messages)
        lines << (m.send ? "send" : "receive") << m.peer_offset << "channel" << int{m.channel}
              << m.bytes.n;
    }
    if (i.op != Op::wait && i.op != Op::record) lines.quoted(program_.labels[i.label]);
  }

  void event(const Instruction& i, std::int64_t instruction, BlockView& view, Sink& lines) {
    if (i.event == 0) return;
    if (i.op != Op::wait && i.op != Op::sync_event) {
      view.events_out[i.event] = instruction;
      lines << "sets an event";
      return;
    }
    if (const auto it = view.events_out.find(i.event); it != view.events_out.end()) {
      lines.name("!", static_cast<std::uint64_t>(it->second));
      return;
    }
    std::size_t index = 0;
    while (index < view.events_in.size() && view.events_in[index] != i.event) ++index;
    if (index == view.events_in.size()) view.events_in.push_back(i.event);
    lines.name("?", index);
  }

  static typename Sink::Result line(const model::Operation& o) {
    Sink s;
    s << named(kind_names, o.kind) << static_cast<int>(o.precision);
    s.quoted(o.name);
    s << o.m << o.n << o.k << o.batch << named(role_names, o.role) << o.accumulates_fp32 << o.heads
      << o.kv_heads << o.head_dim << o.query << o.key << o.causal;
    s.quoted(o.implementation);
    s << o.blocks << o.flops << o.bytes.n;
    if (o.window > 0) s << "window" << o.window;
    return s.result();
  }

  const Program& program_;
  Sink out_;
  std::vector<typename Sink::Result> operations_;
  std::vector<std::unique_ptr<BlockView>> views_;
  std::map<typename Sink::Result, std::uint32_t> blocks_, walks_;
  std::map<std::uint32_t, std::uint32_t> patterns_;
  std::map<std::tuple<std::uint32_t, std::uint64_t, std::uint64_t, std::uint64_t>, Memo> memos_;
  std::vector<std::shared_ptr<const Names>> frames_;
  std::shared_ptr<const Names> fixed_ = std::make_shared<Names>(),
                               events_ = std::make_shared<Names>();
};

}  // namespace

std::string print(const Program& program) {
  return Printer<Text>(program).run();
}

std::uint64_t fingerprint(const Program& program) {
  return Printer<Hash>(program).run();
}

}  // namespace sim::program
