// allocator.h — PyTorch's CUDA caching allocator, exact to the byte and to the block.
//
// The engine calls it for every tensor of a rank, through engine/rank/rank_memory.h. `rehearse
// memory` replays recorded traces with it. Sizes, addresses, the order of driver calls, statistics
// and the actions of PyTorch's memory history are the same as PyTorch's.
//
// How it works. The driver gives memory in segments. A segment is a chain of blocks. Each free
// block is in the free list of its pool and stream. A request takes the smallest free block that
// fits; the lowest address wins among equal sizes. The block is split if the remainder is large
// enough. A freed block merges with its free neighbours.
//
// Names. A pool is default or private (CUDA graphs, MemPool), and small or large. A sub-pool holds
// the memory of one pool on one stream. A block never leaves its sub-pool.
//
// Invariants
//  (1) The blocks of a segment tile it. Two neighbours of the same kind are never both free.
//  (2) A block that is neither allocated nor waiting for a stream is in exactly one list of its
//      sub-pool: the free list if it is mapped, else the list of unmapped blocks.
//  (3) The first block of a segment keeps its id for the life of the segment.
//  (4) A call is a pure function of the state and the driver's answers: no clock, no hashing.
//
// Source: PyTorch's native backend, in two versions (options.h). PyTorch processes the events of
// several streams in the order of a hash table; we process them by stream number.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sim/allocator/driver.h"
#include "sim/allocator/free_blocks/free_bins.h"
#include "sim/allocator/options.h"
#include "sim/allocator/statistics.h"
#include "sim/base/units.h"

namespace sim::allocator {

// The actions of PyTorch's memory history, with its names.
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

// One entry of the memory history.
struct TraceEntry {
  Action action = Action::alloc;
  std::int64_t address = 0;  // of the block or segment; oom: free bytes of the device
  std::int64_t size = 0;     // bytes; alloc and free: as requested; oom: rounded
  int stream = 0;

  friend bool operator==(const TraceEntry&, const TraceEntry&) = default;
};

enum class BlockState : std::uint8_t { active_allocated, active_pending_free, inactive };

// A copy of the facts of one block, for output and tests. Sizes in bytes.
struct BlockView {
  BlockId id = no_block;
  std::int64_t address = 0;
  std::int64_t size = 0;
  std::int64_t requested = 0;  // of the tensor; of a free block: of its last tensor
  BlockState state = BlockState::inactive;
};

// One cudaMalloc, or one contiguous mapped range of an expandable segment. Sizes in bytes.
struct SegmentView {
  std::int64_t address = 0;
  std::int64_t total = 0;
  std::int64_t allocated = 0;
  std::int64_t active = 0;
  std::int64_t requested = 0;
  int stream = 0;
  int pool = 0;  // number of the private pool; 0: a default pool
  bool small = false;
  bool expandable = false;
  std::vector<BlockView> blocks;
};

// The last request that failed. Sizes in bytes.
struct OutOfMemory {
  std::int64_t requested = 0;
  std::int64_t rounded = 0;
  std::int64_t segment = 0;  // size of the last request to the driver
  std::int64_t device_free = 0;
  int stream = 0;
};

// Settings of a private pool (torch.cuda.MemPool). Rules::newer only, except user_allocator.
struct PoolOptions {
  bool use_on_oom = false;      // other requests may use its free blocks before they fail
  bool no_split = false;        // never splits a block
  bool user_allocator = false;  // its segments are never expandable
};

class Allocator {
 public:
  explicit Allocator(Driver& driver, Options options = {}, Rules rules = Rules::newer);

  // Allocates `size` bytes on `stream`. Out of memory: no_block, and last_out_of_memory() has the
  // details. REQUIRES: 0 < size <= largest_request.
  BlockId allocate(std::int64_t size, int stream = 0);
  // Frees a block. If it was recorded on other streams, it waits for them first.
  // REQUIRES: block is allocated.
  void free(BlockId block);
  // Marks the block as used on `stream` too (Tensor.record_stream). After free() the block waits
  // until that stream has finished its present work.
  // REQUIRES: block is allocated.
  void record_stream(BlockId block, int stream);
  // Returns cached segments to the driver (torch.cuda.empty_cache).
  void empty_cache();
  // Limits reserved memory to a share of the device's memory. REQUIRES: 0 <= fraction <= 1.
  void set_memory_fraction(double fraction);
  void set_options(const Options& options) { options_ = options, refresh(); }

  // Private pools, numbered from 1. Between begin_pool and end_pool (a capture), all allocations
  // use that pool.
  void begin_pool(int pool, PoolOptions options = {});
  void end_pool(int pool);
  // One user of the pool ends. A pool without users gives its memory back under pressure.
  // REQUIRES: the pool has a user.
  void release_pool(int pool);

