// pickle_reader.cpp — the stack machine that builds the values of a pickle.
#include <bit>
#include <string>

#include "sim/allocator/recorded/pickle.h"
#include "sim/allocator/recorded/pickle_opcodes.h"

namespace sim::allocator {
namespace {

// Limits far above the largest snapshots. Together they bound memory to about 2 GiB.
constexpr std::size_t largest_input = std::size_t{1} << 30;
constexpr std::size_t most_values = 20'000'000;

}  // namespace

// The stack machine. A failed step sets error_; all later steps then do nothing.
class PickleReader {
 public:
  PickleReader(std::string_view bytes, std::string_view name) : bytes_(bytes), name_(name) {}

  Result<Pickle> read() {
    if (bytes_.size() > largest_input) {
      fail("longer than 1 GiB");
    } else if (bytes_.size() < 2 || take() != 0x80) {
      fail("not a pickle of protocol 2 or newer");
    } else {
      const unsigned char protocol = take();
      if (protocol < 2 || protocol > 5)
        fail("protocol " + std::to_string(protocol) + " is not 2 to 5");
    }
    while (error_.empty() && !done_) {
      start_ = position_;
      if (position_ >= bytes_.size()) {
        fail("ends before STOP");
      } else {
        step(take());
      }
    }
    if (!error_.empty()) {
      return Diagnostics{{std::string(name_) + ":" + std::to_string(start_), error_}};
    }
    return std::move(pickle_);
  }

 private:
  using Value = Pickle::Value;

  void fail(const std::string& message) {
    if (error_.empty()) error_ = message;
  }

  // Callers check `has` first.
  unsigned char take() { return static_cast<unsigned char>(bytes_[position_++]); }

  bool has(std::uint64_t n) {
    if (n <= bytes_.size() - position_) return true;
    fail("claims " + std::to_string(n) + " bytes, " + std::to_string(bytes_.size() - position_) +
         " are left");
    return false;
  }

  // Little endian, `width` bytes; 0 after a failure.
  std::uint64_t number(int width) {
    if (!has(static_cast<std::uint64_t>(width))) return 0;
    std::uint64_t value = 0;
    for (int i = 0; i < width; ++i) value |= std::uint64_t{take()} << (8 * i);
    return value;
  }

  std::string_view span(std::uint64_t length) {
    if (!error_.empty() || !has(length)) return {};
    const std::string_view part = bytes_.substr(position_, static_cast<std::size_t>(length));
    position_ += static_cast<std::size_t>(length);
    return part;
  }

  void push(const Value& value) {
    if (!error_.empty()) return;
    if (pickle_.values_.size() >= most_values) return fail("more than 20 million values");
    pickle_.values_.push_back(value);
    stack_.push_back(static_cast<PickleId>(pickle_.values_.size() - 1));
  }

  void push_integer(std::int64_t value, PickleKind kind = PickleKind::integer) {
    Value made;
    made.kind = kind;
    made.integer = value;
    push(made);
  }

  void push_text(std::uint64_t length, PickleKind kind) {
    Value made;
    made.kind = kind;
    made.text = span(length);
    push(made);
  }

  void push_container(PickleKind kind, std::vector<PickleId> children) {
    if (!error_.empty()) return;
    Value made;
    made.kind = kind;
    if (pickle_.children_.size() >= most_values) return fail("more than 20 million values");
    made.children = static_cast<std::int32_t>(pickle_.children_.size());
    pickle_.children_.push_back(std::move(children));
    push(made);
  }

  void push_long(std::uint64_t length) {
    const std::string_view digits = span(length);
    if (!error_.empty()) return;
    // 64 bits and, for large unsigned values, a zero byte on top.
    if (digits.size() > 9 || (digits.size() == 9 && digits[8] != 0) ||
        (digits.size() == 9 && (static_cast<unsigned char>(digits[7]) & 0x80) != 0)) {
      return fail("an integer wider than 64 bits");
    }
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < digits.size() && i < 8; ++i) {
      value |= std::uint64_t{static_cast<unsigned char>(digits[i])} << (8 * i);
    }
    const std::size_t width = digits.size();
    if (width > 0 && width < 8 && (static_cast<unsigned char>(digits.back()) & 0x80) != 0) {
      value |= ~std::uint64_t{0} << (8 * width);
    }
    push_integer(static_cast<std::int64_t>(value));
  }

