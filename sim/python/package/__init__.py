"""Rehearse a training run before you pay for it.

    import rehearse
    rehearse.run("llama-2-7b-64", tp=4)["step_time_ps"]

The program's commands in this process: a function returns what `rehearse COMMAND --json` prints
as `result`, plain dicts with the names of that schema (sim/formats.md). Settings are keyword
arguments, `tp=4`; those of a block are a dict, `fabric={"oversubscription": 4}`. Several values are
any iterable, `tp=[1, 2]` or `tp=range(1, 5)`; None is a setting that is not given. What the program
refuses is an `Error` with the program's text.
"""

import json
import os
from collections.abc import Iterable

from . import _rehearse

__all__ = ["Error", "calibrate", "campaign", "command", "compare", "explain", "memory_estimate",
           "plan", "run", "sweep", "to_dataframe", "validate", "whatif"]

__version__ = _rehearse.__version__


class Error(Exception):
    """What the program refuses: its text, its exit code, and its problems one by one."""

    def __init__(self, text, exit_code, problems):
        super().__init__(text)
        self.exit_code = exit_code
        self.problems = problems

    def __reduce__(self):  # processes of a pool hand it over
        return Error, (str(self), self.exit_code, self.problems)


def _program_folder():
    """Where the program stands: beside this package in a build folder, or installed."""
    own = os.path.dirname(os.path.abspath(__file__))
    for way in ("../..", "../../../../bin"):
        folder = os.path.normpath(os.path.join(own, way))
        if os.path.isfile(os.path.join(folder, "rehearse")):
            return folder
    return own


_rehearse.set_program_folder(_program_folder())


def _document(said):
    code, out, err = said
    document = json.loads(out) if out else {"schema": "rehearse/error/1"}
    if document.get("schema", "").startswith("rehearse/error/"):
        problems = document.get("result", {}).get("problems", [])
        raise Error(err.rstrip("\n"), code, problems)
    return document


def _ask(command, words):
    return _document(_rehearse.ask(command, _encoded(words)))["result"]


def _encoded(words):
    """Names of files are bytes, whatever the locale."""
    return [os.fsencode(word) for word in words]


def _text(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (bytes, os.PathLike)):
        return os.fsdecode(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))  # 4.0 of a data frame is 4
    value = _several(value)
    return ",".join(map(_text, value)) if isinstance(value, list) else str(value)


def _several(value):
    """A list of what has several values; anything else as it is."""
    if isinstance(value, (set, frozenset)):
        return sorted(value)  # its own order changes from process to process
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes, os.PathLike, dict)):
        return list(value)
    return value


def _flat(settings, block=""):
    """(name, value) of each that is given; of a block's with the block's name in front."""
    for name, value in settings.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{block}{name}.")
        elif value is not None:
            yield block + name, _several(value)


def _words(settings):
    return [f"{name}={_text(value)}" for name, value in _flat(settings)]


def _options(given):
    """`time_limit=60` is --time-limit=60; True is a flag."""
    words = []
    for name, value in given.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            words.append(option)
        elif value is not None and value is not False:
            words.append(f"{option}={_text(value)}")
    return words


def _arrays(columns):
    import numpy

    if isinstance(columns, dict):
        return {name: _arrays(column) for name, column in columns.items()}
    return numpy.asarray(columns) if isinstance(columns, list) else columns


def run(plan=None, *, timelines=False, kernels=False, fixes=False, method=None, network=None, steps=None,
        memory=None, **settings):
    """One training step of a plan: a name of workloads/, a path, or settings alone.

    With `timelines` the result has "timelines": NumPy arrays of the passes of the last step
    ("passes") and, for each rank class, of memory over time ("memory"). With `kernels` it has
    "kernels" and "collectives": lists of dicts, of the first rank of each stage.
    """
    if timelines:
        import numpy  # noqa: F401  (without it, no run is needed to say so)
    words = _options({"timelines": timelines, "kernels": kernels, "fixes": fixes,
                      "method": method, "network": network, "steps": steps, "memory": memory})
    words += ([] if plan is None else [_text(plan)]) + _words(settings)
    result = _ask("run", words)
    if timelines:
        found = result["timelines"]
        found["passes"] = _arrays(found["passes"])
        found["memory"] = [_arrays(one) for one in found["memory"]]
    return result


def explain(plan=None, *, fixes=True, **settings):
    """Every byte of a GPU's memory, and the smallest changes with which a plan would fit."""
    words = _options({"no_fixes": not fixes})
    return _ask("explain", words + ([] if plan is None else [_text(plan)]) + _words(settings))


def whatif(plan=None, *, vary, price=None, network=None, memory=None, jobs=None, **settings):
    """The same plan under changed conditions: a list of variants, the base first.

    `vary` is a dict of settings and their values; all combinations are tried.
    """
    words = [f"--vary={name}={_text(values)}" for name, values in _flat(vary)]
    words += _options({"price": price, "network": network, "memory": memory, "jobs": jobs})
    return _ask("whatif", ([] if plan is None else [_text(plan)]) + words + _words(settings))


def validate(*tables, where=None, by=(), jobs=None):
    """Predicted against measured, for tables of measured runs. `where`: column to text."""
    words = [f"--where={column}={_text(text)}" for column, text in (where or {}).items()]
    words += [f"--by={column}" for column in ([by] if isinstance(by, str) else by)]
    return _ask("validate", [_text(table) for table in tables] + words + _options({"jobs": jobs}))