  std::int64_t address(BlockId block) const { return at(block).address; }
  std::int64_t size(BlockId block) const { return at(block).size; }
  std::int64_t requested(BlockId block) const { return past(block).requested; }
  const Options& options() const { return options_; }
  Rules rules() const { return rules_; }
  const Statistics& statistics() const { return record_.statistics; }
  void reset_peaks() { record_.statistics.reset_peaks(); }
  const OutOfMemory& last_out_of_memory() const { return record_.last_oom; }
  Bytes reserved() const { return {total_}; }
  // The largest free block of the default large (or small) pool on a stream; 0 if there is none.
  Bytes largest_free_block(int stream = 0, bool small = false) const;
  // Whether plain best fit holds: any free block that is large enough serves a request. False with
  // options that refuse blocks, round to more than 512 bytes or count searches, and with private
  // pools. The sub-pool machine requires it (sub_pools/sub_pool_machine.h).
  bool takes_what_fits() const;
  // Whether a free block serves this request now, without the driver. Pending frees are not polled.
  bool serves(std::int64_t size, int stream) const;
  // The most bytes that this request would take from the driver: a segment, or pages of one.
  std::int64_t most_from_driver(std::int64_t size) const;
  // Bytes below the limit of set_memory_fraction; `unlimited` without one.
  std::int64_t left_below_limit() const;
  // Whether old segments are given back before new ones are made (garbage_collection_threshold).
  bool collects_garbage() const { return derived_.collecting; }
  // False keeps only allocated, active and reserved bytes and the counts of rare events, which is
  // faster. Segments and blocks do not depend on it.
  void set_detailed_statistics(bool detailed) { record_.detailed = detailed; }

  // Appends the actions of the memory history to `sink` from now on; nullptr turns this off.
  void set_trace(std::vector<TraceEntry>* sink) { record_.trace = sink; }

  std::vector<SegmentView> segments() const;  // by address
  // All segments without a copy. For each segment it calls begin(view), where the view has neither
  // byte counts nor blocks, and then visit(block) for each mapped block.
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
  // Greater than every BlockId.
  std::size_t ids() const { return blocks_.size(); }
  // Appends everything that decides future behaviour, in canonical form. Two allocators with equal
  // words behave alike if their drivers do and place new segments above all others. Addresses enter
  // only by their order: segments and blocks are numbered by address. Not included: cumulative
  // statistics and the tickets of outstanding events, which belong to the driver.
  // Returns the number of each block, indexed by BlockId; -1 for unused ids.
  std::vector<std::int32_t> save_state(std::vector<std::int64_t>& out) const;
  // Appends a few numbers that are equal in equal states: a cheap test before save_state.
  void save_outline(std::vector<std::int64_t>& out) const;
  // Adds allocation retries of steps that were skipped instead of replayed.
  void add_retries(std::int64_t count) { record_.statistics.num_alloc_retries += count; }
  // Calls visit(event) for every outstanding event, in the order of save_state. The second form may
  // change the events.
  template <class Visit>
  void visit_events(const Visit& visit) const {
    for (const EventQueue& queue : streams_.queues)
      for (std::size_t i = queue.head; i < queue.waiting.size(); ++i) visit(queue.waiting[i].first);
  }
  template <class Visit>
  void visit_events(const Visit& visit) {
    streams_.soonest = INT64_MIN;
    for (EventQueue& queue : streams_.queues)
      for (std::size_t i = queue.head; i < queue.waiting.size(); ++i) visit(queue.waiting[i].first);
  }

  // Calls visit(event, block that waits for it) in the same order.
  template <class Visit>
  void visit_waiting(const Visit& visit) const {
    for (const EventQueue& queue : streams_.queues)
      for (std::size_t i = queue.head; i < queue.waiting.size(); ++i)
        visit(queue.waiting[i].first, queue.waiting[i].second);
  }

  // Completes the frees whose events the driver reports as reached. Every allocation starts with
  // it.
  void poll() {
    if (!streams_.pending || !captures_.open.empty()) return;
    if (streams_.clock == nullptr || *streams_.clock >= streams_.soonest) process_events();
  }
  // Gives one cached segment back to the driver, as an allocation retry would. False if the segment
  // is unknown, expandable or in use.
  bool release_segment(std::int64_t address);
  // Adds one segment with the given blocks, from left to right, and appends the ids of its
  // allocated blocks to `ids`. Recorded histories and the sub-pool replay call it.
  // REQUIRES: the address range is new; sizes > 0; two free pieces never touch.
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
  // Replaces all segments by these. Cumulative counts and peaks stay as they are.
  // REQUIRES: no private pools.
  void rebuild(std::span<const InitialSegment> segments, std::vector<BlockId>& ids);
  // Frees a block that must wait for these events, each on a stream other than its own.
  // REQUIRES: block is allocated and not recorded on other streams; no private pool is open.
  void free_behind(BlockId block, std::span<const Event> events);

