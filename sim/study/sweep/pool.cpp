#include "sim/study/sweep/pool.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <new>
#include <optional>
#include <system_error>
#include <vector>

#include "sim/base/descriptor.h"
#include "sim/base/machine_error.h"
#include "sim/output/output.h"
#include "sim/output/record.h"

namespace sim::study {

namespace {

constexpr int tick_ms = 100;
constexpr int tick_of_ranks_ms = 1;
// Items in advance per worker of a rank, so that no worker waits for the network.
constexpr int ahead = 2;

struct Worker {
  pid_t process = -1;
  int to = -1, from = -1;
  std::optional<std::size_t> item;  // current item
  std::string received;

  bool alive() const { return process > 0; }
};

enum class Ending : std::uint64_t { answered, failed, killed };

struct Head {
  std::uint64_t item;
  std::uint64_t bytes;  // size of the text that follows: the answer or the reason of the failure
  Ending ending;
};

// How an item ended, with the answer or the reason of the failure.
struct Ended {
  Ending ending;
  std::string text;
};

std::string message(std::size_t item, const Ended& ended) {
  const Head head{item, ended.text.size(), ended.ending};
  return std::string(reinterpret_cast<const char*>(&head), sizeof head) + ended.text;
}

// The end of a worker by a signal: crashes are failures of the simulator, other signals come from
// outside.
Ended end_by_signal(int signal) {
  const std::string which = "signal " + std::to_string(signal) + " (" + ::strsignal(signal) + ")";
  for (const int crash : {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP})
    if (signal == crash) return {Ending::failed, "the simulator stopped with " + which};
  std::string outside = std::string(output::killed_from_outside) + " with " + which;
  if (signal == SIGKILL) outside += "; Linux does that when the host is out of memory";
  return {Ending::killed, outside};
}

// The loop of a worker: reads an item, writes its answer, until the parent closes the pipe or ends.
[[noreturn]] void serve(int from_parent, int to_parent, const PoolCalls& calls) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // Only the parent handles interrupts; a worker finishes its item.
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGTERM, SIG_IGN);
  std::signal(SIGHUP, SIG_IGN);
  std::uint64_t item = 0;
  while (read_exactly(from_parent, &item, sizeof item)) {
    Ended ended{Ending::answered, ""};
    try {
      ended.text = calls.answer(static_cast<std::size_t>(item));
    } catch (const std::bad_alloc&) {
      ended = {Ending::killed,
               std::string(output::killed_from_outside) + ": the host is out of memory"};
    } catch (const std::system_error& error) {  // base/machine_error.h
      const bool machine = is_machine_error(error.code().value());
      ended = {machine ? Ending::killed : Ending::failed,
               (machine ? std::string(output::killed_from_outside) + ": " : "") + error.what()};
    } catch (const std::exception& error) {
      ended = {Ending::failed, error.what()};
    }
    if (!output::write_all(to_parent, message(static_cast<std::size_t>(item), ended)).empty())
      break;
  }
  ::_exit(0);
}

class Pool {
 public:
  Pool(const std::vector<std::size_t>& items, const PoolCalls& calls, Ranks* ranks)
      : queue_(items.begin(), items.end()), calls_(calls), ranks_(ranks), total_(items.size()) {
    if (helps()) queue_.clear();
    if (ranks_ != nullptr) helpers_ = ranks_->size() - 1;
  }

  bool run(int workers) {
    struct sigaction ignore {};
    struct sigaction before {};
    ignore.sa_handler = SIG_IGN;
    ::sigaction(SIGPIPE, &ignore, &before);  // a dead worker is detected when its answer is read
    workers_.resize(static_cast<std::size_t>(workers));
    if (helps()) {
      for (int i = 0; i < ahead * workers; ++i) ranks_->send(0, "want");
    }
    for (Worker& worker : workers_) hand_out(worker);
    while (busy() || more_to_come() || refilled()) {
      wait_for_answers();
      if (stopped_ && calls_.abandon) abandon();
    }
    for (Worker& worker : workers_) bury(worker);
    if (helps()) ranks_->send(0, "bye");
    ::sigaction(SIGPIPE, &before, nullptr);
    if (!killed_.empty()) throw Killed(killed_);
    if (gave_up_ != 0 && !helps() && done_ < total_) throw NoWorker(gave_up_);
    return helps() || done_ == total_;
  }

