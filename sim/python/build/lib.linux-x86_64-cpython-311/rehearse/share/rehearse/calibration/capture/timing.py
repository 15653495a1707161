"""How a kernel is timed: back to back with itself, as kernels follow each other in a step, the CPU
far ahead and the operands too many for the L2 cache to hold."""

import csv
import time

import torch

CACHE = 160e6  # bytes of operands that no L2 cache of today holds
AHEAD = 3e5  # cycles that the GPU spins while the CPU issues
REST = 1.5  # seconds idle for each second of work: else the power limit sets the clock

COLUMNS = ["source", "where", "trust", "kernel", "gpu", "dtype", "m", "n", "k", "layout",
           "accumulate", "batch", "seq", "kv_seq", "heads", "kv_heads", "head_dim", "causal",
           "direction", "tflops", "time_us", "impl", "bytes", "notes"]


class Table:
    """Rows of one table, written as they come: what was measured before a failure is kept."""

    def __init__(self, path, columns, **always):
        self.file = open(path, "w", newline="")
        self.out = csv.DictWriter(self.file, columns, restval="", lineterminator="\n")
        self.out.writeheader()
        self.always = always

    def add(self, **cells):
        self.out.writerow(dict(self.always, **cells))
        self.file.flush()


def sets_of(bytes_):
    """How many sets of operands of that size a measurement goes round."""
    return max(1, min(8, int(-(-CACHE // max(1, bytes_)))))


def elapsed_us(calls, repeats):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.current_stream().synchronize()
    torch.cuda._sleep(int(AHEAD + 2e4 * min(repeats, 200)))
    begin.record()
    for i in range(repeats):
        calls[i % len(calls)]()
    end.record()
    end.synchronize()
    return 1e3 * begin.elapsed_time(end) / repeats


def time_us(calls, target_us=3000, rounds=3):
    """Least of `rounds` means of calls that follow each other for about `target_us`; each call of
    `calls` does the same with operands of its own."""
    begin = time.monotonic()
    for call in calls:
        call()
    rough = elapsed_us(calls, max(2, len(calls)))
    repeats = int(max(3, min(300, target_us / max(rough, 1))))
    least = min(elapsed_us(calls, repeats) for _ in range(rounds))
    time.sleep(REST * (time.monotonic() - begin))
    return least
