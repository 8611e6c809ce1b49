"""The whole contract."""

from __future__ import annotations

from ._auditing import AuditingContract
from ._capping import CappingContract
from ._coding import CodingContract
from ._creating import CreatingContract
from ._declaring import DeclaringContract
from ._failing import FailingContract
from ._filing import FilingContract
from ._finding import FindingContract
from ._isolating import IsolatingContract
from ._network import NetworkContract
from ._placing import PlacingContract
from ._running import RunningContract
from ._secreting import SecretingContract
from ._stopping import StoppingContract
from ._streaming import StreamingContract
from ._surroundings import SurroundingsContract
from ._syncing import SyncingContract
from ._transferring import TransferringContract

__all__ = ["BackendContract"]


class BackendContract(
    CreatingContract,
    FailingContract,
    FindingContract,
    RunningContract,
    SurroundingsContract,
    StoppingContract,
    StreamingContract,
    CodingContract,
    FilingContract,
    PlacingContract,
    TransferringContract,
    DeclaringContract,
    NetworkContract,
    CappingContract,
    IsolatingContract,
    SecretingContract,
    AuditingContract,
    SyncingContract,
):
    """Every clause; subclass it, and see `ContractBase` for what to set."""