 private:
  static constexpr std::int32_t none = -1;

  // The fields that every call reads: half a cache line.
  struct Block {
    std::int64_t address = 0;
    std::int64_t size = 0;
    BlockId left = no_block;
    BlockId right = no_block;
    std::int32_t sub_pool = 0;
    std::uint32_t events : 24 = 0;  // number of outstanding events
    bool allocated : 1 = false;
    bool mapped : 1 = true;
    bool expandable : 1 = false;
    bool small : 1 = false;
    bool used : 1 = false;  // recorded on another stream since its allocation

    bool split() const { return left != no_block || right != no_block; }
    bool idle() const { return !allocated && !used && events == 0; }
  };
  static_assert(sizeof(Block) == 32);

  // The fields of a block that few calls read.
  struct Past {
    std::int64_t requested = 0;
    std::int64_t stamp = 0;    // Pool::searches at the last free (age for garbage collection)
    std::int32_t uses = none;  // index into streams_.uses, when used
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
    FreeBins free;
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
    std::size_t head = 0;  // entries before it are reached
    std::vector<std::pair<Event, BlockId>> waiting;

    bool empty() const { return head == waiting.size(); }
    void push(const Event& event, BlockId id);
    void pop();
  };

  // A free block for a request, and its position in the free list; at_end: it is in no list.
  struct Found {
    BlockId block = no_block;
    FreeBins::Position position;
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
    return small ? record_.statistics.small_pool : record_.statistics.large_pool;
  }
  void refresh();
  void trace(Action action, std::int64_t address, std::int64_t size, int stream) {
    if (record_.trace != nullptr) record_.trace->push_back({action, address, size, stream});
  }

  // allocator.cpp: the hot path.
  BlockId new_block();
  void delete_block(BlockId id);
  std::int32_t sub_pool_for(std::int32_t pool, int stream);
  std::int32_t add_sub_pool(std::int32_t pool, int stream);
  std::int32_t pool_for(bool small) const;
  FreeBins::Position find(const Request& request);
  bool acceptable(const Request& request, FreeBins::Position& p) const;
  bool choose_expandable(const Request& request, FreeBins::Position& p) const;
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

  // allocator_release.cpp: giving memory back to the driver.
  bool release_available(const Request& request);
  void release_all();
  void release_pool_blocks(std::int32_t pool);
  void release_block(BlockId block);
  BlockId unmap(BlockId block);
  void drop_if_unmapped(BlockId block);
  void collect_garbage();
  bool find_in_spare_pools(Request& request, int stream, Found& found);

  // allocator_streams.cpp: freed blocks that other streams still use, and private pools.
  void process_events();
  PrivatePool& private_pool(int number, const PoolOptions& options);
  EventQueue& queue_of(int stream);
  void record_events(BlockId block);
  void record_deferred();
  void forget_segments();
  void synchronize_and_free();
  void finish_event(BlockId block);

  Driver* driver_;  // never null; a pointer so that an Allocator can be copied and assigned
  Options options_;
  Rules rules_;

  std::vector<Block> blocks_;
  std::vector<Past> pasts_;  // by BlockId, as blocks_
  std::vector<BlockId> unused_blocks_;
  std::vector<SubPool> sub_pools_;
  std::vector<Pool> pools_;  // 0: default large, 1: default small, then the private ones
  std::map<std::int64_t, Segment> segments_;  // by address

  // Private pools, for captured graphs and for users.
  struct Captures {
    std::map<int, PrivatePool> pools;
    std::vector<int> open;  // regions, oldest first
  };
  Captures captures_;

  std::int64_t total_ = 0;
  std::int64_t limit_ = unlimited;
  // What the options imply for the hot path.
  struct Derived {
    bool divided = false;     // roundup_power2_divisions is set
    bool counted = false;     // searches were counted at some time: freed blocks get a stamp
    bool choosy = false;      // options may refuse the first fit: see acceptable()
    bool collecting = false;  // garbage collection is on: searches are counted
  };
  Derived derived_;

  // Freed blocks that streams still use.
  struct Streams {
    const std::int64_t* clock = nullptr;  // the driver's; may be null
    std::int64_t soonest = INT64_MAX;     // with a clock: no event is reached before this time
    std::vector<EventQueue> queues;       // by stream; empty ones stay
    std::vector<BlockId> deferred;        // freed during a capture
    std::vector<std::vector<StreamUse>> uses;
    std::vector<std::int32_t> unused_uses;
    bool pending = false;  // a freed block may wait for a stream
  };
  Streams streams_;

  // What is reported to the caller.
  struct Record {
    bool detailed = true;
    Statistics statistics;
    OutOfMemory last_oom;
    std::vector<TraceEntry>* trace = nullptr;
  };
  Record record_;
};

}  // namespace sim::allocator