  // Pops the values pushed since the last MARK, and the MARK itself.
  std::vector<PickleId> pop_to_mark() {
    if (marks_.empty()) {
      fail("needs a MARK, none is on the stack");
      return {};
    }
    const std::size_t from = marks_.back();
    marks_.pop_back();
    std::vector<PickleId> popped(stack_.begin() + static_cast<std::ptrdiff_t>(from), stack_.end());
    stack_.resize(from);
    return popped;
  }

  std::vector<PickleId> pop(std::size_t n) {
    if (!above_mark(n)) return {};
    std::vector<PickleId> popped(stack_.end() - static_cast<std::ptrdiff_t>(n), stack_.end());
    stack_.resize(stack_.size() - n);
    return popped;
  }

  bool above_mark(std::size_t n) {
    const std::size_t floor = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() >= floor + n) return true;
    fail("needs " + std::to_string(n) + " values on the stack, there are " +
         std::to_string(stack_.size() - floor));
    return false;
  }

  // Adds values to the list or dict on top of the stack.
  void extend(PickleKind kind, const std::vector<PickleId>& added) {
    if (!error_.empty() || !above_mark(1)) return;
    const Value& target = pickle_.at(stack_.back());
    if (target.kind != kind) {
      return fail(std::string("adds to ") + allocator::name(target.kind) + ", not " +
                  allocator::name(kind));
    }
    if (kind == PickleKind::dict && added.size() % 2 != 0) return fail("a key without a value");
    auto& children = pickle_.children_[static_cast<std::size_t>(target.children)];
    children.insert(children.end(), added.begin(), added.end());
  }

  void remember(std::uint64_t index) {
    if (!error_.empty() || !above_mark(1)) return;
    // Python numbers the memo from 0. A valid index never exceeds the number of bytes read.
    if (index > position_) return fail("memo index " + std::to_string(index) + " is out of reach");
    if (index >= memo_.size()) memo_.resize(static_cast<std::size_t>(index) + 1, no_value);
    memo_[static_cast<std::size_t>(index)] = stack_.back();
    if (index >= memoized_) memoized_ = index + 1;
  }

  void recall(std::uint64_t index) {
    if (!error_.empty()) return;
    if (index >= memo_.size() || memo_[static_cast<std::size_t>(index)] == no_value) {
      return fail("memo entry " + std::to_string(index) + " was never stored");
    }
    stack_.push_back(memo_[static_cast<std::size_t>(index)]);
  }

  void stop() {
    if (!marks_.empty() || stack_.size() != 1) {
      return fail("STOP with " + std::to_string(stack_.size()) + " values on the stack, not 1");
    }
    pickle_.root_ = stack_.back();
    done_ = true;
  }

  void step(unsigned char opcode) {
    switch (opcode) {
      case 0x95:
        span_ignored(number(8));
        return;  // FRAME
      case '.':
        return stop();
      case '(':
        return mark();
      case '0':
        return drop();  // POP
      case '1':
        pop_to_mark();
        return;  // POP_MARK
      case '2':
        return duplicate();  // DUP
      case 'N':
        return push_integer(0, PickleKind::none);
      case 0x88:
        return push_integer(1, PickleKind::boolean);
      case 0x89:
        return push_integer(0, PickleKind::boolean);
      case 'J':
        return push_integer(static_cast<std::int32_t>(number(4)));  // BININT
      case 'K':
        return push_integer(static_cast<std::int64_t>(number(1)));  // BININT1
      case 'M':
        return push_integer(static_cast<std::int64_t>(number(2)));  // BININT2
      case 0x8a:
        return push_long(number(1));  // LONG1
      case 0x8b:
        return push_long(number(4));  // LONG4
      case 'G':
        return push_real();
      case 0x8c:
        return push_text(number(1), PickleKind::text);  // SHORT_BINUNICODE
      case 'X':
        return push_text(number(4), PickleKind::text);  // BINUNICODE
      case 0x8d:
        return push_text(number(8), PickleKind::text);  // BINUNICODE8
      case 'C':
        return push_text(number(1), PickleKind::bytes);  // SHORT_BINBYTES
      case 'B':
        return push_text(number(4), PickleKind::bytes);  // BINBYTES
      case 0x8e:
        return push_text(number(8), PickleKind::bytes);  // BINBYTES8
      default:
        return step_container(opcode);
    }
  }

  void step_container(unsigned char opcode) {
    switch (opcode) {
      case ']':
        return push_container(PickleKind::list, {});
      case '}':
        return push_container(PickleKind::dict, {});
      case ')':
        return push_container(PickleKind::tuple, {});
      case 'l':
        return push_container(PickleKind::list, pop_to_mark());
      case 't':
        return push_container(PickleKind::tuple, pop_to_mark());
      case 'd': {
        const std::vector<PickleId> pairs = pop_to_mark();
        push_container(PickleKind::dict, {});
        return extend(PickleKind::dict, pairs);
      }
      case 0x85:
        return push_container(PickleKind::tuple, pop(1));  // TUPLE1
      case 0x86:
        return push_container(PickleKind::tuple, pop(2));  // TUPLE2
      case 0x87:
        return push_container(PickleKind::tuple, pop(3));  // TUPLE3
      case 'a':
        return extend(PickleKind::list, pop(1));  // APPEND
      case 'e':
        return extend(PickleKind::list, pop_to_mark());  // APPENDS
      case 's':
        return extend(PickleKind::dict, pop(2));  // SETITEM
      case 'u':
        return extend(PickleKind::dict, pop_to_mark());  // SETITEMS
      case 'q':
        return remember(number(1));  // BINPUT
      case 'r':
        return remember(number(4));  // LONG_BINPUT
      case 0x94:
        return remember(memoized_);  // MEMOIZE
      case 'h':
        return recall(number(1));  // BINGET
      case 'j':
        return recall(number(4));  // LONG_BINGET
      default:
        return refuse(opcode);
    }
  }

  void refuse(unsigned char opcode) {
    const char* const known = refused_opcode(opcode);
    constexpr const char* digits = "0123456789abcdef";
    const std::string code = {'0', 'x', digits[opcode >> 4], digits[opcode & 15]};
    fail("refused opcode " + (known != nullptr ? std::string(known) : code) +
         "; a memory snapshot holds plain data only");
  }

  // FRAME only announces the number of bytes that follow.
  void span_ignored(std::uint64_t length) {
    if (error_.empty()) has(length);
  }

  void mark() { marks_.push_back(stack_.size()); }

  void drop() {
    const std::size_t floor = marks_.empty() ? 0 : marks_.back();
    if (!marks_.empty() && stack_.size() == floor) {
      marks_.pop_back();
    } else if (above_mark(1)) {
      stack_.pop_back();
    }
  }

  void duplicate() {
    if (above_mark(1)) stack_.push_back(stack_.back());
  }

  // Big endian, unlike all other numbers.
  void push_real() {
    const std::string_view digits = span(8);
    if (!error_.empty()) return;
    std::uint64_t word = 0;
    for (const char c : digits) word = word << 8 | static_cast<unsigned char>(c);
    Value made;
    made.kind = PickleKind::real;
    made.real = std::bit_cast<double>(word);
    push(made);
  }

  std::string_view bytes_;
  std::string_view name_;
  std::size_t position_ = 0;
  std::size_t start_ = 0;  // of the opcode being executed
  bool done_ = false;
  std::string error_;
  Pickle pickle_;
  std::vector<PickleId> stack_;
  std::vector<std::size_t> marks_;
  std::vector<PickleId> memo_;
  std::uint64_t memoized_ = 0;
};

Result<Pickle> read_pickle(std::string_view bytes, std::string_view name) {
  return PickleReader(bytes, name).read();
}

}  // namespace sim::allocator