 private:
  // Whether this rank has no items of its own.
  bool helps() const { return ranks_ != nullptr && ranks_->rank() > 0; }

  // Whether items from rank 0, or answers from other ranks, are still expected.
  bool more_to_come() const {
    if (ranks_ == nullptr) return false;
    return helps() ? !ended_ : helpers_ > 0;
  }

  // Requests further items and starts them.
  bool refilled() {
    if (!calls_.more || stopped_) return false;
    const std::vector<std::size_t> items = calls_.more();
    total_ += items.size();
    queue_.insert(queue_.end(), items.begin(), items.end());
    for (Worker& worker : workers_) hand_out(worker);
    return busy();
  }

  void store(std::size_t item, const Ended& ended) {
    ++done_;
    if (helps()) {
      ranks_->send(0, message(item, ended));
      if (!ended_) ranks_->send(0, "want");
    } else if (!told(item, ended)) {
      stopped_ = true;
    }
  }

  // Calls the caller's function for an item. False: stop.
  bool told(std::size_t item, const Ended& ended) {
    if (ended.ending == Ending::answered) return calls_.answered(item, ended.text);
    if (ended.ending == Ending::failed) return calls_.failed(item, ended.text);
    if (calls_.killed) return calls_.killed(item, ended.text);
    killed_ = ended.text;
    return false;
  }

  // Handles a message on rank 0: a request for an item, an answer, or "bye".
  void listen_to_helper(const RankMessage& message) {
    if (message.bytes == "bye") {
      --helpers_;
    } else if (message.bytes == "want") {
      if (stopped_ || queue_.empty()) {
        ranks_->send(message.from, "end");
      } else {
        const std::uint64_t item = queue_.front();
        queue_.pop_front();
        ranks_->send(message.from, {reinterpret_cast<const char*>(&item), sizeof item});
      }
    } else {
      Head head{};
      assert(message.bytes.size() >= sizeof head);
      std::memcpy(&head, message.bytes.data(), sizeof head);
      store(static_cast<std::size_t>(head.item), {head.ending, message.bytes.substr(sizeof head)});
    }
  }

  void listen_to_ranks() {
    while (const auto message = ranks_->receive()) {
      if (!helps()) {
        listen_to_helper(*message);
      } else if (message->bytes == "end") {
        ended_ = true;
      } else {
        std::uint64_t item = 0;
        assert(message->bytes.size() == sizeof item);
        std::memcpy(&item, message->bytes.data(), sizeof item);
        queue_.push_back(static_cast<std::size_t>(item));
      }
    }
    for (Worker& worker : workers_) {
      if (!worker.item) hand_out(worker);
    }
  }

  bool busy() const {
    return std::any_of(workers_.begin(), workers_.end(),
                       [](const Worker& worker) { return worker.item.has_value(); });
  }

  void start(Worker& worker) {
    int down[2];
    int up[2];
    if (::pipe2(down, O_CLOEXEC) != 0) {
      start_error_ = errno;
      return;
    }
    if (::pipe2(up, O_CLOEXEC) != 0) {
      start_error_ = errno;
      ::close(down[0]);
      ::close(down[1]);
      return;
    }
    const pid_t process = ::fork();
    if (process < 0) start_error_ = errno;
    if (process == 0) {
      // A worker closes the pipes of others; otherwise they would not notice the end of the parent.
      for (const Worker& other : workers_) {
        if (other.to >= 0) ::close(other.to);
        if (other.from >= 0) ::close(other.from);
      }
      ::close(down[1]);
      ::close(up[0]);
      serve(down[0], up[1], calls_);
    }
    ::close(down[0]);
    ::close(up[1]);
    if (process < 0) {
      ::close(down[1]);
      ::close(up[0]);
      return;
    }
    worker.process = process;
    worker.to = down[1];
    worker.from = up[0];
  }

