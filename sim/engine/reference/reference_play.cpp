// reference_play.cpp — the event loop of the reference engine.
#include "sim/base/interruption.h"
#include "sim/engine/reference/reference_engine.h"

namespace sim::engine::reference {

void Reference::work() {
  while (!agenda_.empty()) {
    stay_interruptible();
    const Event event = agenda_.pop();
    switch (event.kind) {
      case Event::cpu:
        cpu_step(event.rank);
        break;
      case Event::finish:
        if (off_the_wire(event)) finish(event.rank, event.stream);
        break;
      case Event::message: {
        if (!off_the_wire(event)) break;
        const Post post = in_flight_.at(event.number).a;
        in_flight_.erase(event.number);
        if (--exchanging_.at({post.rank, at(post.stream)}).open == 0)
          finish(post.rank, at(post.stream));
        break;
      }
    }
  }
}

// Resolves a deadlock in which a real job would hang. Every CPU waits for its whole device before
// it frees memory, and every device waits for a message that another CPU has not issued yet. One
// CPU continues without the wait, so that the replay reports the memory.
bool Reference::let_one_allocate() {
  for (std::size_t c = 0; c < ranks_.size(); ++c) {
    Rank& r = *ranks_[c];
    if (r.at_end || !r.wait.on || !r.wait.for_memory) continue;
    r.wait.on = false;
    r.wait.until.clear();
    r.cpu = agenda_.now();
    agenda_.schedule(agenda_.now(), Event::cpu, {Event::cpu, static_cast<int>(c), 0, 0});
    return true;
  }
  return false;
}

}  // namespace sim::engine::reference
