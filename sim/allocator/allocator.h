// allocator.h — PyTorch's CUDA caching allocator, block for block.
//
// DESCRIPTION. Memory comes from the driver in segments. A segment is a chain of blocks; a free
// block waits in the list of its pool and stream and is handed out best fit first, lowest address
// on a tie, split when the rest is worth keeping, merged with its neighbours when it returns.
// Everything is exact to the byte: sizes, addresses, the order of driver calls, the statistics,
// and the actions PyTorch's memory history records.
//
// Names. A pool is default or private (CUDA graphs, MemPool), small or large. A sub-pool is one
// pool's free memory of one stream; blocks never leave their sub-pool.
//
// Invariants
//  (1) The blocks of a segment tile it. Two neighbours are never both free in the same way.
//  (2) A block that is neither allocated nor pending is in exactly one list of its sub-pool: free
//  when
//      mapped, unmapped otherwise.
//  (3) The first block of a segment keeps its id for the life of the segment.
//  (4) A call is a pure function of the state and the driver's answers: no clock, no hashing.
//
// The rules are those of PyTorch's native backend, in two versions; where its own order follows a
// hash table (events of several streams that are reached at once) ours is by stream number.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sim/allocator/driver.h"
#include "sim/allocator/free_blocks/free_list.h"
#include "sim/allocator/options.h"
#include "sim/allocator/statistics.h"
#include "sim/base/units.h"

namespace sim::allocator {

// What PyTorch's memory history records, with its names.
enum class Action : std::uint8_t {
  alloc,
  free_requested,
  free_completed,
  segment_alloc,
  segment_free,
  segment_map,
  segment_unmap,
  oom,
};
const char* name(Action action);

struct TraceEntry {
  Action action = Action::alloc;
  std::int64_t address = 0;  // for oom: the device's free memory
  std::int64_t size = 0;     // requested bytes for alloc and free, rounded for oom, else bytes
  int stream = 0;

  friend bool operator==(const TraceEntry&, const TraceEntry&) = default;
};

enum class BlockState : std::uint8_t { active_allocated, active_pending_free, inactive };

struct BlockView {
  BlockId id = no_block;
  std::int64_t address = 0;
  std::int64_t size = 0;
  std::int64_t requested = 0;  // a free block remembers its last request
  BlockState state = BlockState::inactive;
};

// One cudaMalloc, or one contiguous mapped run of an expandable segment.
struct SegmentView {
  std::int64_t address = 0;
  std::int64_t total = 0;
  std::int64_t allocated = 0;
  std::int64_t active = 0;
  std::int64_t requested = 0;
  int stream = 0;
  int pool = 0;  // 0: the default pools
  bool small = false;
  bool expandable = false;
  std::vector<BlockView> blocks;
};

struct OutOfMemory {
  std::int64_t requested = 0;
  std::int64_t rounded = 0;
  std::int64_t segment = 0;  // what the driver was last asked for
  std::int64_t device_free = 0;
  int stream = 0;
};

struct PoolOptions {
  bool use_on_oom = false;      // newer: a last resort for everyone
  bool no_split = false;        // newer: hand out whole blocks
  bool user_allocator = false;  // never expandable
};

class Allocator {
 public:
  explicit Allocator(Driver& driver, Options options = {}, Rules rules = Rules::newer);

  // no_block when out of memory; last_out_of_memory() then says how.
  // REQUIRES: 0 < size <= largest_request.
  BlockId allocate(std::int64_t size, int stream = 0);
  // REQUIRES: block is allocated.
  void free(BlockId block);
  // The block is used on `stream` too: after free it waits for that stream.
  // REQUIRES: block is allocated.
  void record_stream(BlockId block, int stream);
  void empty_cache();
  // REQUIRES: 0 <= fraction <= 1.
  void set_memory_fraction(double fraction);
  void set_options(const Options& options) { options_ = options, refresh(); }

  // Private pools, by a number above 0. While a region is open, allocations go to its pool.
  void begin_pool(int pool, PoolOptions options = {});
  void end_pool(int pool);
  // REQUIRES: users_of(pool) > 0.
  void release_pool(int pool);
  int users_of(int pool) const;