  void hand_out(Worker& worker) {
    if (stopped_ || queue_.empty()) return;
    if (!calls_.go_on()) {
      stopped_ = true;
      return;
    }
    if (!worker.alive()) start(worker);
    if (!worker.alive()) {
      // If no process can be started, continues with the running ones, or gives up without any.
      if (!busy()) {
        stopped_ = true;
        gave_up_ = start_error_;
      }
      return;
    }
    worker.item = queue_.front();
    queue_.pop_front();
    const std::uint64_t item = *worker.item;
    if (output::write_all(worker.to, {reinterpret_cast<const char*>(&item), sizeof item}).empty())
      return;
    // The worker is dead. Its end is detected when its answer is read.
    ::close(worker.to);
    worker.to = -1;
  }

  void wait_for_answers() {
    std::vector<pollfd> waiting;
    std::vector<Worker*> whose;
    for (Worker& worker : workers_) {
      if (!worker.item) continue;
      waiting.push_back({worker.from, POLLIN, 0});
      whose.push_back(&worker);
    }
    const int ready =
        ::poll(waiting.data(), waiting.size(), ranks_ == nullptr ? tick_ms : tick_of_ranks_ms);
    if (!calls_.go_on()) stopped_ = true;
    // A stopped helper does not answer its items in advance.
    if (stopped_ && helps()) ended_ = true;
    for (std::size_t i = 0; ready > 0 && i < waiting.size(); ++i) {
      if (waiting[i].revents != 0) receive(*whose[i]);
    }
    if (ranks_ != nullptr) listen_to_ranks();
  }

  void abandon() {
    for (Worker& worker : workers_) {
      if (!worker.item) continue;
      ::kill(worker.process, SIGKILL);
      bury(worker);
    }
  }

  void receive(Worker& worker) {
    char part[1 << 16];
    const ssize_t got = ::read(worker.from, part, sizeof part);
    if (got < 0 && errno == EINTR) return;
    if (got <= 0) {
      const std::size_t item = *worker.item;
      store(item, bury(worker));
      hand_out(worker);
      return;
    }
    worker.received.append(part, static_cast<std::size_t>(got));
    Head head{};
    if (worker.received.size() < sizeof head) return;
    std::memcpy(&head, worker.received.data(), sizeof head);
    if (worker.received.size() < sizeof head + head.bytes) return;
    assert(head.item == *worker.item);
    const std::string answer = worker.received.substr(sizeof head);
    worker.received.clear();
    worker.item.reset();
    store(static_cast<std::size_t>(head.item), {head.ending, answer});
    hand_out(worker);
  }

  // Ends a worker and returns how it ended.
  Ended bury(Worker& worker) {
    if (!worker.alive()) return {Ending::failed, ""};
    if (worker.to >= 0) ::close(worker.to);
    ::close(worker.from);
    int status = 0;
    while (::waitpid(worker.process, &status, 0) < 0 && errno == EINTR) {
    }
    worker = Worker{};
    if (WIFSIGNALED(status)) return end_by_signal(WTERMSIG(status));
    if (WEXITSTATUS(status) ==
        0)  // it could not read its item or write its answer, or we could not
      return {Ending::killed,
              std::string(output::killed_from_outside) + ": a pipe to a worker process failed"};
    return {Ending::failed,
            "the simulator ended with status " + std::to_string(WEXITSTATUS(status))};
  }

  std::deque<std::size_t> queue_;  // items not yet started
  const PoolCalls& calls_;
  Ranks* ranks_;
  std::vector<Worker> workers_;
  std::size_t total_;
  std::size_t done_ = 0;
  int helpers_ = 0;     // ranks that have not sent "bye"
  bool ended_ = false;  // rank 0 has no more items for this rank
  bool stopped_ = false;
  std::string killed_;   // message about a killed worker, if the caller has no function for it
  int start_error_ = 0;  // error of the last failed start
  int gave_up_ = 0;      // the same, if no worker is running
};

}  // namespace

NoWorker::NoWorker(int error)
    : std::system_error(error, std::generic_category(),
                        "no worker process can be started (`ulimit -n` limits open files, "
                        "`ulimit -u` processes)") {}

bool run_pool(const std::vector<std::size_t>& items, int workers, const PoolCalls& calls,
              Ranks* ranks) {
  assert(workers >= 1);
  return Pool(items, calls, ranks).run(workers);
}

}  // namespace sim::study