def compare(*logs, plan=None, megatron_args=None, **settings):
    """The logs or traces of a run against the prediction of its plan."""
    words = [_text(log) for log in logs] + ([] if plan is None else [_text(plan)])
    return _ask("compare", words + _options({"megatron_args": megatron_args}) + _words(settings))


def calibrate(*files, plan=None, cluster=None, profile=None, output=None, force=False, **settings):
    """Fits a profile to measured runs, NCCL tables or traces; `output`: the file to write."""
    words = [_text(file) for file in files]
    words += _options({"plan": plan, "cluster": cluster, "profile": profile, "output": output,
                       "force": force})
    return _ask("calibrate", words + [f"--set={word}" for word in _words(settings)])


def command(name, *words, **options):
    """Any command that has `--json`: `command("topo", "check", "dgx-h100")`. Options are keywords."""
    return _ask(name, [_text(word) for word in words] + _options(options))


def campaign(plan=None, *, vary=None, **options):
    """A run over weeks: failures, checkpoints, goodput.

    Options are those of `rehearse campaign`: `step_time=10, gpus=64, mtbf="3h"`. Settings of the
    plan are a dict: `settings={"tp": 4}`.
    """
    settings = options.pop("settings", {})
    words = [f"--vary={name}={_text(values)}" for name, values in (vary or {}).items()]
    words += _options(options)
    return _ask("campaign", ([] if plan is None else [_text(plan)]) + words + _words(settings))


def to_dataframe(found, table=None):
    """A pandas DataFrame of records: those of `sweep`, variants of `whatif`, or a list of a result.

    `table` names the list of a result, for example "plans" or "rank_classes"; it may be left out
    where the result has one such list. Columns of blocks have their names joined by a dot.
    """
    import pandas

    if isinstance(found, dict):
        lists = [name for name, value in found.items()
                 if isinstance(value, list) and value and isinstance(value[0], dict)]
        if table is None and len(lists) == 1:
            table = lists[0]
        if table not in lists:
            raise ValueError(f"name one of the result's tables: table={' or '.join(lists)}")
        found = found[table]
    return pandas.json_normalize(list(found))


def memory_estimate(plan, **settings):
    """The closed-form estimate of a plan's memory."""
    return _ask("memory", ["estimate", _text(plan)] + _words(settings))


def plan(model=None, cluster=None, *, megatron_args=None, gpus=None, batch=None, sequence=None,
         objective=None, rate=None, price=None, headroom=None, best=None, time_limit=None,
         jobs=None, **settings):
    """The best of all plans. A setting fixes a field, a list of values restricts it.

    Instead of a model and a cluster: the path of a search (`rehearse init search`), or a plan to
    start from: its name or path, or a launch file as `megatron_args`, whose cluster is `cluster`.
    """
    if megatron_args is None:
        words = [_text(name) for name in (model, cluster) if name is not None]
    else:
        words = _options({"megatron_args": megatron_args, "cluster": cluster})
        words += [] if model is None else ["model=" + _text(model)]
    words += _options({"gpus": gpus, "batch": batch, "sequence": sequence, "objective": objective,
                       "rate": rate, "price": price, "headroom": headroom, "best": best,
                       "time_limit": time_limit, "jobs": jobs})
    return _ask("plan", words + _words(settings))


def _grid_of(settings):
    """The text of a grid: what is a list varies, the first the slowest."""
    quoted = json.dumps
    sets = vary = ""
    for name, value in _flat(settings):
        if isinstance(value, list):
            rows = quoted("|".join(map(_text, value)))
            vary += f"  vary {{ keys: {quoted(name)} rows: {rows} }}\n"
        else:
            sets += f"  set: {quoted(f'{name}={_text(value)}')}\n"
    return ('name: "sweep"\nbases { name: "base" plan {} }\n'
            f'families {{\n  name: "sweep"\n  base: "base"\n{sets}{vary}}}\n')


def sweep(grid=None, *, jobs=None, memory=None, peaks=False, **settings):
    """An iterator over the records of a grid (a line of results.jsonl each), in its order.

    `grid` is a name or a path; without one, the settings are the grid: those that are lists vary.
    `jobs` processes work at once, one for each core where nothing is said. `peaks`: exact peaks
    also of plans whose tensors alone exceed the memory.
    """
    if grid is not None:
        [name] = _encoded([_text(grid)])
        sweep_of = _rehearse.Sweep(name, _encoded(_words(settings)), memory or "", peaks, jobs)
        _document_or_nothing(sweep_of.open())
    else:
        import tempfile

        with tempfile.TemporaryDirectory(prefix="rehearse-") as folder:
            path = os.path.join(folder, "sweep.textproto")
            with open(path, "w", encoding="utf-8") as file:
                file.write(_grid_of(settings))
            sweep_of = _rehearse.Sweep(path, [], memory or "", peaks, jobs)
            _document_or_nothing(sweep_of.open())
    return _records(sweep_of)


def _document_or_nothing(said):
    return _document(said) if said[0] != 0 or said[1] else None


def _records(sweep_of):
    while True:
        record = _document_or_nothing(sweep_of.next())
        if record is None:
            return
        yield record