  std::int64_t address(BlockId block) const { return at(block).address; }
  std::int64_t size(BlockId block) const { return at(block).size; }
  std::int64_t requested(BlockId block) const { return past(block).requested; }
  const Options& options() const { return options_; }
  Rules rules() const { return rules_; }
  const Statistics& statistics() const { return statistics_; }
  void reset_peaks() { statistics_.reset_peaks(); }
  const OutOfMemory& last_out_of_memory() const { return last_oom_; }
  Bytes reserved() const { return {total_}; }
  // The largest free block of the default large (or small) pool and stream; 0 if there is none.
  Bytes largest_free_block(int stream = 0, bool small = false) const;
  // Whether a request is answered from any free block that is large enough: no option turns one
  // away, rounds beyond 512 bytes or counts searches.
  bool takes_what_fits() const;
  // False: only allocated, active and reserved bytes and the counts of rare events are kept. For
  // replays that ask nothing else; segments and blocks do not depend on it.
  void set_detailed_statistics(bool detailed) { detailed_ = detailed; }

  // Trace actions are appended to `sink`; nullptr turns tracing off.
  void set_trace(std::vector<TraceEntry>* sink) { trace_ = sink; }

  std::vector<SegmentView> segments() const;  // by address
  // The same without a copy: calls begin(segment, a view without bytes and blocks) and then
  // visit(block) for each of its mapped blocks.
  template <class Begin, class Visit>
  void visit_segments(const Begin& begin, const Visit& visit) const {
    for (const auto& [base, segment] : segments_) {
      const Block& head = at(segment.head);
      const SubPool& home = sub_pool(head.sub_pool);
      begin(SegmentView{.address = base,
                        .stream = home.stream,
                        .pool = pool(home.pool).number,
                        .small = head.small,
                        .expandable = head.expandable,
                        .blocks = {}});
      for (BlockId id = segment.head; id != no_block; id = at(id).right)
        if (at(id).mapped) visit(view(id));
    }
  }
  // More than any BlockId.
  std::size_t ids() const { return blocks_.size(); }
  // Appends everything that decides future behaviour, in one canonical form: two states whose
  // words are equal act alike, given that the driver does and puts new segments above all others.
  // Of addresses only the order decides: segments and blocks are numbered in it; the numbers of
  // blocks are returned by their BlockId, -1 where there is none. Cumulative statistics are left
  // out, as are the tickets of outstanding events, which are the driver's.
  std::vector<std::int32_t> save_state(std::vector<std::int64_t>& out) const;
  // Appends a few numbers that equal states have in common, for a look before all of it is saved.
  void save_outline(std::vector<std::int64_t>& out) const;
  // What a stretch that is not replayed would have counted.
  void add_retries(std::int64_t count) { statistics_.num_alloc_retries += count; }
  // Calls visit(event) for every outstanding event, in the order of save_state.
  template <class Visit>
  void visit_events(const Visit& visit) const {
    for (const EventQueue& queue : queues_)
      for (std::size_t i = queue.head; i < queue.waiting.size(); ++i) visit(queue.waiting[i].first);
  }
  template <class Visit>
  void visit_events(const Visit& visit) {
    soonest_ = INT64_MIN;
    for (EventQueue& queue : queues_)
      for (std::size_t i = queue.head; i < queue.waiting.size(); ++i) visit(queue.waiting[i].first);
  }

  // Calls visit(event, its block) in the same order.
  template <class Visit>
  void visit_waiting(const Visit& visit) const {
    for (const EventQueue& queue : queues_)
      for (std::size_t i = queue.head; i < queue.waiting.size(); ++i)
        visit(queue.waiting[i].first, queue.waiting[i].second);
  }

  // For recorded histories. Completes what the driver says is reached, as any allocation would.
  void poll() {
    if (!pending_ || !open_regions_.empty()) return;
    if (clock_ == nullptr || *clock_ >= soonest_) process_events();
  }
  // Frees one whole cached segment, as pressure would. False if it is not one.
  bool release_segment(std::int64_t address);
  // Rebuilds one segment as it was when the recording began: its blocks from left to right.
  // Appends the ids of the allocated ones to `ids`.
  // REQUIRES: the address range is new; sizes > 0; free pieces do not touch.
  struct Piece {
    enum class Kind : std::uint8_t { allocated, free, unmapped };
    Kind kind = Kind::free;
    std::int64_t size = 0;
    std::int64_t requested = 0;
  };
  struct InitialSegment {
    std::int64_t address = 0;
    int stream = 0;
    int pool = 0;
    bool small = false;
    std::int64_t page = 0;  // 0 unless expandable
    std::vector<Piece> pieces;
  };
  void restore(const InitialSegment& segment, std::vector<BlockId>& ids);
  // These segments, in the place of all that are there; what was counted so far and the peaks stay.
  // REQUIRES: no private pools.
  void rebuild(std::span<const InitialSegment> segments, std::vector<BlockId>& ids);
  // Frees a block that waits for these events, each on another stream than its own.
  // REQUIRES: block is allocated and not recorded; no region is open.
  void free_behind(BlockId block, std::span<const Event> events);

