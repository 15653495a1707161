from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, Union

Result = dict[str, Any]
Scalar = Union[str, int, float, bool, "PathLike[str]"]
Value = Union[Scalar, Sequence[Scalar], Mapping[str, "Value"]]
Name = Union[str, "PathLike[str]"]

class Error(Exception):
    exit_code: int
    problems: list[dict[str, str]]
    def __init__(self, text: str, exit_code: int, problems: list[dict[str, str]]) -> None: ...

def run(
    plan: Name | None = None,
    *,
    timelines: bool = False,
    fixes: bool = False,
    method: str | None = None,
    network: str | None = None,
    steps: int | None = None,
    memory: str | None = None,
    **settings: Value,
) -> Result: ...
def memory_estimate(plan: Name, **settings: Value) -> Result: ...
def plan(
    model: Name,
    cluster: Name | None = None,
    *,
    gpus: int | Sequence[int] | None = None,
    batch: int | None = None,
    sequence: int | None = None,
    objective: str | None = None,
    rate: float | None = None,
    price: float | None = None,
    headroom: str | None = None,
    best: int | None = None,
    time_limit: float | None = None,
    jobs: int | None = None,
    **settings: Value,
) -> Result: ...
def sweep(
    grid: Name | None = None,
    *,
    jobs: int | None = None,
    memory: str | None = None,
    **settings: Value,
) -> Iterator[Result]: ...
