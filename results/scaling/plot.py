#!/usr/bin/env python3
"""Draws growth.svg from growth.csv (needs matplotlib)."""

import csv
from pathlib import Path

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams.update({"svg.hashsalt": "growth", "svg.fonttype": "none", "font.size": 9})
import matplotlib.pyplot as plt

HERE = Path(__file__).parent
NAMES = {"microbatches": "microbatches", "layers": "layers", "gpus": "GPUs (replicas)"}
COLORS = {"microbatches": "#0072b2", "layers": "#d55e00", "gpus": "#009e73"}


def main():
    with (HERE / "growth.csv").open() as file:
        rows = list(csv.DictReader(file))
    figure, sides = plt.subplots(1, 2, figsize=(7, 3), sharex=True)
    for side, memory in zip(sides, ("none", "exact")):
        side.set_title("time alone" if memory == "none" else "time and memory")
        for of, name in NAMES.items():
            own = [r for r in rows if r["of"] == of and r["memory"] == memory]
            side.loglog([int(r["times"]) for r in own], [float(r["cpu_ms"]) for r in own],
                        marker="o", color=COLORS[of], label=name)
        side.set_xlabel("times")
        side.grid(alpha=0.3)
    sides[0].set_ylabel("CPU time of an answer, ms")
    sides[0].legend(frameon=False)
    figure.tight_layout()
    figure.savefig(HERE / "growth.svg", metadata={"Date": None})


main()