 private:
  static constexpr std::int32_t none = -1;

  // What every step looks at: half a cache line.
  struct Block {
    std::int64_t address = 0;
    std::int64_t size = 0;
    BlockId left = no_block;
    BlockId right = no_block;
    std::int32_t sub_pool = 0;
    std::uint32_t events : 24 = 0;  // outstanding
    bool allocated : 1 = false;
    bool mapped : 1 = true;
    bool expandable : 1 = false;
    bool small : 1 = false;
    bool used : 1 = false;  // recorded on other streams since it was allocated

    bool split() const { return left != no_block || right != no_block; }
    bool idle() const { return !allocated && !used && events == 0; }
  };
  static_assert(sizeof(Block) == 32);

  // The rest of a block.
  struct Past {
    std::int64_t requested = 0;
    std::int64_t stamp = 0;    // the pool's number of searches when it was last freed
    std::int32_t uses = none;  // index into stream_uses_, when used
  };

  struct StreamUse {
    int stream = 0;
    bool in_capture = false;  // recorded while a region was open
  };

  struct Segment {
    std::int64_t size = 0;
    std::int64_t page = 0;  // 0 unless expandable
    BlockId head = no_block;
  };

  struct Pool {
    int number = 0;  // 0: default
    bool small = false;
    bool no_split = false;
    bool user_allocator = false;
    std::int64_t searches = 0;
    std::vector<std::pair<int, std::int32_t>> sub_pools;  // (stream, sub-pool), by stream
  };

  struct SubPool {
    std::int32_t pool = 0;
    int stream = 0;
    FreeList free;
    std::vector<BlockId> unmapped;  // by address
  };

  struct PrivatePool {
    std::int32_t small = 0;
    std::int32_t large = 0;
    int users = 0;
    bool use_on_oom = false;
  };

  struct Request {
    std::int64_t size = 0;
    std::int64_t segment = 0;
    std::int32_t sub_pool = 0;
    bool small = false;
  };

  // Outstanding events of a stream, oldest first, and the blocks that wait for them.
  struct EventQueue {
    int stream = 0;
    std::size_t head = 0;  // before it: reached
    std::vector<std::pair<Event, BlockId>> waiting;

    bool empty() const { return head == waiting.size(); }
    void push(const Event& event, BlockId id);
    void pop();
  };

  // A free block that was found or obtained, and where it is listed; the end: nowhere.
  struct Found {
    BlockId block = no_block;
    FreeList::Position position;
  };

  const Block& at(BlockId id) const { return blocks_[static_cast<std::size_t>(id)]; }
  Block& at(BlockId id) { return blocks_[static_cast<std::size_t>(id)]; }
  BlockView view(BlockId id) const {
    const Block& block = at(id);
    return {id, block.address, block.size, past(id).requested,
            block.allocated                  ? BlockState::active_allocated
            : block.events > 0 || block.used ? BlockState::active_pending_free
                                             : BlockState::inactive};
  }
  const Past& past(BlockId id) const { return pasts_[static_cast<std::size_t>(id)]; }
  Past& past(BlockId id) { return pasts_[static_cast<std::size_t>(id)]; }
  SubPool& sub_pool(std::int32_t i) { return sub_pools_[static_cast<std::size_t>(i)]; }
  const SubPool& sub_pool(std::int32_t i) const { return sub_pools_[static_cast<std::size_t>(i)]; }
  Pool& pool(std::int32_t i) { return pools_[static_cast<std::size_t>(i)]; }
  const Pool& pool(std::int32_t i) const { return pools_[static_cast<std::size_t>(i)]; }
  Pool& pool_of(const Block& block) { return pool(sub_pool(block.sub_pool).pool); }
  const Pool& pool_of(const Block& block) const { return pool(sub_pool(block.sub_pool).pool); }
  PoolStatistics& pool_statistics(bool small) {
    return small ? statistics_.small_pool : statistics_.large_pool;
  }
  void refresh();
  void trace(Action action, std::int64_t address, std::int64_t size, int stream) {
    if (trace_ != nullptr) trace_->push_back({action, address, size, stream});
  }

