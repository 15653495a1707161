from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, Unpack, Union

from ._settings import FieldLists, Name, SettingLists, Settings

if TYPE_CHECKING:
    import pandas

__version__: str

Result = dict[str, Any]
Scalar = Union[str, int, float, bool, "PathLike[str]"]
Value = Union[Scalar, Iterable[Scalar], Mapping[str, "Value"]]

class Error(Exception):
    exit_code: int
    problems: list[dict[str, str]]
    def __init__(self, text: str, exit_code: int, problems: list[dict[str, str]]) -> None: ...

def run(
    plan: Name | None = None,
    *,
    timelines: bool = False,
    kernels: bool = False,
    fixes: bool = False,
    method: str | None = None,
    network: str | None = None,
    steps: int | None = None,
    memory: str | None = None,
    **settings: Unpack[Settings],
) -> Result: ...
def explain(
    plan: Name | None = None, *, fixes: bool = True, **settings: Unpack[Settings]
) -> Result: ...
def memory_estimate(plan: Name, **settings: Unpack[Settings]) -> Result: ...
def whatif(
    plan: Name | None = None,
    *,
    vary: Mapping[str, Value],
    price: float | None = None,
    network: str | None = None,
    memory: str | None = None,
    jobs: int | None = None,
    **settings: Unpack[Settings],
) -> list[Result]: ...
def validate(
    *tables: Name,
    where: Mapping[str, Scalar] | None = None,
    by: str | Iterable[str] = (),
    jobs: int | None = None,
) -> Result: ...
def compare(
    *logs: Name,
    plan: Name | None = None,
    megatron_args: Name | None = None,
    **settings: Unpack[Settings],
) -> Result: ...
def calibrate(
    *files: Name,
    plan: Name | None = None,
    cluster: Name | None = None,
    profile: Name | None = None,
    output: Name | None = None,
    force: bool = False,
    **settings: Scalar,
) -> Any: ...
def command(name: str, *words: Scalar, **options: Scalar | None) -> Any: ...
def campaign(
    plan: Name | None = None,
    *,
    vary: Mapping[str, Value] | None = None,
    settings: Settings = ...,
    **options: Scalar,
) -> Any: ...
def to_dataframe(
    found: Result | Iterable[Result], table: str | None = None
) -> "pandas.DataFrame": ...
def plan(
    model: Name | None = None,
    cluster: Name | None = None,
    *,
    megatron_args: Name | None = None,
    gpus: int | Iterable[int] | None = None,
    batch: int | None = None,
    sequence: int | None = None,
    objective: str | None = None,
    rate: float | None = None,
    price: float | None = None,
    headroom: str | None = None,
    best: int | None = None,
    time_limit: float | None = None,
    jobs: int | None = None,
    **settings: Unpack[FieldLists],
) -> Result: ...
def sweep(
    grid: Name | None = None,
    *,
    jobs: int | None = None,
    memory: str | None = None,
    peaks: bool = False,
    **settings: Unpack[SettingLists],
) -> Iterator[Result]: ...
