"""Symptoms, from the wire to core's values."""

from __future__ import annotations

from vgpumgr.core.model import snapshot, symptoms
from vgpumgr.host.protocol.snapshot import UnknownFact
from vgpumgr.host.protocol.symptoms import (
    ClientFact,
    FunctionFact,
    MdevDefinitionFact,
    ModuleVersionFact,
    OnShutdownFact,
    Symptoms,
    UnitFact,
)
from vgpumgr.link.host_text import clean
from vgpumgr.link.values.by_name import declare

declare(UnknownFact, snapshot.Unknown)
declare(FunctionFact, symptoms.Function)
declare(ModuleVersionFact, symptoms.ModuleVersion)
declare(UnitFact, symptoms.Unit)
declare(ClientFact, symptoms.Client, command=lambda row: clean(row["command"]))
declare(MdevDefinitionFact, symptoms.MdevDefinition)
declare(OnShutdownFact, symptoms.OnShutdown)
parse = declare(Symptoms, symptoms.Symptoms, log=lambda row: tuple(map(clean, row["log"])))