  // allocator.cpp: the hot path.
  BlockId new_block();
  void delete_block(BlockId id);
  std::int32_t sub_pool_for(std::int32_t pool, int stream);
  std::int32_t add_sub_pool(std::int32_t pool, int stream);
  std::int32_t pool_for(bool small) const;
  FreeList::Position find(const Request& request);
  bool acceptable(const Request& request, FreeList::Position& p) const;
  bool choose_expandable(const Request& request, FreeList::Position& p) const;
  BlockId allocate_slowly(Request request, std::int64_t requested, int stream);
  BlockId hand_out(const Request& request, std::int64_t requested, Found found);
  bool obtain(Request& request, int stream, Found& found);
  bool worth_splitting(const Request& request, const Block& block) const;
  void complete(BlockId block);
  bool idle(BlockId id) const;
  bool mergeable(BlockId id, bool mapped) const { return idle(id) && at(id).mapped == mapped; }

  // allocator_grow.cpp: getting memory from the driver.
  bool grow(const Request& request, bool retry, Found& found);
  bool expandable_on(const Request& request) const;
  bool grow_expandable(const Request& request, Found& found);
  BlockId expandable_candidate(const Request& request);
  BlockId new_expandable_segment(const Request& request);
  BlockId map(BlockId block, std::int64_t bytes);
  void report_oom(const Request& request, std::int64_t requested, int stream);
  Segment& segment_of(const Block& block) {
    return std::prev(segments_.upper_bound(block.address))->second;
  }
  BlockId cut(BlockId block, std::int64_t size);
  void absorb(BlockId left, BlockId right);
  BlockId merge_unlisted(BlockId block);
  void list(BlockId block);
  void unlist(BlockId block);

  // allocator_release.cpp: giving it back.
  bool release_available(const Request& request);
  void release_all();
  void release_pool_blocks(std::int32_t pool);
  void release_block(BlockId block);
  BlockId unmap(BlockId block);
  void drop_if_unmapped(BlockId block);
  void collect_garbage();
  bool find_in_spare_pools(Request& request, int stream, Found& found);

  // allocator_streams.cpp: blocks that other streams still use.
  void process_events();
  PrivatePool& private_pool(int number, const PoolOptions& options);
  EventQueue& queue_of(int stream);
  void record_events(BlockId block);
  void record_deferred();
  void forget_segments();
  void synchronize_and_free();
  void finish_event(BlockId block);

  Driver* driver_;  // never null; a pointer so that a state can be kept and put back
  Options options_;
  Rules rules_;

  std::vector<Block> blocks_;
  std::vector<Past> pasts_;  // of the same
  std::vector<BlockId> unused_blocks_;
  std::vector<SubPool> sub_pools_;
  std::vector<Pool> pools_;  // 0: default large, 1: default small, then the private ones
  std::map<std::int64_t, Segment> segments_;  // by address
  std::map<int, PrivatePool> private_pools_;
  std::vector<int> open_regions_;  // oldest first

  std::int64_t total_ = 0;
  std::int64_t limit_ = unlimited;
  bool divided_ = false;     // sizes are rounded by divisions of powers of two
  bool counted_ = false;     // searches were ever counted: blocks are stamped with their number
  bool choosy_ = false;      // the first fit may not be the one: see acceptable()
  bool collecting_ = false;  // a limit and a threshold are set: searches are counted

  const std::int64_t* clock_;         // the driver's; may be null
  std::int64_t soonest_ = INT64_MAX;  // with a clock: nothing is reached before
  std::vector<EventQueue> queues_;    // by stream; empty ones stay
  std::vector<BlockId> deferred_;     // freed during a capture
  std::vector<std::vector<StreamUse>> stream_uses_;
  std::vector<std::int32_t> unused_stream_uses_;
  bool pending_ = false;  // something may wait for a stream

  bool detailed_ = true;
  Statistics statistics_;
  OutOfMemory last_oom_;
  std::vector<TraceEntry>* trace_ = nullptr;
};

}  // namespace sim::allocator
